"""The acts of a demo."""

from __future__ import annotations

import shutil
from pathlib import Path

import msgspec

from tritune.cli.lab import Lab, hey_p99_ns
from tritune.cli.session import TuneSession
from tritune.cli.wiring import instruments
from tritune.model.workload import Workload
from tritune.pbtxt.edit import edit
from tritune.scenarios import Scenario
from tritune.store.journal import Address
from tritune.tune.result import TuneResult
from tritune.verbs.request import TuneRequest
from tritune.verbs.witness import Testimony, testify, views

CONFIG = "config.pbtxt"


class Play:
    """One scenario on servers of its own."""

    def __init__(self, lab: Lab, scenario: Scenario, workload: Workload, runs: Path) -> None:
        self.lab = lab
        self.scenario = scenario
        self.workload = workload
        self.runs = runs

    def testimony(self, repository: Path, why: str) -> Testimony:
        """The three independent views of what `repository` says, on a fresh server."""
        hey = self.scenario.hey
        with self.lab.server(repository, why) as server:
            kit = instruments(
                server,
                rate_per_s=self.workload.rate_per_s,
                timeout_ns=self.workload.timeout_ns,
                progress=self.lab.progress,
            )
            return testify(
                kit,
                self.workload,
                lambda: hey_p99_ns(server, self.workload.model, concurrency=hey.concurrency, count=hey.count),
            )

    def tune(self, repository: Path) -> tuple[TuneSession, TuneResult]:
        """The tuning itself, on a fresh server; the session still has to be finished."""
        with self.lab.server(repository, "to be tuned") as server:
            session = TuneSession(
                server,
                Address(server.url),
                TuneRequest(self.workload, self.scenario.objective, max_reloads=self.scenario.budget.reloads),
                self.runs,
                config=repository / self.workload.model / CONFIG,
                progress=self.lab.progress,
            )
            return session, session.run()

    def edited(self, repository: Path, result: TuneResult) -> Path | None:
        """A copy of the repository with the tuned file in it; None where nothing was changed."""
        if not result.change.settings or result.status == "advice":
            return None
        copy = repository.with_name("models-tuned")
        shutil.copytree(repository, copy)
        file = copy / self.workload.model / CONFIG
        # Bytes, so that the file's own line ends stay.
        file.write_bytes(edit(file.read_bytes().decode(), result.change).encode())
        return copy

    def told(self, result: TuneResult, before: Testimony, after: Testimony | None) -> TuneResult:
        """The result with what the witnesses saw."""
        notes = dict.fromkeys((*result.notes, *before.notes, *(after.notes if after else ())))
        seen = views(before, after, self.scenario.hey.concurrency)
        # The server of a demo is gone by now: there is nothing left to undo.
        return msgspec.structs.replace(result, views=seen, notes=tuple(notes), next_commands=())
