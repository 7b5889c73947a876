"""What happens to each request while a run lasts: a connection for it, its end and kind, its row."""

from __future__ import annotations

import asyncio
import errno
import time
from array import array
from collections import deque
from collections.abc import Callable, Sequence

from tritune.load.columns import Columns
from tritune.load.connection import IDLE, Connection
from tritune.load.endpoint import Endpoint
from tritune.model.requests import Kind
from tritune.units import NS_PER_S

# So many attempts in a row, begun after the first of them failed, without a single reply: the server is gone.
GONE_AFTER = 20
GONE = "the server stopped answering"
# How long requests in flight are waited for once a run has been cut.
GRACE_NS = NS_PER_S
_CLIENT_IS_FULL = (errno.EMFILE, errno.ENFILE, errno.EADDRNOTAVAIL)


class Attempts:
    """Sends rows, settles each with exactly one kind, and ends the run.

    A request never waits for a connection in use: where none is free a new one is opened, and the request
    takes whichever comes first, the new one or one that became free. A request whose timeout (counted from
    its planned instant, as latency is) has passed is closed with its connection. After a cut nothing more
    is sent; what is due already gets min(timeout, GRACE_NS) to be answered and is then a timeout: left out,
    the slowest requests would be missing from the log.

    `settled` is called after each request with the time, so that the next one can be sent.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        columns: Columns,
        payloads: Sequence[bytes],
        timeout_ns: int,
    ) -> None:
        self.columns = columns
        self.ended: asyncio.Future[None] = loop.create_future()
        self.finished = array("q")  # rows in the order in which they ended
        self.t0 = 0
        self.due = 0  # rows so far; the next row
        self.sent = 0
        self.errors = 0
        self.in_flight = 0
        self.opened = 0
        self.cut = ""
        self.no_more = False
        self.settled: Callable[[int], None] = _nothing
        self._loop = loop
        self._payloads = payloads
        self._timeout_ns = timeout_ns
        self._endpoint: Endpoint | None = None
        self._free: list[Connection] = []
        self._open: set[Connection] = set()
        self._waiting: deque[int] = deque()
        self._opening: dict[asyncio.Task[None], None] = {}  # a set in the order of insertion
        self._closing: set[asyncio.Task[None]] = set()  # cancelled, but not at their end yet
        self._oldest = 0
        self._streak = 0
        self._streak_began = 0
        self._timer: asyncio.TimerHandle | None = None

    def use(self, endpoint: Endpoint, connections: Sequence[Connection]) -> None:
        """Connections that were opened before the clock starts."""
        self._endpoint = endpoint
        self._free.extend(connections)

    def start(self, t0: int) -> None:
        """The run's time 0, CLOCK_MONOTONIC in ns."""
        self.t0 = t0
        self._watch(self._timeout_ns)

    # Sending

    def launch(self) -> None:
        """The next row is due: send it now, on a free connection or a new one."""
        row = self.due
        self.due = row + 1
        self.in_flight += 1
        self.columns.kind[row] = Kind.TIMEOUT  # until it is settled; also marks the row as used
        free = self._free
        while free:
            connection = free.pop()
            if connection.usable:
                self._send(connection, row)
                return
        self.columns.new_connection[row] = 1
        self._waiting.append(row)
        self._open_one()

    def _send(self, connection: Connection, row: int) -> None:
        # Read before the write, so that the time of the write itself counts as latency, not as lateness.
        self.columns.sent[row] = time.monotonic_ns() - self.t0
        self.sent += 1
        connection.send(row, self._payloads[row % len(self._payloads)])

    def _open_one(self) -> None:
        task = self._loop.create_task(self._connect())
        self._opening[task] = None
        task.add_done_callback(self._ended_opening)

    async def _connect(self) -> None:
        assert self._endpoint is not None  # noqa: S101 - `use` comes before `launch`
        try:
            connection = await self._endpoint.connect(lambda: Connection(self))
        except OSError as error:
            self._decided()
            if error.errno in _CLIENT_IS_FULL:
                self.stop(f"this machine can open no more connections ({error.strerror})")
            # Its own request fails, unless a connection that became free has taken that one meanwhile.
            if len(self._waiting) > len(self._opening):
                self._fail(self._waiting.popleft(), time.monotonic_ns())
            return
        self._decided()
        self.opened += 1
        self._offer(connection)

    def _decided(self) -> None:
        """Called by an opening that has its outcome. It leaves at once and not when its task has ended: of
        several that fail in one round of the loop, the later ones would still count on the earlier ones."""
        task = asyncio.current_task()
        assert task is not None  # noqa: S101 - `_connect` runs as a task
        self._opening.pop(task, None)

    def _ended_opening(self, task: asyncio.Task[None]) -> None:
        self._opening.pop(task, None)
        self._closing.discard(task)

    def _offer(self, connection: Connection) -> None:
        if not connection.usable:
            return
        if self._waiting:
            self._send(connection, self._waiting.popleft())
        else:
            self._free.append(connection)

    # Ends of requests: the connection's Owner

    def made(self, connection: Connection) -> None:
        """See connection.Owner."""
        self._open.add(connection)

    def first_byte(self, row: int, now: int) -> None:
        """See connection.Owner."""
        self.columns.first_byte[row] = now - self.t0

    def replied(self, connection: Connection, row: int, now: int, status: int, reusable: bool) -> None:
        """See connection.Owner."""
        self._streak = 0
        self.columns.status[row] = status
        if reusable:
            self._offer(connection)
        elif connection.transport is None:
            self._open.discard(connection)
        else:
            connection.transport.close()
        self._settle(row, now, Kind.OK if 200 <= status < 300 else kind_of(status))

    def unreadable(self, row: int, now: int) -> None:
        """See connection.Owner."""
        self._streak = 0
        self._settle(row, now, Kind.BAD_REPLY)

    def lost(self, connection: Connection, row: int, now: int) -> None:
        """See connection.Owner. A free connection that the server closes is no request's error."""
        self._open.discard(connection)
        if row != IDLE:
            self._fail(row, now)

    def _fail(self, row: int, now: int) -> None:
        # Requests that were in flight when the first one failed are victims of the same event: they are
        # no evidence that the server stays away.
        if self._streak == 0:
            self._streak, self._streak_began = 1, now - self.t0
        elif self.columns.planned[row] >= self._streak_began:
            self._streak += 1
        self._settle(row, now, Kind.CONNECTION)
        if self._streak >= GONE_AFTER:
            self.stop(GONE)

    def _settle(self, row: int, now: int, kind: Kind) -> None:
        columns = self.columns
        columns.done[row] = now - self.t0
        columns.kind[row] = kind
        self.finished.append(row)
        self.in_flight -= 1
        if kind:
            self.errors += 1
        if not self.no_more:
            self.settled(now)
        if self.no_more and not self.in_flight:
            self._end()

    # The end of the run

    def finish(self) -> None:
        """Nothing more will be due; the run ends when all is settled."""
        self.no_more = True
        if not self.in_flight:
            self._end()

    def stop(self, cut: str) -> None:
        """End the run early; of several reasons the first counts."""
        if self.cut:
            return
        self.cut = cut
        self.finish()
        if self.in_flight:
            self._loop.call_later(min(self._timeout_ns, GRACE_NS) / NS_PER_S, self.give_up)

    def give_up(self) -> None:
        """Settle whatever is in flight as a timeout, now."""
        self._expire_before(self.due)

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    async def close(self) -> None:
        """Close every connection; the run is over."""
        if self._timer is not None:
            self._timer.cancel()
        for task in tuple(self._opening):
            self._give_up_opening(task)
        for connection in tuple(self._open):
            connection.abort()
        for _ in range(100):  # the loop closes the sockets in its next rounds
            if not self._open and not self._closing:
                return
            await asyncio.sleep(0.001)

    def _give_up_opening(self, task: asyncio.Task[None]) -> None:
        del self._opening[task]
        self._closing.add(task)
        task.cancel()

    # Timeouts: rows are due in order, so the oldest unsettled one is the next to expire

    def _watch(self, at_ns: int) -> None:
        delay_ns = max(at_ns - (time.monotonic_ns() - self.t0), 0)
        self._timer = self._loop.call_later(delay_ns / NS_PER_S + 0.001, self._check)

    def _check(self) -> None:
        """Expire what is overdue and look again when the oldest one left would be."""
        planned, done, due = self.columns.planned, self.columns.done, self.due
        limit = time.monotonic_ns() - self.t0 - self._timeout_ns
        oldest = self._oldest
        while oldest < due and (done[oldest] >= 0 or planned[oldest] <= limit):
            oldest += 1
        overdue, self._oldest = oldest, oldest
        self._expire_before(overdue)
        if not self.ended.done():
            began = self.columns.planned[oldest] if oldest < self.due else limit + self._timeout_ns
            self._watch(began + self._timeout_ns)

    def _expire_before(self, row: int) -> None:
        now = time.monotonic_ns()
        while self._waiting and self._waiting[0] < row:
            if self._opening:  # one that hangs, too: hung ones would pile up
                self._give_up_opening(next(iter(self._opening)))
            self._settle(self._waiting.popleft(), now, Kind.TIMEOUT)
        for connection in tuple(self._open):
            carried = connection.row
            if IDLE < carried < row:
                connection.abort()
                self._settle(carried, now, Kind.TIMEOUT)


def _nothing(_now: int) -> None:
    """Until a driver says what comes after a request."""


def kind_of(status: int) -> Kind:
    """What an HTTP status other than success says about a request."""
    if status in (401, 403):
        return Kind.AUTH
    if 300 <= status < 400:
        return Kind.REDIRECT
    if 400 <= status < 500:
        return Kind.CLIENT_ERROR
    return Kind.SERVER_ERROR if status >= 500 else Kind.BAD_REPLY
