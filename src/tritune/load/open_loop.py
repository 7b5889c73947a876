"""Open loop: every request at its planned instant, whatever the earlier answers do."""

from __future__ import annotations

import asyncio
import time

from tritune.load.attempts import Attempts
from tritune.load.pacer import Pacer
from tritune.load.priority import at_once


class OpenLoop:
    """Launches the rows of `attempts` at their planned instants, until all are sent or a cap is met.

    All that is due is sent at each wake-up; each answer is used as a wake-up, too, so that a busy loop is
    not late. More than `max_in_flight` unanswered requests end the run: the server is not keeping up, and
    going on would only fill its queue and our memory (safety rule 7).
    """

    LEAD_NS = 5_000_000  # before the run's time 0, so that a request planned at 0 is not late
    priority = staticmethod(at_once)

    def __init__(self, attempts: Attempts, loop: asyncio.AbstractEventLoop, max_in_flight: int) -> None:
        self._attempts = attempts
        self._planned = attempts.columns.planned
        self._max_in_flight = max_in_flight
        self._pacer = Pacer(loop, self._fire)
        attempts.settled = self._answered

    def begin(self) -> None:
        """Wait for the first planned instant; `attempts` has been started."""
        self._pacer.wake_at(self._attempts.t0 + self._planned[0])

    def due_at(self, elapsed_ns: int) -> int:
        """How many requests should have been sent by then; never fewer than were sent."""
        planned, low, high = self._planned, self._attempts.due, len(self._planned)
        while low < high and planned[low] <= elapsed_ns:
            low += 1
        return low

    def close(self) -> None:
        """Send nothing more."""
        self._pacer.close()

    def _answered(self, now: int) -> None:
        attempts = self._attempts
        if attempts.due < len(self._planned) and self._planned[attempts.due] <= now - attempts.t0:
            self._fire()

    def _fire(self) -> None:
        attempts, planned = self._attempts, self._planned
        if attempts.no_more:
            return
        elapsed = time.monotonic_ns() - attempts.t0
        count = len(planned)
        while attempts.due < count and planned[attempts.due] <= elapsed:
            if attempts.in_flight >= self._max_in_flight:
                attempts.stop(f"more than {self._max_in_flight} requests in flight")
                return
            attempts.launch()
        if attempts.due >= count:
            attempts.finish()
        else:
            self._pacer.wake_at(attempts.t0 + planned[attempts.due])
