"""Random timelines and the configurations that they are played with."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import msgspec
import numpy as np

from tritune.model.config import ServingConfig
from tritune.model.timeline import PlannedRequest, Timeline
from tritune.testing.timelines.repository import serving_config
from tritune.units import NS_PER_MS

REQUESTS = 36
DELAYS_US = (0, 1_000, 12_000, 100_000)
PREFERRED: tuple[tuple[int, ...], ...] = ((), (4,), (4, 8), (2, 4, 8))
INSTANCES = (1, 2)
_LIMIT = 1_000
_LEVELS = 2


class Setting(msgspec.Struct, frozen=True):
    """A configuration with its name, and what timelines for it must have."""

    name: str
    config: ServingConfig
    mode: str
    priority_levels: int = 0


def settings() -> Iterator[Setting]:
    """All combinations of delay, preferred sizes, instance count, and eager or lazy (two kinds, in turn).

    Neighbours differ in the instance count alone where they can: such a change needs no reload.
    """
    for kind, (delay_us, preferred) in enumerate(itertools.product(DELAYS_US, PREFERRED)):
        base = f"D={delay_us}us P={{{','.join(map(str, preferred))}}}"
        # Both make Triton lazy: a limit that is never reached, or priorities.
        lazy: dict[str, Any] = {"max_queue_size": _LIMIT} if kind % 2 == 0 else {"priority_levels": _LEVELS}
        for mode, more in (("eager", {}), ("lazy", lazy)):
            for instances in INSTANCES:
                config = serving_config(delay_us=delay_us, preferred=preferred, instances=instances, **more)
                name = f"{base} N={instances} {mode} {' '.join(more)}".strip()
                yield Setting(name, config, mode, more.get("priority_levels", 0))


def random_timeline(seed: int, *, priority_levels: int = 0, requests: int = REQUESTS) -> Timeline:
    """Poisson arrivals from a first, long request on; batch 1 to 3, executions of 5 to 30 ms.

    The mean gap is drawn between 3 and 30 ms and the first request takes 50 to 250 ms, so that a timeline
    goes through filling, full and emptying queues. The same seed gives the same timeline.
    """
    random = np.random.Generator(np.random.PCG64(seed))
    gap_ms = np.exp(random.uniform(np.log(3), np.log(30)))
    first = PlannedRequest(0, int(random.uniform(50, 250) * NS_PER_MS), priority=min(1, priority_levels))
    at_ns = np.cumsum(random.exponential(gap_ms * NS_PER_MS, requests - 1)).astype(np.int64)
    service_ns = (random.uniform(5, 30, requests - 1) * NS_PER_MS).astype(np.int64)
    items = random.choice((1, 2, 3), requests - 1, p=(0.6, 0.25, 0.15))
    levels = (
        random.integers(1, priority_levels + 1, requests - 1) if priority_levels else np.zeros(requests - 1)
    )
    rest = zip(at_ns, service_ns, items, levels, strict=True)
    return Timeline(
        (
            first,
            *(PlannedRequest(int(t), int(s), items=int(n), priority=int(level)) for t, s, n, level in rest),
        )
    )
