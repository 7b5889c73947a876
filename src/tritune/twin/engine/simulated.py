"""What happened in a simulation: a row per attempt, a row per batch, and what clients got out of it."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import IntEnum

import numpy as np

from tritune.model.requests import Bools, Floats, Int64
from tritune.twin.engine.state import CANCELLED, QUEUE_FULL, TIMED_OUT


class Outcome(IntEnum):
    """How an attempt ended at the server; ABANDONED: executed, but its client had given up."""

    OK = 0
    QUEUE_FULL = QUEUE_FULL
    TIMED_OUT = TIMED_OUT
    CANCELLED = CANCELLED
    ABANDONED = 4


@dataclass(frozen=True)
class Simulated:
    """Columns, ns. Per attempt, in order of sending and of arrival (without retries that is one row per
    request): request (numbered as planned) and attempt (from 0), planned_ns of the request, sent_ns of the
    attempt, arrived_ns at the scheduler, start_ns and server_done_ns of its execution (start -1 where it had
    none; done is then the answer's instant), done_ns at the client, batch number or -1, outcome (`Outcome`).

    Queue parts of an executed attempt, which add up to start - arrived: batch_wait_ns (an instance idle,
    because of the delay), stall_ns (an instance idle, nothing justifies it: lost and slow wake-ups),
    busy_wait_ns (all busy, in Q), formed_wait_ns (all busy, in a formed payload).

    Per batch, in order of start: batch_start_ns, batch_done_ns, batch_items, batch_requests, batch_instance.
    """

    request: Int64
    attempt: Int64
    planned_ns: Int64
    sent_ns: Int64
    arrived_ns: Int64
    joined_ns: Int64
    start_ns: Int64
    server_done_ns: Int64
    done_ns: Int64
    batch: Int64
    outcome: Int64
    items: Int64
    batch_wait_ns: Int64
    stall_ns: Int64
    busy_wait_ns: Int64
    formed_wait_ns: Int64
    batch_start_ns: Int64 = field(repr=False)
    batch_done_ns: Int64 = field(repr=False)
    batch_items: Int64 = field(repr=False)
    batch_requests: Int64 = field(repr=False)
    batch_instance: Int64 = field(repr=False)

    def attempts_per_request(self) -> Int64:
        """Per request, as planned: how often it was sent; the mean is the amplification of the load."""
        attempts: Int64 = np.bincount(self.request)
        return attempts

    def latency_ns(self) -> Floats:
        """Per request, as planned: done of its last attempt - planned.

        Infinite where that one failed or its client had given up: no other attempt was answered then.
        """
        last = self._last_attempts()
        latency = (self.done_ns[last] - self.planned_ns[last]).astype(np.float64)
        latency[self.outcome[last] != Outcome.OK] = np.inf
        return latency

    def queue_ns(self) -> Int64:
        """Per executed attempt: start - arrived, as Triton counts queue time."""
        executed = self.start_ns >= 0
        queue: Int64 = (self.start_ns - self.arrived_ns)[executed]
        return queue

    def wasted(self) -> Bools:
        """Per attempt: executed for nobody, because its client had given up."""
        wasted: Bools = self.outcome == Outcome.ABANDONED
        return wasted

    def goodput_per_s(self, begin_ns: int = 0, end_ns: int | None = None) -> float:
        """Requests answered in time per second, by when the answer came: begin <= done < end.

        Without an end: up to the last answer, that one included. 0 where nothing was executed.
        """
        return self._per_s(self.outcome == Outcome.OK, begin_ns, end_ns)

    def throughput_per_s(self, begin_ns: int = 0, end_ns: int | None = None) -> float:
        """Attempts executed per second, wanted or not; the time as in `goodput_per_s`."""
        return self._per_s(self.start_ns >= 0, begin_ns, end_ns)

    def _per_s(self, counted: Bools, begin_ns: int, end_ns: int | None) -> float:
        executed = self.start_ns >= 0
        if end_ns is None:
            end_ns = int(self.done_ns[executed].max(initial=begin_ns - 1)) + 1
        within = counted & (begin_ns <= self.done_ns) & (self.done_ns < end_ns)
        return float(within.sum() * 1e9 / (end_ns - begin_ns)) if end_ns > begin_ns else 0.0

    def _last_attempts(self) -> slice | Int64:
        """The row of each request's last attempt."""
        if not self.attempt.any():
            return slice(None)
        last = np.empty(int(self.request.max()) + 1, np.int64)
        last[self.request] = np.arange(len(self.request))  # of equal indices the last assignment stays
        return last
