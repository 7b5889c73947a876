"""A tuning wired to the real world: run folder, journal, lock, watchdog, and the files of its report."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from tritune import __version__
from tritune.cli.live import live_progress
from tritune.cli.model_folder import RealModelFolder, started_at
from tritune.cli.wiring import instruments
from tritune.errors import TrituneError
from tritune.model.run import Manifest
from tritune.report.content.tuning import tuning_document
from tritune.report.render.html import html
from tritune.store.guard import TuneGuard
from tritune.store.journal import Address
from tritune.store.runs import Runs
from tritune.tune.result import TuneResult
from tritune.tune.undo import Serving
from tritune.verbs.ports import Journal, Progress, Server
from tritune.verbs.preflight import Served, is_loopback
from tritune.verbs.request import TuneRequest
from tritune.verbs.tune import Tuning

TUNE = "tune.json"
REPORT = "report.html"


class TuneSession:
    """One tuning from the command line; `run` does it, `finish` writes its folder."""

    def __init__(
        self,
        server: Server,
        address: Address,
        request: TuneRequest,
        runs: Path,
        *,
        config: Path | None = None,
        newer_files_ok: bool = False,
        watchdog: bool = True,
        progress: Progress | None = None,
    ) -> None:
        self.server = server
        self.address = address
        self.request = request
        self.watchdog = watchdog
        workload = request.workload
        started = started_at(server.target.port) if is_loopback(server.target.host) else None
        folder = RealModelFolder(config, None if newer_files_ok else started) if config else None
        self.tuning = Tuning(
            instruments(
                server,
                rate_per_s=workload.rate_per_s,
                timeout_ns=workload.timeout_ns,
                progress=progress or live_progress(),
            ),
            request,
            Runs(runs),
            self._guard,
            folder,
        )

    def run(self) -> TuneResult:
        """The tuning; a run folder that was begun is finished as cut when it fails on the way."""
        try:
            return self.tuning.tune()
        except BaseException as error:
            if self.tuning.run is not None:
                why = error.message if isinstance(error, TrituneError) else type(error).__name__
                path = self._finish("cut", why)
                sys.stderr.write(f"Wrote {path} (cut short)\n")
            raise

    def finish(self, result: TuneResult) -> str:
        """Write tune.json, report.html and the manifest; the folder's path."""
        run = self.tuning.run
        if run is None:
            raise ValueError("nothing was run")
        run.add_file(TUNE, msgspec.json.format(msgspec.json.encode(result), indent=2))
        run.add_file(REPORT, html(tuning_document(result)))
        cut = result.status == "cut"
        return self._finish("cut" if cut else "complete", "; ".join(result.notes) if cut else "")

    def _finish(self, status: str, cut: str) -> str:
        tuning = self.tuning
        if tuning.run is None:
            raise ValueError("nothing was run")
        return tuning.run.finish(
            Manifest(
                kind="tune",
                status="cut" if status == "cut" else "complete",
                cut=cut,
                created=tuning.kit.clock.utc(),
                tool_version=__version__,
                server_version=tuning.server_version,
                url=self.server.url,
                model=self.request.workload.model,
                slo=self.request.slo,
            )
        )

    def _guard(self, now: Served, run: str) -> AbstractContextManager[Journal]:
        serving = Serving(now.config_json, now.versions)
        model = self.request.workload.model
        return TuneGuard(self.address, model, run=run, serving=serving, watchdog=self.watchdog)
