"""Is one address served by several servers? Told from counters that jump back and forth (safety rule 5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise

from tritune.model.server import ModelCounters, Snapshot

# A counter that has just been reset is small; below this a fall says nothing.
_NEAR_ZERO = 20


def several_replicas(snapshots: Sequence[Snapshot]) -> bool:
    """True where quick reads cannot come from one server: a counter fell, and not because it was reset.

    A reset falls once, to near zero (at most 20, or a tenth of what it was), and climbs from there. A fall
    to anything else, or a counter that is back at its old height a moment later, needs a second server.
    False also where that cannot be told: replicas that have counted the same, or almost nothing. The reads
    must be made over a connection each, or a balancer sends all of them to the same server.
    """
    keys = {key for snapshot in snapshots for key in snapshot.models}
    return any(
        _jumps(series)
        for key in sorted(keys)
        for series in _series([s.models[key] for s in snapshots if key in s.models])
    )


def _series(counters: Sequence[ModelCounters]) -> Iterator[list[int]]:
    yield [c.success.count for c in counters]
    yield [c.fail.count for c in counters]
    yield [c.inference_count for c in counters]
    yield [c.execution_count for c in counters]


def _jumps(series: Sequence[int]) -> bool:
    for i, (before, after) in enumerate(pairwise(series)):
        if after >= before or before <= _NEAR_ZERO:
            continue
        if after > max(_NEAR_ZERO, before // 10) or max(series[i + 1 :]) >= before:
            return True
    return False
