"""The acceptance vectors V1 to V14 of Triton's scheduling rules, as configurations and timelines.

Each was executed like this by a Triton 24.10 (Python backend, CPU); the rules are the same in 26.06.
Executions take 5 ms; "busy" is a request of 300 ms at time 0.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tritune.model.config import ServingConfig
from tritune.model.timeline import PlannedRequest, Timeline
from tritune.testing.timelines.repository import serving_config
from tritune.units import NS_PER_MS

_SERVICE_MS = 5
_BUSY = PlannedRequest(0, 300 * NS_PER_MS)


class Vector(msgspec.Struct, frozen=True):
    """`sizes` are the items of each execution in order, the busy one included.

    `starts_ms` are the instants at which they start, where those say more than the sizes.
    """

    name: str
    config: ServingConfig
    timeline: Timeline
    sizes: tuple[int, ...]
    starts_ms: tuple[float, ...] = ()


def _every(count: int, gap_ms: int, first_ms: int | None = None) -> list[int]:
    start = gap_ms if first_ms is None else first_ms
    return [start + gap_ms * i for i in range(count)]


def _timeline(
    at_ms: Sequence[float], items: Sequence[int] = (), *, busy: bool = True, service_ms: int = _SERVICE_MS
) -> Timeline:
    requests = [
        PlannedRequest(round(ms * NS_PER_MS), service_ms * NS_PER_MS, items=items[i] if items else 1)
        for i, ms in enumerate(at_ms)
    ]
    return Timeline((_BUSY, *requests) if busy else tuple(requests))


# Four come well within the delay of 1 ms: spread over it, its end and the next arrival would be a race.
_FOURS = [start + 0.2 * i for start in (51, 105, 159) for i in range(4)]
_TWENTY = _timeline(_every(20, 10, 40))
_LAZY = 100  # a max_queue_size that is never reached

VECTORS = (
    Vector("V1", serving_config(), _timeline(_every(5, 20)), (1, 5)),
    Vector("V2", serving_config(preferred=(4,)), _timeline(_every(7, 20)), (1, 4, 3)),
    Vector("V3", serving_config(preferred=(2, 4, 8)), _timeline(_every(20, 10)), (1, 2, 8, 8, 2)),
    Vector("V4", serving_config(delay_us=1000), _timeline([50, 50, 50, 100]), (1, 3, 1)),
    Vector("V4-no-delay", serving_config(), _timeline([50, 50, 50, 100]), (1, 4)),
    Vector("V5", serving_config(delay_us=100_000), _timeline([0, 10, 20], busy=False), (3,), (100,)),
    Vector(
        "V6",
        serving_config(delay_us=100_000, preferred=(4,)),
        _timeline([0, 10, 20, 30], busy=False),
        (4,),
        (30,),
    ),
    Vector(
        "V7",
        serving_config(delay_us=100_000, preferred=(4,)),
        _timeline([0, 30], [3, 3], busy=False),
        (3, 3),
        (30, 130),
    ),
    Vector("V8", serving_config(delay_us=1000, preferred=(4,)), _timeline(_FOURS), (1, 8, 4)),
    Vector("V8-no-delay", serving_config(preferred=(4,)), _timeline(_FOURS), (1, 4, 4, 4)),
    Vector("V9", serving_config(delay_us=1000), _TWENTY, (1, 8, 1, 8, 3)),
    Vector("V10", serving_config(delay_us=20_000), _TWENTY, (1, 8, 3, 8, 1)),
    Vector("V11", serving_config(preferred=(2, 4, 8), max_queue_size=_LAZY), _TWENTY, (1, 8, 8, 4)),
    Vector("V12", serving_config(delay_us=1000, max_queue_size=_LAZY), _timeline([50, 50, 50, 100]), (1, 4)),
    Vector(
        "V13",
        serving_config(instances=2),
        _timeline(_every(6, 20, 0), busy=False, service_ms=100),
        (1, 1, 4),
    ),
    Vector("V14", serving_config(dynamic=False), _timeline([50, 60, 70], [1, 2, 8]), (1, 1, 2, 8)),
)
