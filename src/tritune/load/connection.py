"""One HTTP/1.1 keep-alive connection that carries one request at a time."""

from __future__ import annotations

import asyncio
import re
import time
from typing import Protocol, cast

from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

IDLE = -1
_SIZED = re.compile(rb"\r\n(content-length|transfer-encoding)\s*:", re.IGNORECASE)


class Owner(Protocol):
    """Who is told how the request on a connection ended; `now` is CLOCK_MONOTONIC, ns."""

    def made(self, connection: Connection) -> None:
        """The connection is open."""

    def first_byte(self, row: int, now: int) -> None:
        """The reply began."""

    def replied(self, connection: Connection, row: int, now: int, status: int, reusable: bool) -> None:
        """The reply is complete and well formed."""

    def unreadable(self, row: int, now: int) -> None:
        """What came is not one HTTP reply; the connection is being closed."""

    def lost(self, connection: Connection, row: int, now: int) -> None:
        """The connection closed; `row` is IDLE where no request was on it."""


class Connection(asyncio.Protocol):
    """`row` is the request it carries, IDLE for none.

    The time of a reply is read when its bytes arrive, before they are parsed.
    """

    __slots__ = ("_head", "_messages", "_owner", "_parser", "_reusable", "_status", "row", "transport")

    def __init__(self, owner: Owner) -> None:
        self.row = IDLE
        self.transport: asyncio.Transport | None = None
        self._owner = owner
        self._parser: HttpResponseParser | None = HttpResponseParser(self)
        self._head = b""
        self._messages = 0
        self._status = 0
        self._reusable = False

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        self.transport = cast("asyncio.Transport", transport)
        self._owner.made(self)

    @property
    def usable(self) -> bool:
        """Whether a request can be sent on it."""
        return self.row == IDLE and self.transport is not None and not self.transport.is_closing()

    def send(self, row: int, data: bytes) -> None:
        """Write one request; only on a usable connection."""
        self.row = row
        self._head = b""
        self._messages = 0
        self.transport.write(data)  # type: ignore[union-attr]

    def abort(self) -> None:
        """Close at once, without telling the owner again: HTTP/1.1 has no other way to cancel a request."""
        self.row = IDLE
        if self.transport is not None:
            self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Called by the loop."""
        now = time.monotonic_ns()
        row = self.row
        if row == IDLE or self._parser is None:
            # Bytes that nobody asked for: whatever they mean, the next reply here cannot be trusted.
            self.abort()
            return
        if not self._head:
            self._head = data
            self._owner.first_byte(row, now)
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade):
            self.abort()
            self._owner.unreadable(row, now)
            return
        if self._messages == 1:
            self.row = IDLE
            self._owner.replied(self, row, now, self._status, self._reusable)
        elif self._messages > 1:
            self.abort()
            self._owner.unreadable(row, now)

    def on_message_complete(self) -> None:
        """Called by the parser."""
        parser = cast("HttpResponseParser", self._parser)
        status = parser.get_status_code()
        if status >= 200:  # 1xx announces the real reply
            self._status = status
            self._reusable = parser.should_keep_alive()
            self._messages += 1

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        now = time.monotonic_ns()
        row, parser = self.row, self._parser
        self.row = IDLE
        # Break the cycle connection - parser - connection, as nothing is collected during a run.
        self.transport = None
        self._parser = None
        if row != IDLE and exc is None and parser is not None and self._ends_with_the_connection():
            self._owner.replied(self, row, now, parser.get_status_code(), False)
        else:
            self._owner.lost(self, row, now)

    def _ends_with_the_connection(self) -> bool:
        """Whether a reply without a length has begun: HTTP/1.1 then ends it by closing (RFC 9112, 6.3)."""
        head, end, _ = self._head.partition(b"\r\n\r\n")
        return bool(end) and self._messages == 0 and _SIZED.search(head) is None
