"""Run folders (version 1) being written: beside their final place, renamed when they are whole."""

from __future__ import annotations

import contextlib
import errno
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from tritune.errors import TrituneError
from tritune.model.requests import RequestLog
from tritune.model.run import Manifest
from tritune.model.server import Snapshot
from tritune.store.environment import environment
from tritune.store.parquet import write_columns
from tritune.store.rows import server_columns
from tritune.store.state import file_name

DEFAULT_ROOT = Path("tritune-runs")
MANIFEST = "manifest.json"
REQUESTS = "requests.parquet"
SERVER = "server.parquet"
ENVIRONMENT = "environment.json"
# A folder with this ending and a leading dot is a run that is being written, or whose writer was killed.
PARTIAL = ".partial"


def utc_name() -> str:
    """The wall clock as a folder's name begins: 20261130T142600Z."""
    return datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")


class Runs:
    """Satisfies `ports.RunStore`: run folders under `root`."""

    def __init__(self, root: Path = DEFAULT_ROOT, now: Callable[[], str] = utc_name) -> None:
        self.root = root
        self._now = now

    def create(self, model: str) -> WritableRun:
        """A new folder <root>/<UTC>-<model>, with -2, -3, ... where the name is taken.

        Fails with one sentence where `root` cannot be written.
        """
        return WritableRun(*_reserve(self.root.absolute(), f"{self._now()}-{file_name(model)}"))


class WritableRun:
    """Satisfies `ports.RunFolder`. `folder` is where it is written, `path` where it will be."""

    def __init__(self, final: Path, folder: Path) -> None:
        self._final = final
        self._folder = folder

    @property
    def path(self) -> str:
        """Where it will be."""
        return str(self._final)

    def add_requests(self, log: RequestLog) -> None:
        """requests.parquet."""
        with _writing(self._folder):
            write_columns(
                self._folder / REQUESTS, {name: getattr(log, name) for name in RequestLog.columns()}
            )

    def add_server(self, snapshots: Sequence[Snapshot]) -> None:
        """server.parquet."""
        with _writing(self._folder):
            write_columns(self._folder / SERVER, server_columns(snapshots))

    def add_file(self, name: str, content: str | bytes) -> None:
        """Any other file, by its path within the folder; ValueError for a path that leads out of it."""
        place = self._folder / name
        if not place.resolve().is_relative_to(self._folder.resolve()) or place == self._folder:
            raise ValueError(f"{name!r} is no path within a run folder")
        with _writing(self._folder):
            self._folder.stat()  # a folder that somebody removed is not made again: its data would be missing
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_bytes(content.encode() if isinstance(content, str) else content)

    def trial(self, name: str) -> WritableRun:
        """A run folder inside this one, under trials/."""
        place, folder = _reserve(self._folder / "trials", file_name(name))
        return WritableRun(self._final / "trials" / place.name, folder)

    def finish(self, manifest: Manifest) -> str:
        """Write manifest.json and environment.json, move the folder into place, return its path."""
        self.add_file(ENVIRONMENT, _pretty(environment()))
        self.add_file(MANIFEST, _pretty(manifest))
        place = self._folder.parent / self._final.name
        with _writing(self._folder):
            self._folder.rename(place)
        self._folder = place
        return self.path


def _reserve(root: Path, name: str) -> tuple[Path, Path]:
    """A free final place and the hidden folder beside it, whose making is what reserves the name."""
    with _writing(root):
        root.mkdir(parents=True, exist_ok=True)
        for attempt in range(1, 10_000):
            final = root / (name if attempt == 1 else f"{name}-{attempt}")
            hidden = root / f".{final.name}{PARTIAL}"
            with contextlib.suppress(FileExistsError):
                hidden.mkdir()
                if not final.exists():
                    return final, hidden
                hidden.rmdir()
    raise TrituneError(
        f"{root} holds too many runs named {name}", slug="runs-not-writable", hint="Clear it out."
    )


@contextlib.contextmanager
def _writing(folder: Path) -> Iterator[None]:
    """An OSError on the way becomes one sentence."""
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        if error.errno in (errno.ENOSPC, errno.EDQUOT) or "No space left" in reason:
            raise TrituneError(
                f"the disk is full: {folder} cannot be written",
                slug="disk-full",
                hint="Make room, or name another place with --runs; what was written so far is kept there.",
            ) from error
        raise TrituneError(
            f"{folder} cannot be written: {reason}",
            slug="runs-not-writable",
            hint="Name a folder that you may write with --runs.",
        ) from error


def _pretty(value: object) -> bytes:
    return msgspec.json.format(msgspec.json.encode(value), indent=2) + b"\n"
