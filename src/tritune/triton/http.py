"""HTTP to a server's control plane: one small synchronous client, foreign errors translated.

urllib3 and not an asyncio client: the verbs are synchronous, and tritonclient brings urllib3 along anyway.
The load itself is sent by `tritune.load`.
"""

from __future__ import annotations

import time
from typing import Any

import msgspec
import urllib3
from urllib3.exceptions import (
    HTTPError,
    NameResolutionError,
    NewConnectionError,
    ProtocolError,
    SSLError,
    TimeoutError,  # noqa: A004 - urllib3's own name for it
)

from tritune.errors import TrituneError
from tritune.triton.address import Address
from tritune.units import NS_PER_S, format_duration


class Reply(msgspec.Struct, frozen=True):
    """One answer; `t_ns` is our monotonic clock in the middle between asking and having it."""

    status: int
    body: bytes
    content_type: str
    location: str
    t_ns: int

    @property
    def json(self) -> Any:
        """The body as JSON; None where it is none."""
        try:
            return msgspec.json.decode(self.body)
        except msgspec.DecodeError:
            return None

    @property
    def error(self) -> str:
        """Triton's own sentence in `{"error": ...}`; empty where there is none."""
        value = self.json
        return str(value["error"]) if isinstance(value, dict) and "error" in value else ""


class Http:
    """A few kept-alive connections to one address. Safe to use from several threads."""

    def __init__(self, address: Address, *, timeout_s: float) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._answered = False
        self._pool = self._new_pool()

    def request(self, method: str, path: str, *, fresh: bool = False) -> Reply:
        """The answer, whatever its status. `fresh` asks over a connection of its own.

        Fails with server-unreachable, server-gone (where the server has answered before), server-timeout,
        tls-failed or not-http. A connection that the server closed between two requests is opened again once.
        """
        pool = self._new_pool() if fresh else self._pool
        try:
            return self._ask(pool, method, path)
        except (HTTPError, OSError) as error:
            raise self._translated(error) from error
        finally:
            if fresh:
                pool.close()

    def close(self) -> None:
        """Close the connections."""
        self._pool.close()

    def _new_pool(self) -> urllib3.HTTPConnectionPool:
        kind = urllib3.HTTPSConnectionPool if self.address.tls else urllib3.HTTPConnectionPool
        # Blocking for a free connection: past `maxsize` urllib3 would log a warning for every extra one.
        return kind(
            self.address.host,
            self.address.port,
            timeout=urllib3.Timeout(connect=self._timeout_s, read=self._timeout_s),
            maxsize=8,
            block=True,
        )

    def _ask(self, pool: urllib3.HTTPConnectionPool, method: str, path: str) -> Reply:
        for attempt in (1, 2):
            begin = time.monotonic_ns()
            try:
                answer = pool.request(method, path, retries=False, redirect=False)
            except ProtocolError:
                # A kept-alive connection that was closed under us; a first one that breaks is an answer.
                if not self._answered or attempt == 2:
                    raise
                continue
            self._answered = True
            return Reply(
                status=answer.status,
                body=answer.data,
                content_type=answer.headers.get("content-type", ""),
                location=answer.headers.get("location", ""),
                t_ns=(begin + time.monotonic_ns()) // 2,
            )
        raise AssertionError("unreachable: the second attempt returns or raises")

    def _translated(self, error: Exception) -> TrituneError:
        url = self.address.url
        if isinstance(error, NameResolutionError):
            return TrituneError(
                f"there is no host '{self.address.host}'",
                slug="unknown-host",
                hint="Check the spelling; the name must resolve on this machine.",
            )
        if isinstance(error, SSLError):
            return TrituneError(
                f"{url} cannot be reached over TLS: {error}",
                slug="tls-failed",
                hint="Triton itself serves plain HTTP unless told otherwise: try http:// instead of https://.",
            )
        refused = isinstance(error, NewConnectionError)
        if isinstance(error, TimeoutError) and not refused:
            return TrituneError(
                f"{url} did not answer within {format_duration(self._timeout_s * NS_PER_S)}",
                slug="server-timeout",
                # Measured: after kill -9 the stubs hold the listening socket for up to 7 s, and never answer.
                hint="The server is overloaded or stuck, or it died and a child of its holds the port.",
            )
        if self._answered:
            return TrituneError(
                f"the server at {url} is gone: it answered before and does not any more",
                slug="server-gone",
                hint="See the server's log for why it ended.",
            )
        if refused:
            return TrituneError(
                f"nothing listens at {url}",
                slug="server-unreachable",
                hint="Is the server running, and is this its HTTP port (Triton's default is 8000)?",
            )
        return TrituneError(
            f"{url} answers, but not in HTTP",
            slug="not-http",
            hint="Give the HTTP endpoint of the server (Triton's default port is 8000).",
        )
