"""Waiting for a started Triton: ready, dead, or beaten to a port; and what its log says of it."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from http.client import HTTPConnection, HTTPException
from pathlib import Path

import msgspec
import psutil

from tritune.errors import TrituneError

_POLL_S = 0.05
_LOG_LINES = 3
_LOG_WIDTH = 300
# What Triton writes when one of its three ports was taken.
_PORT_SIGN = "Unavailable - Socket"
# Before the text of a line: "E1130 14:34:42.170882 11492 main.cc:245] ".
_PREFIX = re.compile(r"^[A-Z]\d{4} [\d:.]+ +\d+ \S+\] +")


class PortTakenError(Exception):
    """Someone took one of the three ports between our look and the server's."""


def wait_ready(
    host: str, port: int, pid: int, alive: Callable[[], bool], log: Path, deadline_s: float
) -> str:
    """The server's version once it is ready to infer.

    Raises PortTakenError, or TrituneError with what the log says: the process died, or `deadline_s` passed.
    """
    deadline = time.monotonic() + deadline_s
    while time.monotonic() < deadline:
        if not alive():
            if _PORT_SIGN in _text(log):
                raise PortTakenError
            raise died(log)
        # Asked first: Triton answers as ready for a moment before it finds that a port is another's.
        if _listens(pid, port) and _get(host, port, "/v2/health/ready") is not None:
            metadata = _get(host, port, "/v2")
            if metadata is not None:
                return str(msgspec.json.decode(metadata).get("version", ""))
        time.sleep(_POLL_S)
    raise TrituneError(
        f"Triton was not ready within {deadline_s:g} s; its log ends with: {_tail(log)}",
        slug="server-not-ready",
        hint=f"The whole log: {log}",
    )


def died(log: Path) -> TrituneError:
    """The error for a server that ended before it was ready."""
    return TrituneError(
        f"Triton ended while starting; its log says: {_tail(log)}",
        slug="server-died",
        hint=f"The whole log: {log}",
    )


def _listens(pid: int, first: int) -> bool:
    """Whether this very process holds all three ports."""
    try:
        held = {c.laddr.port for c in psutil.Process(pid).net_connections("tcp") if c.status == "LISTEN"}
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return False
    return held >= {first, first + 1, first + 2}


def _get(host: str, port: int, path: str) -> bytes | None:
    """The body of a 200 answer, None for anything else."""
    connection = HTTPConnection(host, port, timeout=2)
    try:
        connection.request("GET", path)
        reply = connection.getresponse()
        body = reply.read()
    except (OSError, HTTPException):
        return None
    finally:
        connection.close()
    return body if reply.status == 200 else None


def _text(log: Path) -> str:
    try:
        return log.read_text(errors="replace")
    except OSError:
        return ""


def _tail(log: Path) -> str:
    """The last different lines that complain, else the last lines; as one line of text."""
    lines = [line.strip() for line in _text(log).splitlines() if line.strip()]
    complaints = [line for line in lines if re.match(r"E\d{4} ", line) or "rror" in line]
    told = dict.fromkeys(_PREFIX.sub("", line).strip('"')[:_LOG_WIDTH] for line in complaints or lines)
    return " | ".join(list(told)[-_LOG_LINES:]) or "nothing"
