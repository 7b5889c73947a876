"""Tune one model against an SLO: look, measure twice, explain, search, and leave the server as proven.

The server ends with the best proven setting or, when the tuning is cut short, with the original.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

from tritune.diagnose.diagnose import diagnose
from tritune.diagnose.result import Diagnosis
from tritune.errors import TrituneError, UsageError
from tritune.model.config import Change
from tritune.model.load import BY_HAND
from tritune.model.server import ModelKey, ServerWindow, window
from tritune.model.slo import Slo
from tritune.pbtxt.diff import unified_diff
from tritune.pbtxt.edit import edit
from tritune.pbtxt.message import apply_json, text_of_json, view_json
from tritune.stats.trust import doubt
from tritune.tune.progress import combined
from tritune.tune.result import Status, StepResult, TuneResult
from tritune.tune.space import STAGES
from tritune.tune.undo import FINISHED
from tritune.tune.verdict import holds
from tritune.units import NS_PER_S, format_duration
from tritune.verbs.measure import SETTLE_S, Cell, Instruments, cut_short, figures, pool
from tritune.verbs.ports import Journal, ModelFolder, RunFolder, RunStore
from tritune.verbs.preflight import (
    Served,
    refuse_foreign_traffic,
    refuse_unsafe_folder,
    refuse_unsafe_models,
    refuse_without_memory,
    served,
)
from tritune.verbs.request import TuneRequest
from tritune.verbs.restore import undo
from tritune.verbs.search import TRIAL_OVERHEAD_NS, CutShortError, Search
from tritune.verbs.trials import Trials, settle

BASELINE_CELLS = 2
QUIET_REQUESTS = 30
QUIET_NS = 5 * NS_PER_S


@dataclass
class Tuning:
    """One tuning under way.

    `guard(served, run)` takes the lock and starts the watchdog; `folder` is the model's, where it is seen.
    `run` is the run folder, made once nothing was refused.
    """

    kit: Instruments
    request: TuneRequest
    store: RunStore
    guard: Callable[[Served, str], AbstractContextManager[Journal]]
    folder: ModelFolder | None = None
    notes: list[str] = field(default_factory=list)
    run: RunFolder | None = None
    cut: str = ""

    def tune(self) -> TuneResult:
        """The whole story. Raises TrituneError for what is refused before anything was changed."""
        kit, request = self.kit, self.request
        model = request.workload.model
        kit.progress.step(f"looking at {model} on {kit.server.url}")
        self.server_version = kit.server.info().version
        self.now = served(kit.server, model, view_json, request.workload.version)
        if request.data is None and (sentence := kit.server.needs_data(model, self.now.versions[0])):
            raise UsageError(
                sentence,
                slug="needs-data",
                hint="A request as you would POST it to the model's /infer endpoint, as a JSON file.",
            )
        may_load = request.may_reload and self._preflight()
        if not request.may_reload:
            self.notes.append("reloads were not allowed (--allow-reload), so nothing was tried")
        self.run = run = self.store.create(model)
        run.add_file("config/effective.json", self.now.config_json)
        run.add_file("config/original.pbtxt", self._original_text())
        self.trials = Trials(
            kit,
            request.workload,
            self.now,
            request.data,
            request.slo,
            self.server_version,
            run,
            request.max_reloads,
            request.load_deadline_s,
        )
        started_ns = kit.clock.now_ns()
        baseline = self._baseline()
        self.diagnosis = self._diagnose(baseline)
        if (cut := baseline[-1].measurement.cut) in BY_HAND:
            self.cut = cut
            return self._result("cut", baseline, None)
        if why := next((w for w in map(doubt, figures(baseline)) if w), ""):
            self.notes.append(f"nothing was tried, because the baseline cannot be believed: {why}")
            return self._result("undecided", baseline, None)
        if (cut := settle(self.trials, request.slo, baseline)) in BY_HAND:
            self.cut = cut
            return self._result("cut", baseline, None)
        if holds(request.slo, pool(baseline)) == "met":
            return self._result("already met", baseline, None)
        if not may_load:
            return self._advice(baseline)
        return self._search(baseline, started_ns)

    # Looking -----------------------------------------------------------------------------------

    def _preflight(self) -> bool:
        """Every refusal of interfaces.md; returns whether this server loads models when asked."""
        kit, request = self.kit, self.request
        model = request.workload.model
        ready = {entry.name for entry in kit.server.index() if entry.state == "READY"}
        others = {name: view_json(kit.server.effective_config(name)) for name in sorted(ready - {model})}
        refuse_unsafe_models(model, self.now, others, caps_batch="max batch size" in request.stages)
        if kit.server.control_mode() != "explicit":
            self.notes.append(
                "this server does not load models on request (its model-control-mode is none or poll), so "
                "nothing was tried"
            )
            return False
        if kit.server.several_replicas():
            raise TrituneError(
                f"several servers answer behind {kit.server.url}",
                slug="several-replicas",
                hint="Name one replica by its own address: a load would reach only one of them.",
            )
        refuse_unsafe_folder(self.folder, self.now.config, shared_ok=request.shared_repository)
        metrics = kit.server.metrics()
        if metrics is not None:
            size = self.folder.size_bytes() if self.folder else 0
            refuse_without_memory(metrics.gauges, size)
        key = ModelKey(model, self.now.versions[0])
        refuse_foreign_traffic(kit.server, kit.clock, key)
        return True

    def _baseline(self) -> list[Cell]:
        """The setting as it is, measured twice: the second tells the noise from run to run."""
        self.trials.warm_up()
        self.quiet = self._quiet_window()
        cells: list[Cell] = []
        for number in range(1, BASELINE_CELLS + 1):
            self.kit.progress.step(f"measuring the baseline ({number} of {BASELINE_CELLS})")
            cells.append(self.trials.measure("baseline"))
            if cells[-1].measurement.cut in BY_HAND:
                break
        first = cells[0].measurement
        if first.requests == sum(first.errors.values()):
            kinds = ", ".join(f"{n} {kind}" for kind, n in first.errors.items())
            raise TrituneError(
                f"no request to '{self.request.workload.model}' was answered ({kinds or 'none sent'})",
                slug="nothing-answered",
                hint="Send one request by hand, or pass a real one with --data request.json.",
            )
        return cells

    def _quiet_window(self) -> ServerWindow | None:
        """A few requests one at a time: S(b) without company, against which contention shows."""
        kit, workload = self.kit, self.request.workload
        key = self.trials.key
        before = kit.server.statistics()
        sent = kit.engine.closed_loop(
            kit.server.target,
            1,
            kit.server.shots(workload.model, key.version, workload.items, self.request.data),
            timeout_ns=workload.timeout_ns,
            count=QUIET_REQUESTS,
            duration_ns=QUIET_NS,
        )
        if sent.cut in BY_HAND:
            raise cut_short("the look at single requests", sent.cut)
        kit.clock.sleep(SETTLE_S)
        return window(before, kit.server.statistics(), key)

    def _diagnose(self, baseline: Sequence[Cell]) -> Diagnosis | None:
        whole = pool(baseline)
        if whole.window is None:
            return None
        parts = (self.quiet, whole.window) if self.quiet is not None else ()
        return diagnose(
            self.now.config, whole.window, client_mean_ns=whole.latency["mean"].value, parts=parts
        )

    # Acting ------------------------------------------------------------------------------------

    def _search(self, baseline: list[Cell], started_ns: int) -> TuneResult:
        kit, request = self.kit, self.request
        window_s = baseline[0].measurement.seconds
        kit.progress.note(
            f"at most {request.max_reloads} reloads and {format_duration(request.budget_ns)}; one trial "
            f"takes about {format_duration(TRIAL_OVERHEAD_NS + 2 * window_s * NS_PER_S)}"
        )
        with self.guard(self.now, self.trials.run.path) as journal:
            self.trials.journal = journal
            search = Search(self.trials, request, list(baseline), self.trials.curve_window(), started_ns)
            status: Status
            try:
                search.run()
                self._leave(search)
                status = search.answer
                if status == "undecided":
                    self.notes.append(_more_time(search.cells, request.slo))
            except CutShortError as cut:
                self._give_back()
                self.cut = cut.why
                self.notes.append(f"cut short ({cut.why}); the original configuration is served again")
                search.kept.clear()
                status = "cut"
            except BaseException:
                self._give_back()
                raise
        return self._result(status, baseline, search)

    def _leave(self, search: Search) -> None:
        """Serve the best setting as the operator would have it: the original, plus what was kept."""
        final = self.now.config_json
        for change in search.kept:
            final = apply_json(change, final)
        if not search.kept:
            self._give_back()
            return
        self.kit.progress.step("serving what was proven")
        self.trials.switch(final)
        if self.trials.journal is not None:
            self.trials.journal.append(FINISHED, run=self.trials.run.path, before=None, after=final)

    def _give_back(self) -> None:
        """Serve the original again and prove it; a failure here is told with the way out."""
        self.kit.progress.step("putting the original configuration back")
        model = self.request.workload.model
        try:
            if self.trials.journal is not None:
                done = undo(self.kit.server, self.trials.journal, model, clock=self.kit.clock)
                self.trials.reloads += done.action == "restored"
        except TrituneError as error:
            raise TrituneError(
                f"the original configuration could not be put back: {error.message}",
                slug="not-restored",
                hint=f"The watchdog goes on trying; or run `tritune restore {self.kit.server.url}`.",
            ) from error

    # Telling -----------------------------------------------------------------------------------

    def _advice(self, baseline: list[Cell]) -> TuneResult:
        """The first remedy of the first finding as a diff; nothing was changed."""
        findings = self.diagnosis.findings if self.diagnosis else ()
        remedies = [r for f in findings for r in f.remedies if r.change is not None]
        change = remedies[0].change if remedies else None
        if change is None:
            self.notes.append("no remedy that is a configuration edit follows from what was measured")
        return self._result("advice", baseline, None, change or Change(()))

    def _original_text(self) -> str:
        """The operator's config.pbtxt where we can see it, else the served configuration as text."""
        return self.folder.text() if self.folder is not None else text_of_json(self.now.config_json)

    def _result(
        self,
        status: Status,
        baseline: list[Cell],
        search: Search | None,
        advised: Change | None = None,
    ) -> TuneResult:
        kept = search.kept if search is not None else []
        change = advised if advised is not None else combined(kept)
        text = self._original_text()
        path = self.folder.path if self.folder else f"{self.request.workload.model}/config.pbtxt"
        edited = edit(text, change) if change.settings else text
        if self.folder is None and change.settings:
            self.notes.append(
                "the diff is against the served configuration, because the file was not named (--config)"
            )
        after_json = apply_json(change, self.now.config_json) if change.settings else self.now.config_json
        steps: tuple[StepResult, ...] = tuple(search.steps) if search is not None else ()
        if search is None:
            why = {"already met": f"{self.request.slo} is met as it is", "advice": "advice only"}.get(
                status, "the baseline could not be measured"
            )
            steps = tuple(StepResult(stage, Change(()), (), "", "not tried", why) for stage in STAGES)
        if change.settings:
            self.trials.run.add_file("config/tuned.pbtxt", edited)
            self.trials.run.add_file("config.diff", unified_diff(text, edited, path))
        return TuneResult(
            status=status,
            cut=self.cut,
            url=self.kit.server.url,
            server_version=self.server_version,
            model=self.request.workload.model,
            version=self.now.versions[0],
            workload=self.request.workload,
            slo=self.request.slo,
            before=figures(baseline),
            after=figures(search.cells) if search is not None and kept else (),
            before_whole=pool(baseline),
            after_whole=pool(search.cells) if search is not None and kept else None,
            config_before=self.now.config,
            config_after=view_json(after_json),
            change=change,
            diff=unified_diff(text, edited, path) if change.settings else "",
            diagnosis=self.diagnosis,
            steps=steps,
            reloads=self.trials.reloads,
            next_commands=self._next(status, bool(kept)),
            notes=tuple(self.notes),
        )

    def _next(self, status: Status, kept: bool) -> tuple[str, ...]:
        url, model = self.kit.server.url, self.request.workload.model
        if status == "advice":
            return (
                "patch -p1 < config.diff   # in the folder that holds the model repository's parent path",
                "reload or restart the server, then measure again with tritune load",
            )
        if not kept:
            return ()
        return (
            f"tritune restore {url} --model {model}   # undo: serve the original again",
            "touch config.pbtxt, then load the model   # to make it last, after applying config.diff",
        )


def _more_time(cells: Sequence[Cell], slo: Slo) -> str:
    """What would decide it: the interval shrinks with the square root of the time."""
    seconds = sum(cell.measurement.seconds for cell in cells)
    return (
        f"whether {slo} holds is undecided after {format_duration(seconds * NS_PER_S)} of the final setting; "
        f"a longer window would tell, for example --for {round(seconds * 2)}s"
    )
