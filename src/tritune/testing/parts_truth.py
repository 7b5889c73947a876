"""How long each request really waited beside an idle instance, and how long while all were busy: from traces.

A trace does not say which instance ran a batch, and need not: an instance is busy from the start of a batch
(COMPUTE_START) until its last request is released (REQUEST_END), so how many are busy is known at every
instant, whoever they are.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tritune.model.requests import Floats, Int64
from tritune.model.timeline import NEVER, ExecutedTimeline

# What a 24.10 took from a release to the instance's next dequeue when nothing disturbed it (as in
# `timelines/compare.py`).
TURNAROUND_NS = 40_000


@dataclass(frozen=True)
class PartsTruth:
    """Per executed request, in the timeline's order, ns: idle_ns + busy_ns is its time in the queue.

    `young_idle_ns`: the part of idle_ns within the delay after it was queued. What waits because of the delay
    is no older than the delay, so this is at least the batch wait.
    """

    idle_ns: Int64
    busy_ns: Int64
    young_idle_ns: Int64

    @property
    def queue_ns(self) -> float:
        """Mean time in the queue."""
        return float((self.idle_ns + self.busy_ns).mean())

    @property
    def idle_share(self) -> float:
        """Of all the time in the queue, the part beside an idle instance; 0 where nobody waited."""
        total = int((self.idle_ns + self.busy_ns).sum())
        return int(self.idle_ns.sum()) / total if total else 0.0


def parts_truth(
    executed: ExecutedTimeline, instances: int, *, delay_ns: int = 0, turnaround_ns: int = TURNAROUND_NS
) -> PartsTruth:
    """Idle-instance wait and all-busy wait of every request that was executed.

    An instance that has released its batch counts as busy for `turnaround_ns` more, or until its next batch
    starts if that is sooner: it does not wait for work yet.
    """
    batches = executed.batches
    starts = np.array([batch.start_ns for batch in batches], np.int64)
    frees = np.sort(np.array([batch.free_ns for batch in batches], np.int64))
    clock = _BusyClock(starts, frees + _turnaround(starts, frees, turnaround_ns), instances)
    ran = [request for request in executed.requests if request.batch != NEVER]
    queued = np.array([request.queue_start_ns for request in ran], np.int64)
    begun = np.array([request.compute_start_ns for request in ran], np.int64)
    busy = clock.between(queued, begun)
    young = np.minimum(begun, queued + delay_ns)
    return PartsTruth(
        idle_ns=begun - queued - busy,
        busy_ns=busy,
        young_idle_ns=young - queued - clock.between(queued, young),
    )


def _turnaround(starts: Int64, frees: Int64, longest_ns: int) -> Int64:
    """How long each released instance is still busy: until the next start of any, at most `longest_ns`."""
    if not longest_ns or not len(starts):
        return np.zeros(len(frees), np.int64)
    following = np.searchsorted(starts, frees, "left")
    gap = np.where(
        following < len(starts), starts[np.minimum(following, len(starts) - 1)] - frees, longest_ns
    )
    return np.minimum(gap, longest_ns).astype(np.int64)


class _BusyClock:
    """A clock that runs only while all instances are busy."""

    def __init__(self, starts: Int64, frees: Int64, instances: int) -> None:
        at = np.concatenate([starts, frees])
        change = np.concatenate([np.ones(len(starts), np.int64), np.full(len(frees), -1)])
        order = np.argsort(at, kind="stable")  # at one instant a start comes before a release
        self._at = at[order]
        running = np.cumsum(change[order])
        runs = (running[:-1] >= instances) * np.diff(self._at)
        self._shown = np.concatenate([[0], np.cumsum(runs)])

    def between(self, since: Int64, until: Int64) -> Int64:
        """How far it ran from each `since` to each `until`."""
        return np.rint(self._read(until) - self._read(since)).astype(np.int64)

    def _read(self, instants: Int64) -> Floats:
        if not len(self._at):
            return np.zeros(len(instants))
        # From the first event on, so that the differences stay exact as floats.
        since, at = ((ns - self._at[0]).astype(np.float64) for ns in (instants, self._at))
        shown: Floats = np.interp(since, at, self._shown)
        return shown
