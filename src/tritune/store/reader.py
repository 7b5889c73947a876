"""Run folders being read back; forgiving of fields, files and columns that this version does not know."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import msgspec
import numpy as np

from tritune.errors import TrituneError
from tritune.model.requests import RequestLog
from tritune.model.run import Manifest
from tritune.store.parquet import Column, read_columns
from tritune.store.runs import MANIFEST, PARTIAL, REQUESTS, SERVER

# What a column that an older or newer writer left out means: none, except for these.
DEFAULTS = {"items": 1, "attempt": 0, "kind": 0, "model": 0, "shape": 0, "worker": 0, "new_connection": 0}


@dataclass(frozen=True)
class StoredRun:
    """A run folder; the manifest is read, everything else when it is asked for."""

    path: Path
    manifest: Manifest

    def requests(self) -> RequestLog:
        """Every attempt; empty where the run kept none."""
        if not (self.path / REQUESTS).exists():
            return RequestLog.empty()
        columns = read_columns(self.path / REQUESTS)
        rows = max((len(column) for column in columns.values()), default=0)
        missing = {
            name: np.full(rows, DEFAULTS.get(name, -1), np.int64)
            for name in RequestLog.columns()
            if name not in columns
        }
        known = {name: columns[name] for name in RequestLog.columns() if name in columns}
        return RequestLog(**{name: c.astype(np.int64) for name, c in (known | missing).items()})

    def server(self) -> dict[str, Column]:
        """The rows of server.parquet by column (store.rows); empty where the run kept none."""
        place = self.path / SERVER
        return read_columns(place) if place.exists() else {}

    def file(self, name: str) -> bytes | None:
        """Any other file; None where there is no such file."""
        place = self.path / name
        try:
            return place.read_bytes() if place.is_file() else None
        except OSError as error:
            raise _unreadable(place, error.strerror or str(error)) from error

    def text(self, name: str) -> str | None:
        """Any other file as text."""
        content = self.file(name)
        return None if content is None else content.decode(errors="replace")

    def trials(self) -> tuple[StoredRun, ...]:
        """The measured settings of a tune run, in the order of their names; unfinished ones left out."""
        return list_runs(self.path / "trials")


def open_run(path: str | Path, *, whole: bool = False) -> StoredRun:
    """The run in `path`; with `whole`, one that was cut short is refused (slug run-cut).

    Raises TrituneError in one sentence for: not a run folder, a run whose writer was killed before its end
    (run-unfinished), a damaged one (run-unreadable).
    """
    folder = Path(path)
    place = folder / MANIFEST
    if folder.name == MANIFEST and folder.is_file():
        return open_run(folder.parent, whole=whole)
    if not place.is_file():
        raise _not_a_run(folder)
    try:
        manifest = msgspec.json.decode(place.read_bytes(), type=Manifest)
    except OSError as error:
        raise _unreadable(place, error.strerror or str(error)) from error
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise _unreadable(place, str(error)) from error
    if whole and manifest.status == "cut":
        raise TrituneError(
            f"the run {folder} was cut short: {manifest.cut}",
            slug="run-cut",
            hint="Measure again, or look at what it kept with `tritune report`.",
        )
    return StoredRun(folder, manifest)


def list_runs(root: str | Path) -> tuple[StoredRun, ...]:
    """The readable runs under `root`, oldest first; none where there is no such folder."""
    found: list[StoredRun] = []
    for folder in sorted(Path(root).glob("*/")):
        if not folder.name.startswith(".") and (folder / MANIFEST).is_file():
            try:
                found.append(open_run(folder))
            except TrituneError:
                continue
    return tuple(found)


def _not_a_run(folder: Path) -> TrituneError:
    if folder.name.startswith(".") and folder.name.endswith(PARTIAL):
        return TrituneError(
            f"the run {folder} was never finished: its process ended before it could",
            slug="run-unfinished",
            hint="Its files are as they were written; measure again for a whole run.",
        )
    what = "is no run folder: it has no manifest.json" if folder.is_dir() else "does not exist"
    return TrituneError(
        f"{folder} {what}",
        slug="not-a-run",
        hint="Name a folder that `tritune load` or `tritune tune` wrote, e.g. tritune-runs/....",
    )


def _unreadable(place: Path, reason: str) -> TrituneError:
    return TrituneError(
        f"{place} cannot be read: {reason}",
        slug="run-unreadable",
        hint="It was damaged, or written by a newer tritune; measure again, or update.",
    )
