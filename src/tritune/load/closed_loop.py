"""Closed loop: a fixed number of requests in flight; the next one is due when an answer is there."""

from __future__ import annotations

import time
from contextlib import nullcontext

from tritune.load.attempts import Attempts


class ClosedLoop:
    """Keeps `concurrency` requests in flight until `count` were due or `duration_ns` has passed.

    What is in flight then is still waited for. The planned instant of a request is the moment when the
    answer that makes room for it arrived; that of the first ones when they are sent.
    """

    LEAD_NS = 0
    priority = nullcontext

    def __init__(
        self, attempts: Attempts, concurrency: int, count: int | None, duration_ns: int | None
    ) -> None:
        self._attempts = attempts
        self._concurrency = concurrency
        self._count = count
        self._duration_ns = duration_ns
        attempts.settled = self._next

    def begin(self) -> None:
        """Send the first ones; `attempts` has been started."""
        for _ in range(self._concurrency):
            if self._attempts.no_more:
                return
            self._launch(time.monotonic_ns() - self._attempts.t0)

    def due_at(self, elapsed_ns: int) -> int:  # noqa: ARG002 - the same question as to an open loop
        """How many requests should have been sent by then: those that were."""
        return self._attempts.due

    def close(self) -> None:
        """Nothing is held."""

    def _next(self, now: int) -> None:
        self._launch(now - self._attempts.t0)

    def _launch(self, planned_ns: int) -> None:
        attempts = self._attempts
        if self._duration_ns is not None and time.monotonic_ns() - attempts.t0 >= self._duration_ns:
            attempts.finish()
            return
        row = attempts.due
        if row >= attempts.columns.size:
            attempts.columns.grow(row)
        attempts.columns.planned[row] = planned_ns
        attempts.launch()
        if self._count is not None and attempts.due >= self._count:
            attempts.finish()
