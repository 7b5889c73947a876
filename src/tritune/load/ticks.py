"""Half-second reports of a running load, worked on in a thread of their own."""

from __future__ import annotations

import asyncio
import time
from array import array
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

import numpy as np

from tritune.load.attempts import Attempts
from tritune.model.load import Tick
from tritune.model.requests import Kind

TICK_S = 0.5


class Ticker:
    """Tells `on_tick`, then asks `stop`, about twice a second; a sentence from `stop` cuts the run.

    Both are called in one other thread, one call at a time: drawing a screen or reading a server's counters
    there does not make requests late. A tick that falls into a call that is still running is left out.
    What they raise ends the run and is raised by `close`.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        attempts: Attempts,
        due_at: Callable[[int], int],
        on_tick: Callable[[Tick], None] | None,
        stop: Callable[[Tick], str | None] | None,
    ) -> None:
        self._loop = loop
        self._attempts = attempts
        self._due_at = due_at
        self._on_tick = on_tick
        self._stop = stop
        self._thread = ThreadPoolExecutor(1, "tritune-tick") if on_tick or stop else None
        self._running: asyncio.Future[str | None] | None = None
        self._reported = 0
        self._timer: asyncio.TimerHandle | None = None
        self._trouble: BaseException | None = None

    def begin(self) -> None:
        """Start ticking."""
        if self._thread is not None:
            self._timer = self._loop.call_later(TICK_S, self._tick)

    async def close(self) -> None:
        """Stop ticking, wait for the call in progress, raise what a call raised."""
        if self._timer is not None:
            self._timer.cancel()
        if self._running is not None:
            await asyncio.wait({self._running})
        if self._thread is not None:
            self._thread.shutdown()
        if self._trouble is not None:
            raise self._trouble

    def _tick(self) -> None:
        self._timer = self._loop.call_later(TICK_S, self._tick)
        if self._thread is None or self._running is not None:
            return
        attempts = self._attempts
        elapsed = time.monotonic_ns() - attempts.t0
        first, last = self._reported, len(attempts.finished)
        self._reported = last
        state = (
            self._due_at(elapsed),
            attempts.sent,
            last,
            attempts.errors,
            attempts.in_flight,
            attempts.finished[first:last],
        )
        self._running = self._loop.run_in_executor(self._thread, self._report, elapsed, *state)
        self._running.add_done_callback(self._reported_back)

    def _report(
        self, elapsed: int, due: int, sent: int, done: int, errors: int, in_flight: int, rows: array[int]
    ) -> str | None:
        columns = self._attempts.columns
        latency = [columns.done[row] - columns.planned[row] for row in rows if columns.kind[row] == Kind.OK]
        p50, p99 = np.percentile(latency, (50, 99)) if latency else (np.nan, np.nan)
        tick = Tick(elapsed, due, sent, done, errors, in_flight, float(p50), float(p99))
        if self._on_tick is not None:
            self._on_tick(tick)
        return self._stop(tick) if self._stop is not None else None

    def _reported_back(self, running: asyncio.Future[str | None]) -> None:
        self._running = None
        self._trouble = self._trouble or running.exception()
        if self._trouble is not None:
            self._attempts.stop("the progress report failed")
        elif sentence := running.result():
            self._attempts.stop(sentence)
