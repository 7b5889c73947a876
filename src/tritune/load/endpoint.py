"""The address that a run sends to: resolved and tried once, before the clock starts."""

from __future__ import annotations

import asyncio
import os
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass

from tritune.errors import TrituneError
from tritune.load.connection import Connection
from tritune.model.load import Target

_FIRST_CONNECT_S = 5.0
_HUNG_UP = (ConnectionResetError, ConnectionAbortedError, BrokenPipeError)


@dataclass(frozen=True)
class Endpoint:
    """A numeric address that answered, so that no name is looked up while requests wait."""

    address: str
    port: int
    tls: ssl.SSLContext | None
    server_name: str | None

    async def connect(self, make: Callable[[], Connection]) -> Connection:
        """One more connection. Raises OSError (of which ssl.SSLError and TimeoutError are kinds)."""
        loop = asyncio.get_running_loop()
        _, connection = await loop.create_connection(
            make, self.address, self.port, ssl=self.tls, server_hostname=self.server_name
        )
        return connection


async def find(target: Target, make: Callable[[], Connection]) -> tuple[Endpoint, Connection]:
    """The first address of the host that accepts a connection, and that connection.

    Raises TrituneError where the name is unknown, nothing listens, or TLS cannot be agreed on.
    """
    where = f"{target.host}:{target.port}"
    tls = ssl.create_default_context() if target.tls else None
    server_name = target.host if target.tls else None
    loop = asyncio.get_running_loop()
    try:
        found = await loop.getaddrinfo(target.host, target.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:  # UnicodeError: it cannot be a name at all
        raise TrituneError(
            f"the host name '{target.host}' is not known here",
            slug="unknown-host",
            hint="Check the spelling of the address, or give the server's IP address.",
        ) from error
    trouble = OSError("no address")
    for address in dict.fromkeys(str(info[4][0]) for info in found):
        endpoint = Endpoint(address, target.port, tls, server_name)
        try:
            return endpoint, await asyncio.wait_for(endpoint.connect(make), _FIRST_CONNECT_S)
        except OSError as error:
            trouble = error
    raise _explained(where, trouble, tls=target.tls) from trouble


def _explained(where: str, trouble: OSError, *, tls: bool) -> TrituneError:
    # A server that speaks plain HTTP either answers the TLS greeting with text or hangs up on it.
    if isinstance(trouble, ssl.SSLError) or (tls and isinstance(trouble, _HUNG_UP)):
        reason = trouble.reason if isinstance(trouble, ssl.SSLError) and trouble.reason else trouble
        return TrituneError(
            f"{where} and this machine do not agree on TLS ({reason})",
            slug="tls-failed",
            hint="Use http:// if the server speaks plain HTTP, or have this machine trust its certificate.",
        )
    if isinstance(trouble, TimeoutError):
        return TrituneError(
            f"{where} did not accept a connection within {_FIRST_CONNECT_S:g} s",
            slug="connect-timeout",
            hint="Check the address, and that no firewall drops what is sent to this port.",
        )
    return TrituneError(
        f"nothing accepts connections at {where} ({_reason(trouble)})",
        slug="cannot-connect",
        hint="Start the server, or check the address and the port.",
    )


def _reason(error: Exception) -> str:
    """The system's words where it has some: asyncio wraps them into a longer text of its own."""
    number = getattr(error, "errno", None)
    return os.strerror(number) if number is not None and number > 0 else str(error)
