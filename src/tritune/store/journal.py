"""The journal of one model of one server: what was done to it, on disk before it is done."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec

from tritune.errors import TrituneError
from tritune.places import state_folder
from tritune.store.lock import ModelLock
from tritune.store.owner import this_process
from tritune.store.state import journal_path
from tritune.tune.undo import BEGIN, Session, sessions


def utc_now() -> str:
    """The wall clock, ISO 8601 in UTC with milliseconds."""
    return datetime.now(UTC).isoformat(timespec="milliseconds")


class Address(msgspec.Struct, frozen=True):
    """How a server was reached: what a later `restore` without a URL and the watchdog connect to."""

    url: str
    grpc: str | None = None
    metrics: str | None = None


class JournalFile:
    """Satisfies `ports.Journal`: JSON lines {time, run, action, before, after, facts...}, fsynced each.

    A torn line, the last one or one that a crash left in the middle, is ignored: it announced something
    that was then never done. "begin" is given the server's address, so that it can be found again.
    """

    def __init__(self, path: Path, address: Address | None = None, now: Callable[[], str] = utc_now) -> None:
        self.path = path
        self.address = address
        self._now = now

    @property
    def lock(self) -> ModelLock:
        """The lock file beside it."""
        return ModelLock(self.path.with_suffix(".lock"))

    def append(
        self,
        action: str,
        *,
        run: str,
        before: str | None,
        after: str | None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """One line; on disk when this returns, with the folder's entry for it. Fails on a full disk."""
        line: dict[str, Any] = dict(facts or {})
        if action == BEGIN and self.address is not None:
            line |= msgspec.to_builtins(self.address)
        line |= {"time": self._now(), "run": run, "action": action, "before": before, "after": after}
        try:
            self._write(msgspec.json.encode(line) + b"\n")
        except OSError as error:
            raise _not_writable(self.path, error) from error

    def entries(self) -> tuple[dict[str, Any], ...]:
        """All whole lines, oldest first; none where there is no file yet."""
        try:
            content = self.path.read_bytes()
        except FileNotFoundError:
            return ()
        except OSError as error:
            raise TrituneError(
                f"the journal {self.path} cannot be read: {error.strerror}",
                slug="journal-unreadable",
                hint="Without it nothing can be undone; make it readable for this user.",
            ) from error
        found: list[dict[str, Any]] = []
        for line in content.split(b"\n"):
            try:
                entry = msgspec.json.decode(line)
            except (msgspec.DecodeError, UnicodeDecodeError):
                continue
            if isinstance(entry, dict):
                found.append(entry)
        return tuple(found)

    def sessions(self) -> tuple[Session, ...]:
        """The tunings it tells of, oldest first."""
        return sessions(self.entries())

    def prepare(self) -> None:
        """Make the folder, readable by this user only."""
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise _not_writable(self.path, error) from error

    def _write(self, line: bytes) -> None:
        self.prepare()
        is_new = not self.path.exists()
        fd = os.open(self.path, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        try:
            size = os.fstat(fd).st_size
            if size and os.pread(fd, 1, size - 1) != b"\n":
                line = b"\n" + line  # after a torn line
            written = os.write(fd, line)
            if written != len(line):
                raise OSError(28, "no space left on the device")  # a short write to a file means a full disk
            os.fsync(fd)
        finally:
            os.close(fd)
        if is_new:
            _sync_folders(self.path.parent)


class Held:
    """Satisfies `ports.Guard` without a watchdog: the journal while this process holds its lock."""

    def __init__(self, journal: JournalFile, *, run: str, role: str) -> None:
        self.journal = journal
        self._owner = this_process(run, utc_now(), role)

    def __enter__(self) -> JournalFile:
        """Take the lock; fails with one sentence while another living process holds it."""
        self.journal.prepare()
        self.journal.lock.take(self._owner)
        return self.journal

    def __exit__(self, *_: object) -> None:
        """Give the lock back."""
        self.journal.lock.give_back(self._owner)


class Known(msgspec.Struct, frozen=True):
    """A model that tritune has tuned: where it is served, its journal, and its last tuning."""

    address: Address
    model: str
    path: str
    session: Session


def open_journal(address: Address, model: str, home: Path | None = None) -> JournalFile:
    """The journal of one model of one server, whether or not it exists yet."""
    return JournalFile(journal_path(address.url, model, home), address)


def known_models(home: Path | None = None) -> tuple[Known, ...]:
    """Every model with a journal, by path; those without a whole session are left out."""
    found: list[Known] = []
    for path in sorted(((home or state_folder()) / "journal").glob("*/*.jsonl")):
        journal = JournalFile(path)
        begun = [entry for entry in journal.entries() if entry.get("action") == BEGIN]
        told = journal.sessions()
        if not begun or not told:
            continue
        try:
            address = msgspec.convert(begun[-1], Address)
        except msgspec.ValidationError:
            continue
        model = begun[-1].get("model")
        found.append(Known(address, model if isinstance(model, str) else path.stem, str(path), told[-1]))
    return tuple(found)


def _sync_folders(folder: Path) -> None:
    """Make new directory entries durable: the file's own, and those of the folders made for it."""
    for place in (folder, folder.parent, folder.parent.parent):
        fd = os.open(place, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)


def _not_writable(path: Path, error: OSError) -> TrituneError:
    return TrituneError(
        f"the journal {path} cannot be written: {error.strerror}",
        slug="state-not-writable",
        hint="Nothing is loaded that cannot be undone: make room, or set XDG_STATE_HOME to another folder.",
    )
