"""The twin beside the real server: the same arrivals and completions, and are the batches the same?

Fed with what was measured, so that only the rules are compared: when each request reached the scheduler, when
each execution left its instance free, and (lazy dispatch) at which completions the wake-up was lost, which is
chance as much as a completion time is. What is compared is which requests each execution held, in order, and
which requests were refused, with the reason.
"""

from __future__ import annotations

import bisect
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TypeVar

import msgspec
import numpy as np

from tritune.model.requests import Bools
from tritune.model.timeline import NEVER, QUEUE_FULL, TIMED_OUT, ExecutedTimeline, Timeline
from tritune.twin.engine.setting import Setting
from tritune.twin.engine.simulate import Outcome, Requests, Simulated, simulate
from tritune.twin.engine.ties import batcher_first
from tritune.twin.engine.timing import Draws, Timing
from tritune.units import NS_PER_MS, NS_PER_US

Batches = tuple[tuple[int, ...], ...]
Refusals = dict[int, str]

# An arrival or completion so close to a decision may fall on its other side.
TIE_NS = NS_PER_MS
MOVES_NS = (TIE_NS, -TIE_NS, TIE_NS // 2, -TIE_NS // 2)
# From the release of a batch's last request to the instance's next dequeue, and from a notification to the
# batcher at work: what a 24.10 took when nothing disturbed it.
_TURNAROUND_NS = 40 * NS_PER_US
_WAKE_NS = 70 * NS_PER_US
# Starts that differ by less are the same: threads wake up sooner or later.
_SAME_NS = 150 * NS_PER_US
_LOST, _HEARD = 0.0, 1.0
_REFUSALS: Mapping[int, str] = {Outcome.QUEUE_FULL: QUEUE_FULL, Outcome.TIMED_OUT: TIMED_OUT}


Seen = TypeVar("Seen")


class Replay(msgspec.Struct, frozen=True):
    """What the twin is fed with: one timeline as it was measured, ns from its first arrival.

    `order` holds the requests in the order in which they reached the scheduler, which is not always that of
    their planned instants. `lost` numbers the completions, in order of time, whose wake-up was lost.
    """

    setting: Setting
    timeline: Timeline
    order: tuple[int, ...]
    arrived_ns: tuple[int, ...]
    free_ns: tuple[int, ...]
    lost: frozenset[int] = frozenset()

    @classmethod
    def of(cls, setting: Setting, timeline: Timeline, executed: ExecutedTimeline) -> Replay:
        """Raises ValueError where a request was neither executed nor refused by the queue's policy."""
        if any(request.batch == NEVER and not request.refusal for request in executed.requests):
            raise ValueError("every request of a timeline to compare must have been executed or refused")
        queued = [request.queue_start_ns for request in executed.requests]
        order = sorted(range(len(queued)), key=queued.__getitem__)
        zero = queued[order[0]]
        return cls(
            setting,
            timeline,
            tuple(order),
            tuple(queued[i] - zero for i in order),
            tuple(batch.free_ns - zero for batch in executed.batches),
        )

    def simulated(self, run: Callable[..., None] | None = None) -> Simulated:
        """What the twin does with it, or with the rules `run`; rows are in the order of arrival."""
        return self._played_by(functools.partial(simulate, run=run))

    def batcher_first(self) -> Bools:
        """Per batch: it could have been another, had the batcher been faster (`twin.ties.batcher_first`)."""
        return self._played_by(batcher_first)

    def _played_by(self, play: Callable[..., Seen]) -> Seen:
        requests = [self.timeline.requests[i] for i in self.order]
        largest = self.setting.largest
        heard = np.full(len(requests) + 1, _HEARD)
        heard[[i for i in self.lost if i < len(heard)]] = _LOST
        return play(
            self.setting,
            Requests(
                np.array(self.arrived_ns, np.int64),
                items=[request.items for request in requests],
                shape=[request.shape for request in requests],
                priority=[request.priority for request in requests],
                timeout_ns=[request.timeout_ns for request in requests],
            ),
            # Every batch that really ended has its end; a batch more than those lasts 10 ms.
            Timing(
                service_ns=(10.0 * NS_PER_MS,) * (largest + 1),
                turnaround_ns=_TURNAROUND_NS,
                wake_ns=_WAKE_NS,
                lost_wakeup_p=0.5,
            ),
            draws=Draws(wakeups=heard),
            batch_ends_ns=np.array(self.free_ns, np.int64),
        )

    def batches(self, simulated: Simulated | None = None) -> Batches:
        """The requests of each execution, by their place in the timeline, in the order of the starts."""
        numbers = (simulated or self.simulated()).batch
        found: dict[int, list[int]] = {}
        for place, number in zip(self.order, numbers.tolist(), strict=True):
            found.setdefault(number, []).append(place)
        return tuple(tuple(sorted(found[number])) for number in sorted(found) if number >= 0)

    def refusals(self, simulated: Simulated | None = None) -> Refusals:
        """Why requests were refused, by their place in the timeline."""
        outcomes = (simulated or self.simulated()).outcome.tolist()
        return {
            place: _REFUSALS[outcome]
            for place, outcome in zip(self.order, outcomes, strict=True)
            if outcome in _REFUSALS
        }

    def outcome(self, run: Callable[..., None] | None = None) -> bytes:
        """The number of each request's execution, or why it had none: equal where nothing differs."""
        simulated = self.simulated(run)
        fate = np.empty((len(self.order), 2), np.int64)
        fate[list(self.order)] = np.column_stack([simulated.batch, simulated.outcome])
        return fate.tobytes()

    def matches(self, executed: ExecutedTimeline) -> bool:
        """Whether each execution holds the same requests, in the same order (see `in_order`), and the
        same requests were refused for the same reasons.
        """
        simulated = self.simulated()
        real = tuple(batch.requests for batch in executed.batches)
        return in_order(self.batches(simulated), executed) == real and self.refusals(simulated) == refused(
            executed
        )

    def moved(self, by_ns: Sequence[int] = MOVES_NS) -> Iterator[Replay]:
        """The same with one arrival or one completion earlier or later."""
        for by in by_ns:
            for i, at_ns in enumerate(self.arrived_ns):
                rest = self.order[:i] + self.order[i + 1 :], self.arrived_ns[:i] + self.arrived_ns[i + 1 :]
                at = max(0, at_ns + by)
                j = bisect.bisect(rest[1], at)
                yield msgspec.structs.replace(
                    self,
                    order=(*rest[0][:j], self.order[i], *rest[0][j:]),
                    arrived_ns=(*rest[1][:j], at, *rest[1][j:]),
                )
            for k, free_ns in enumerate(self.free_ns):
                free = (*self.free_ns[:k], free_ns + by, *self.free_ns[k + 1 :])
                yield msgspec.structs.replace(self, free_ns=free)


def refused(executed: ExecutedTimeline) -> Refusals:
    """Why requests were really refused, by their place in the timeline."""
    return {i: request.refusal for i, request in enumerate(executed.requests) if request.refusal}


def in_order(batches: Batches, executed: ExecutedTimeline) -> Batches:
    """The twin's batches, where those that really started at the same instant may be in any order.

    Two instances can start within microseconds; which of them was first is then no decision.
    """
    twin, real = list(batches), executed.batches
    for k in range(1, min(len(real), len(twin))):
        together = real[k].start_ns - real[k - 1].start_ns <= _SAME_NS
        if together and (twin[k], twin[k - 1]) == (real[k - 1].requests, real[k].requests):
            twin[k - 1], twin[k] = twin[k], twin[k - 1]
    return tuple(twin)


def is_tie(replay: Replay, by_ns: Sequence[int] = MOVES_NS) -> bool:
    """Whether one arrival or completion within TIE_NS of a decision would change a batch or a refusal.

    So says the twin; nothing of what the real server batched goes into this.
    """
    outcome = replay.outcome()
    return any(other.outcome() != outcome for other in replay.moved(by_ns))


def with_lost_wakeups(replay: Replay, executed: ExecutedTimeline) -> Replay:
    """The replay with the wake-ups that were lost, as the starts of the executions show it (lazy only).

    Where the real server started an execution later than the twin, the completion before it may have lost
    its wake-up; it has where the twin's start is the real one with that, and was further off without, and
    where that does not spoil a batch which was the same. Only up to the first batch that differs.
    """
    if replay.setting.eager or not replay.setting.ticks:
        return replay
    zero = min(request.queue_start_ns for request in executed.requests)
    for k, batch in enumerate(executed.batches):
        simulated = replay.simulated()
        while (cause := _completion_before(simulated, k)) is not None and cause not in replay.lost:
            late_ns = batch.start_ns - zero - _start(simulated, k)
            other = msgspec.structs.replace(replay, lost=replay.lost | {cause})
            then = other.simulated()
            off_ns = abs(batch.start_ns - zero - _start(then, k))
            if late_ns <= _WAKE_NS or off_ns > _SAME_NS or late_ns < 2 * off_ns:
                break
            if _holds(replay, simulated, k, batch.requests) and not _holds(replay, then, k, batch.requests):
                break  # another reason: this one would have brought other requests
            replay, simulated = other, then
        if not _holds(replay, simulated, k, batch.requests):
            break
    return replay


def _holds(replay: Replay, simulated: Simulated, k: int, requests: tuple[int, ...]) -> bool:
    batches = replay.batches(simulated)
    return k < len(batches) and batches[k] == requests


def _start(simulated: Simulated, k: int) -> int:
    starts = simulated.batch_start_ns
    return int(starts[k]) if k < len(starts) else 2**61


def _completion_before(simulated: Simulated, k: int) -> int | None:
    """The number, in order of time, of the last completion before the k-th start; None without one."""
    if k >= len(simulated.batch_start_ns):
        return None
    free_ns = np.sort(simulated.batch_done_ns[:k]) + _TURNAROUND_NS
    before = int(np.searchsorted(free_ns, simulated.batch_start_ns[k], "right"))
    return before - 1 if before else None
