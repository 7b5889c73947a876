"""The load engine: one process, one event loop, raw HTTP/1.1 over keep-alive connections."""

from __future__ import annotations

import asyncio
import signal
import time
from array import array
from collections.abc import Callable, Sequence

import numpy as np

from tritune.load.attempts import Attempts
from tritune.load.closed_loop import ClosedLoop
from tritune.load.columns import Columns
from tritune.load.connection import Connection
from tritune.load.endpoint import find
from tritune.load.open_loop import OpenLoop
from tritune.load.quiet import quiet
from tritune.load.signals import ending_signals
from tritune.load.ticks import Ticker
from tritune.model.load import INTERRUPTED, TERMINATED, LoadOutcome, Shot, Target, Tick
from tritune.model.measurement import Sender
from tritune.model.requests import Int64, RequestLog

try:
    import uvloop
except ImportError:  # no wheel for this system: requests are sent all the same, a little later
    new_event_loop: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
else:
    new_event_loop = uvloop.new_event_loop

# Opened before the clock starts, so that the first requests need not; a run that needs more opens more.
FIRST_CONNECTIONS = 8
# Rows of a closed loop that only time ends; doubled when they are used up.
_FIRST_ROWS = 1 << 16

Driver = OpenLoop | ClosedLoop
MakeDriver = Callable[[Attempts, asyncio.AbstractEventLoop], Driver]


class HttpLoadEngine:
    """Satisfies verbs.ports.LoadEngine. Runs in the calling thread until the load is over.

    Ends early, with what was measured kept and the reason in `LoadOutcome.cut`: more than max_in_flight
    unanswered requests; the server gone (`attempts.GONE`); a sentence from `stop`; SIGINT (INTERRUPTED) or
    SIGTERM and SIGHUP (TERMINATED), in the main thread only; a second signal ends the wait for the last
    answers. Requests that were due are in the log; those planned for later are not.

    `on_tick` and `stop` are called in another thread, one call at a time. Raises TrituneError where no
    connection can be made at the start.
    """

    def open_loop(
        self,
        target: Target,
        planned_ns: Int64,
        shots: Sequence[Shot],
        *,
        timeout_ns: int,
        max_in_flight: int,
        on_tick: Callable[[Tick], None] | None = None,
        stop: Callable[[Tick], str | None] | None = None,
    ) -> LoadOutcome:
        """Fire request i at planned_ns[i], which is sorted; shots are taken round robin."""
        if (np.diff(planned_ns) < 0).any():
            raise ValueError("planned instants are not sorted")
        if not len(planned_ns):
            return LoadOutcome(RequestLog.empty(), Sender(), 0.0)
        planned = array("q")
        planned.frombytes(np.ascontiguousarray(planned_ns, np.int64).tobytes())
        return self._run(
            target,
            shots,
            Columns(planned, len(planned)),
            timeout_ns,
            min(FIRST_CONNECTIONS, max_in_flight, len(planned)),
            lambda attempts, loop: OpenLoop(attempts, loop, max_in_flight),
            on_tick,
            stop,
        )

    def closed_loop(
        self,
        target: Target,
        concurrency: int,
        shots: Sequence[Shot],
        *,
        timeout_ns: int,
        count: int | None = None,
        duration_ns: int | None = None,
        on_tick: Callable[[Tick], None] | None = None,
        stop: Callable[[Tick], str | None] | None = None,
    ) -> LoadOutcome:
        """Keep `concurrency` requests in flight until `count` were sent or `duration_ns` has passed."""
        if count is None and duration_ns is None:
            raise ValueError("a closed loop needs a count or a duration")
        if concurrency < 1 or (count is not None and count < 1):
            raise ValueError("a closed loop needs at least one request in flight")
        return self._run(
            target,
            shots,
            Columns(array("q"), count if count is not None else max(_FIRST_ROWS, concurrency)),
            timeout_ns,
            concurrency if count is None else min(concurrency, count),
            lambda attempts, _loop: ClosedLoop(attempts, concurrency, count, duration_ns),
            on_tick,
            stop,
        )

    def _run(
        self,
        target: Target,
        shots: Sequence[Shot],
        columns: Columns,
        timeout_ns: int,
        connections: int,
        make_driver: MakeDriver,
        on_tick: Callable[[Tick], None] | None,
        stop: Callable[[Tick], str | None] | None,
    ) -> LoadOutcome:
        if not shots:
            raise ValueError("nothing to send")
        loop = new_event_loop()
        attempts = Attempts(loop, columns, [shot.data for shot in shots], timeout_ns)
        driver = make_driver(attempts, loop)
        ticker = Ticker(loop, attempts, driver.due_at, on_tick, stop)

        def on_signal(number: int) -> None:
            if attempts.cut:
                attempts.give_up()
            else:
                attempts.stop(INTERRUPTED if number == signal.SIGINT else TERMINATED)

        try:
            with ending_signals(loop, on_signal):
                seconds, cpu_share = loop.run_until_complete(
                    _drive(target, connections, attempts, driver, ticker)
                )
        finally:
            driver.close()
            loop.close()
        log = columns.log(shots)
        return LoadOutcome(log, _sender(log, cpu_share, attempts.opened), seconds, attempts.cut)


async def _drive(
    target: Target, connections: int, attempts: Attempts, driver: Driver, ticker: Ticker
) -> tuple[float, float]:
    """Connect, start the clock, wait for the end; the seconds it took and the share of one core used."""
    try:
        if not await _connect(target, connections, attempts):
            return 0.0, 0.0
        with quiet(), driver.priority():
            start = time.monotonic_ns() + driver.LEAD_NS
            cpu_ns = time.process_time_ns()
            attempts.start(start)
            ticker.begin()
            driver.begin()
            await attempts.ended
            wall_ns = max(time.monotonic_ns() - start, 1)
            cpu_ns = time.process_time_ns() - cpu_ns
    finally:
        await attempts.close()
        await ticker.close()
    return wall_ns / 1e9, cpu_ns / wall_ns


async def _connect(target: Target, connections: int, attempts: Attempts) -> bool:
    """Open the first connections; False where the run was ended meanwhile. Raises TrituneError."""

    async def open_all() -> None:
        endpoint, first = await find(target, lambda: Connection(attempts))
        attempts.use(endpoint, [first])
        others = await asyncio.gather(
            *(endpoint.connect(lambda: Connection(attempts)) for _ in range(connections - 1)),
            return_exceptions=True,
        )
        # One that failed is opened when a request needs it, and its failure is then that request's.
        attempts.use(endpoint, [other for other in others if isinstance(other, Connection)])

    opening = asyncio.ensure_future(open_all())
    await asyncio.wait({opening, attempts.ended}, return_when=asyncio.FIRST_COMPLETED)
    if attempts.ended.done():
        opening.cancel()
        await asyncio.wait({opening})
        return False
    opening.result()
    return True


def _sender(log: RequestLog, cpu_share: float, new_connections: int) -> Sender:
    lateness = log.lateness_ns()
    if not len(lateness):
        return Sender(cpu_share=cpu_share, new_connections=new_connections)
    p50, p99 = np.percentile(lateness, (50, 99))
    return Sender(float(p50), float(p99), float(lateness.max()), cpu_share, new_connections)
