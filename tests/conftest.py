"""Fixtures for tests that talk to the real Triton (mark them `live`). Servers die with the test process.

A run of the tests must say the same on every machine and every day: hypothesis tries the same examples each
time and sets no limit to their duration. To look for new ones: `pytest --hypothesis-profile=default`.
"""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

from tritune.embedded.environment import ensure_environment
from tritune.embedded.layout import Environment
from tritune.embedded.server import RunningServer, start, stop
from tritune.scenarios import load_scenario, materialise, scenario_names

StartTriton = Callable[..., RunningServer]

settings.register_profile(
    "steady", deadline=None, derandomize=True, database=None, suppress_health_check=[HealthCheck.too_slow]
)
settings.load_profile("steady")

# A shell that runs us in the background has us ignore Ctrl-C, and so would the programs that tests start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.fixture(scope="session")
def triton_environment() -> Environment:
    """The private environment, from the cache ($TRITUNE_CACHE or $XDG_CACHE_HOME) or made now."""
    return ensure_environment(print)


# A stop would wait for the clients that still hold a connection, and for the models to be unloaded.
QUICK_EXIT = "--exit-timeout-secs=1"


def starter(environment: Environment, folder: Path) -> Iterator[StartTriton]:
    """What the fixtures below yield; in the end every server it has started is stopped."""
    servers: list[RunningServer] = []

    def begin(what: str | Path, **options: Any) -> RunningServer:
        place = folder / f"triton-{len(servers)}"
        known = isinstance(what, str) and what in scenario_names()
        repository = materialise(load_scenario(str(what)), place) if known else Path(what)
        options.setdefault("folder", place)
        options["extra_flags"] = (QUICK_EXIT, *options.get("extra_flags", ()))
        server = start(repository, environment=environment, **options)
        servers.append(server)
        return server

    yield begin
    for server in servers:
        stop(server)


@pytest.fixture(scope="session")
def triton(
    triton_environment: Environment, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    """One server for the whole session: model `ranker` of the scenario `healthy`, control mode explicit.

    Read it and send to it; a test that loads models, or needs counters of its own, takes `start_triton`.
    """
    for begin in starter(triton_environment, tmp_path_factory.mktemp("triton")):
        yield begin("healthy")


@pytest.fixture
def start_triton(triton_environment: Environment, tmp_path: Path) -> Iterator[StartTriton]:
    """start_triton(scenario name or repository, **what `start` takes): a server of the test's own."""
    yield from starter(triton_environment, tmp_path)


@pytest.fixture(scope="module")
def start_for_module(
    triton_environment: Environment, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[StartTriton]:
    """The same, for a server that the tests of a file share."""
    yield from starter(triton_environment, tmp_path_factory.mktemp("triton"))
