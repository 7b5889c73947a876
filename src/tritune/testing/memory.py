"""A journal, run folders and a progress that remember instead of writing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Self

from tritune.model.load import Tick
from tritune.model.requests import RequestLog
from tritune.model.run import Manifest
from tritune.model.server import Snapshot


class MemoryJournal:
    """Satisfies `tritune.verbs.ports.Journal`, and is its own guard: it has no lock and no watchdog."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []

    def append(
        self,
        action: str,
        *,
        run: str,
        before: str | None,
        after: str | None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """One line."""
        self.lines.append(
            dict(facts or {}) | {"run": run, "action": action, "before": before, "after": after}
        )

    def entries(self) -> tuple[dict[str, Any], ...]:
        """All lines, oldest first."""
        return tuple(self.lines)

    @property
    def actions(self) -> list[str]:
        """What was done, oldest first."""
        return [str(line["action"]) for line in self.lines]

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None


@dataclass
class MemoryRun:
    """Satisfies `tritune.verbs.ports.RunFolder`; `manifest` is None until it is finished."""

    path: str
    requests: RequestLog | None = None
    snapshots: tuple[Snapshot, ...] = ()
    files: dict[str, str | bytes] = field(default_factory=dict)
    trials: list[MemoryRun] = field(default_factory=list)
    manifest: Manifest | None = None

    def add_requests(self, log: RequestLog) -> None:
        """requests.parquet."""
        self.requests = log

    def add_server(self, snapshots: Sequence[Snapshot]) -> None:
        """server.parquet."""
        self.snapshots = tuple(snapshots)

    def add_file(self, name: str, content: str | bytes) -> None:
        """Any other file."""
        self.files[name] = content

    def trial(self, name: str) -> MemoryRun:
        """A run inside this one."""
        self.trials.append(MemoryRun(f"{self.path}/trials/{name}"))
        return self.trials[-1]

    def finish(self, manifest: Manifest) -> str:
        """Done."""
        self.manifest = manifest
        return self.path


class MemoryRuns:
    """Satisfies `tritune.verbs.ports.RunStore`."""

    def __init__(self) -> None:
        self.runs: list[MemoryRun] = []

    def create(self, model: str) -> MemoryRun:
        """A new run."""
        self.runs.append(MemoryRun(f"runs/{len(self.runs) + 1}-{model}"))
        return self.runs[-1]


class RecordingProgress:
    """Satisfies `tritune.verbs.ports.Progress`."""

    def __init__(self) -> None:
        self.steps: list[str] = []
        self.notes: list[str] = []
        self.ticks: list[Tick] = []

    def step(self, text: str) -> None:
        """A new phase."""
        self.steps.append(text)

    def note(self, text: str) -> None:
        """Something worth keeping."""
        self.notes.append(text)

    def tick(self, tick: Tick) -> None:
        """A load is running."""
        self.ticks.append(tick)
