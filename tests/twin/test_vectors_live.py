"""The acceptance vectors, on the real Triton: what the rules say is what it does."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from tritune.embedded.server import RunningServer
from tritune.testing.timelines.play import Player
from tritune.testing.timelines.repository import write_repository
from tritune.testing.timelines.vectors import VECTORS, Vector
from tritune.units import NS_PER_MS

pytestmark = pytest.mark.live

# Threads of the real server race: of 78 plays 3 went the other way (V4 twice, V13 once), none twice in a row.
TRIES = 3
# Wake-ups, HTTP and the Python backend; an instance that has just executed something else.
LATE_MS = 5


@pytest.fixture(scope="module")
def player(
    start_for_module: Callable[..., RunningServer], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Player]:
    folder = tmp_path_factory.mktemp("timelines")
    with Player(start_for_module(write_repository(folder), folder=folder)) as player:
        yield player


# By configuration: loading the one that is served already costs nothing, another one some 3 s.
@pytest.mark.parametrize(
    "vector", sorted(VECTORS, key=lambda vector: repr(vector.config)), ids=lambda vector: vector.name
)
def test_the_real_server_executes_the_vector(player: Player, vector: Vector) -> None:
    player.configure(vector.config)
    seen = []
    for _ in range(TRIES):
        executed = player.play(vector.timeline)
        seen.append(executed.sizes(vector.timeline))
        if seen[-1] == vector.sizes:
            break
    assert seen[-1] == vector.sizes, f"executed {seen}"
    begin_ns = executed.requests[0].queue_start_ns
    for batch, at_ms in zip(executed.batches, vector.starts_ms, strict=False):
        assert at_ms - 1 <= (batch.start_ns - begin_ns) / NS_PER_MS <= at_ms + LATE_MS
