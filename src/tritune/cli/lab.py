"""Real Triton servers for demos: started from the private environment, gone when this process is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tritune.cli.wiring import connect
from tritune.embedded.environment import ensure_environment
from tritune.embedded.server import start, stop
from tritune.load.hey import run_hey
from tritune.triton.example_request import json_request
from tritune.triton.server import TritonServer
from tritune.verbs.ports import Progress

# Nobody else uses these servers, and what they still have to unload ends with them.
_QUICK_EXIT = ("--exit-timeout-secs=1",)


class Lab:
    """Makes the environment once, then starts servers; `folder` keeps their logs."""

    def __init__(self, folder: Path, progress: Progress) -> None:
        self.folder = folder
        self.progress = progress
        self.environment = ensure_environment(progress.step)
        self._started = 0

    @contextmanager
    def server(self, repository: Path, why: str) -> Iterator[TritonServer]:
        """A fresh server on `repository`, stopped at the end whatever happens."""
        self._started += 1
        self.progress.step(f"starting Triton ({why})")
        running = start(
            repository,
            environment=self.environment,
            die_with_parent=True,
            folder=self.folder / f"triton-{self._started}",
            extra_flags=_QUICK_EXIT,
        )
        try:
            with connect(running.url, grpc=running.grpc, metrics=running.metrics) as server:
                yield server
        finally:
            stop(running)


def hey_p99_ns(server: TritonServer, model: str, *, concurrency: int, count: int) -> float:
    """p99 of hey's closed loop against one model, ns. Raises TrituneError where hey is missing or fails."""
    body = json_request(server.metadata(model), batched=True)
    url = f"{server.url}/v2/models/{model}/infer"
    return run_hey(url, body, concurrency=concurrency, count=count).percentiles_ns[99]
