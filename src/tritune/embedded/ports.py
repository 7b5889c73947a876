"""Three free neighbouring ports: HTTP, gRPC = HTTP + 1, metrics = HTTP + 2, as every verb expects."""

from __future__ import annotations

import secrets
import socket
from contextlib import ExitStack

from tritune.errors import TrituneError

# Below Linux's range for outgoing connections (32768 and up), so that no client takes one meanwhile.
_FIRST, _LAST = 20_000, 32_000
_TRIES = 200


def free_ports() -> int:
    """The first of three neighbouring ports on 127.0.0.1 that were free a moment ago."""
    for _ in range(_TRIES):
        first = _FIRST + secrets.randbelow(_LAST - _FIRST)
        if all_free(first):
            return first
    raise TrituneError(
        f"no three neighbouring free ports between {_FIRST} and {_LAST} on 127.0.0.1",
        slug="no-free-port",
        hint="Stop servers that are no longer needed: tritune server status lists tritune's own.",
    )


def all_free(first: int) -> bool:
    """Whether `first` and its two neighbours can be bound on 127.0.0.1 now."""
    with ExitStack() as held:
        for port in range(first, first + 3):
            probe = held.enter_context(socket.socket(socket.AF_INET, socket.SOCK_STREAM))
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            try:
                probe.bind(("127.0.0.1", port))
            except OSError:
                return False
    return True
