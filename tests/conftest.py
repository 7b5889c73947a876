"""Fixtures for tests that talk to the real Triton (mark them `live`). Servers die with the test process.

A run of the tests must say the same on every machine and every day: hypothesis tries the same examples each
time and sets no limit to their duration. To look for new ones: `pytest --hypothesis-profile=default`.
"""

from __future__ import annotations

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


@pytest.fixture(scope="session")
def triton_environment() -> Environment:
    """The private environment, from the cache ($TRITUNE_CACHE or $XDG_CACHE_HOME) or made now."""
    return ensure_environment(print)


@pytest.fixture(scope="session")
def triton(
    triton_environment: Environment, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[RunningServer]:
    """One server for the whole session: model `ranker` of the scenario `healthy`, control mode explicit.

    Read it and send to it; a test that loads models, or needs counters of its own, takes `start_triton`.
    """
    folder = tmp_path_factory.mktemp("triton")
    repository = materialise(load_scenario("healthy"), folder)
    server = start(repository, environment=triton_environment, folder=folder)
    yield server
    stop(server)


@pytest.fixture
def start_triton(triton_environment: Environment, tmp_path: Path) -> Iterator[StartTriton]:
    """start_triton(scenario name or repository, **what `start` takes): a server of the test's own."""
    servers: list[RunningServer] = []

    def begin(what: str | Path, **options: Any) -> RunningServer:
        folder = tmp_path / f"triton-{len(servers)}"
        known = isinstance(what, str) and what in scenario_names()
        repository = materialise(load_scenario(str(what)), folder) if known else Path(what)
        options.setdefault("folder", folder)
        server = start(repository, environment=triton_environment, **options)
        servers.append(server)
        return server

    yield begin
    for server in servers:
        stop(server)
