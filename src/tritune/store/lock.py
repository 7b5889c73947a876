"""One lock file per model: it names the owner, and a dead owner's lock is taken over."""

from __future__ import annotations

import contextlib
import fcntl
import os
from collections.abc import Iterator
from pathlib import Path

import msgspec

from tritune.errors import TrituneError
from tritune.store.owner import Owner


class ModelLock:
    """The lock beside a journal. The file stays when it is free; an empty one belongs to nobody."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def take(self, owner: Owner) -> None:
        """Write `owner` into the file. Refuses (slug tune-in-progress) while a living process holds it."""
        with self._opened() as fd:
            held = _read(fd)
            if held is not None and held.is_alive:
                raise self._refusal(held)
            _write(fd, msgspec.json.encode(owner))

    def give_back(self, owner: Owner) -> None:
        """Empty the file if `owner` still holds it; nothing otherwise."""
        if not self.path.exists():
            return
        with self._opened() as fd:
            held = _read(fd)
            if held == owner:
                _write(fd, b"")

    def holder(self) -> Owner | None:
        """Who holds it, alive or not; None where nobody does or there is no such file."""
        try:
            return _decode(self.path.read_bytes())
        except OSError:
            return None

    @contextlib.contextmanager
    def _opened(self) -> Iterator[int]:
        """The file, alone: flock lasts only for the reading and writing, the content is the lock."""
        try:
            fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX)
                yield fd
            finally:
                os.close(fd)
        except OSError as error:
            raise TrituneError(
                f"the lock {self.path} cannot be written: {error.strerror}",
                slug="state-not-writable",
                hint="Make the folder writable, or set XDG_STATE_HOME to one that is.",
            ) from error

    def _refusal(self, held: Owner) -> TrituneError:
        what = {"tune": "is being tuned", "restore": "is being restored"}.get(
            held.role, "is being restored by a watchdog"
        )
        where = f" on {held.host}" if held.is_foreign else ""
        hint = "Wait until it has ended, or end that process."
        if held.is_foreign:
            hint = f"If that machine or container is gone, delete {self.path}."
        return TrituneError(
            f"this model {what} by process {held.pid}{where} since {held.started}",
            slug="tune-in-progress",
            hint=hint,
        )


def _read(fd: int) -> Owner | None:
    return _decode(os.pread(fd, 65536, 0))


def _decode(content: bytes) -> Owner | None:
    """The owner; None for an empty or torn file, whose writer died before it had done anything."""
    try:
        return msgspec.json.decode(content, type=Owner) if content else None
    except msgspec.MsgspecError:
        return None


def _write(fd: int, content: bytes) -> None:
    os.ftruncate(fd, 0)
    os.pwrite(fd, content, 0)
    os.fsync(fd)
