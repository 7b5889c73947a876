"""Where the journal lives: one folder per server, one file per model, by the XDG rules."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from urllib.parse import quote, urlsplit

from tritune.errors import UsageError
from tritune.places import state_folder

LOOPBACK = ("localhost", "127.0.0.1", "::1")
# A file name may have 255 bytes; the suffixes (.watchdog.log) need some of them.
LONGEST_NAME = 200


def journal_path(url: str, model: str, home: Path | None = None) -> Path:
    """The journal of one model of one server; the same for localhost, 127.0.0.1 and ::1."""
    return (home or state_folder()) / "journal" / server_name(url) / f"{file_name(model)}.jsonl"


def server_name(url: str) -> str:
    """`host_port` of a URL, safe as a file name; a path in the URL is part of it."""
    try:
        parts = urlsplit(url if "://" in url else f"http://{url}")
        host, port = parts.hostname, parts.port
    except ValueError as error:
        raise _bad_url(url) from error
    if not host:
        raise _bad_url(url)
    host = "localhost" if host in LOOPBACK else host
    port = port or (443 if parts.scheme == "https" else 80)
    return file_name(f"{host}_{port}{parts.path.rstrip('/')}")


def file_name(name: str) -> str:
    """A name as a file name: percent-quoted, never starting with a dot, cut and hashed where it is long."""
    safe = quote(name, safe=" ")
    safe = f"%2E{safe[1:]}" if safe.startswith(".") else safe
    if len(safe) <= LONGEST_NAME:
        return safe
    return f"{safe[: LONGEST_NAME - 17]}-{sha256(name.encode()).hexdigest()[:16]}"


def _bad_url(url: str) -> UsageError:
    return UsageError(
        f"'{url}' is not the address of a server", slug="bad-url", hint="Write http://host:port."
    )
