"""The loop of a tuning: each stage's candidates against the best so far, one declared move at a time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import partial

from tritune.diagnose.contention import compare_instances
from tritune.diagnose.moves import COUNT
from tritune.errors import TrituneError
from tritune.model.config import Change
from tritune.model.load import BY_HAND
from tritune.model.measurement import Comparison
from tritune.model.server import ServerWindow
from tritune.pbtxt.message import apply_json, same_json, view_json
from tritune.stats.compare import compare
from tritune.stats.slo import Answer
from tritune.stats.trust import doubt
from tritune.tune.progress import edits
from tritune.tune.result import Outcome, StepResult
from tritune.tune.space import STAGES, Candidate, Passed, Stage, candidates
from tritune.tune.undo import KEEP
from tritune.tune.verdict import abort_rule, batches_moved, holds, keep, needs_pair
from tritune.twin.fit.service import service_curve
from tritune.units import NS_PER_S, format_duration
from tritune.verbs.measure import Cell, figures, pool
from tritune.verbs.request import TuneRequest
from tritune.verbs.trials import Trials, settle

# What one trial costs beside its windows: a reload and a warm-up. Only used to say and keep the budget.
TRIAL_OVERHEAD_NS = 8 * NS_PER_S
# The candidate, then a pair (the best again, the candidate again), then what was proven as the end serves it.
RELOADS_OF_A_TRIAL = 4
# Somebody else uses or changes the model: going on would reload it under their hands.
NOT_ALONE = ("foreign-traffic", "version-moved", "load-differs")


class CutShortError(Exception):
    """The tuning cannot go on; the original has to be put back. `why` is a sentence."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


@dataclass
class Search:
    """Where the search stands: the best proven setting, its cells, and the steps that led there.

    `curve` is the best setting's window from before its warm-up on, which reached every batch size.
    """

    trials: Trials
    request: TuneRequest
    cells: list[Cell]
    curve: ServerWindow | None
    started_ns: int
    steps: list[StepResult] = field(default_factory=list)
    kept: list[Change] = field(default_factory=list)
    instances_help: bool = False
    more_slows: bool = False

    def __post_init__(self) -> None:
        # Trials are pinned from the start, so that two settings differ in nothing but the move itself.
        self.config_json = self.trials.pinned(self.trials.now.config_json)
        self.tried = [self.config_json]
        self.baseline_p99 = pool(self.cells).latency["p99"].value or 0.0

    @property
    def answer(self) -> Answer:
        """Whether the best setting meets the SLO, from all its cells together."""
        return holds(self.request.slo, pool(self.cells))

    @property
    def met(self) -> bool:
        """Beyond doubt."""
        return self.answer == "met"

    def run(self) -> None:
        """Go through the stages; raises CutShortError when interrupted or when the server fails."""
        for stage in STAGES:
            if stage not in self.request.stages:
                self._pass(stage, "left out on request (--stages)")
            elif self.met and not self.request.every_stage:
                self._pass(stage, f"{self.request.slo} is met; add --every-stage to go on looking")
            else:
                self._stage(stage)

    def _stage(self, stage: Stage) -> None:
        """Offer a stage's candidates until it has nothing new; what was kept may open further ones."""
        while True:
            offered = candidates(
                stage,
                view_json(self.config_json),
                {} if self.curve is None else service_curve(self.curve),
                instances_help=self.instances_help,
                more_slows=self.more_slows,
            )
            if isinstance(offered, Passed):
                if not any(step.stage == stage for step in self.steps):
                    self._pass(stage, offered.reason)
                return
            fresh = [c for c in offered if self._is_new(c)]
            if not fresh:
                return
            kept = [self._try(candidate) for candidate in fresh]
            if not any(kept) or stage != "instances" or (self.met and not self.request.every_stage):
                return

    def _is_new(self, candidate: Candidate) -> bool:
        config_json = apply_json(candidate.change, self.config_json)
        return not any(same_json(config_json, other) for other in self.tried)

    def _pass(self, stage: Stage, why: str, change: Change | None = None, reason: str = "") -> None:
        self.steps.append(StepResult(stage, change or Change(()), (), reason, "not tried", why))

    def _try(self, candidate: Candidate) -> bool:
        """One move against the best so far; True where it was kept."""
        if not self._is_new(candidate):
            return False
        if why := self._no_budget():
            self._pass(candidate.stage, why, candidate.change, candidate.reason)
            return False
        before_json = self.config_json
        config_json = apply_json(candidate.change, before_json)
        self.tried.append(config_json)
        progress = self.trials.kit.progress
        lines = edits(candidate.change, view_json(before_json), view_json(config_json))
        progress.step(f"{candidate.stage}: trying {', '.join(lines)}")
        try:
            cells, comparison, cut = self._measure(config_json, str(candidate.change))
        except TrituneError as error:
            if error.slug in BY_HAND:
                raise CutShortError(error.slug) from error
            if error.slug in NOT_ALONE or not self._put_back(before_json):
                raise CutShortError(error.message) from error
            self._step(candidate, lines, "failed", error.message, None, ())
            return False
        if cut in BY_HAND:
            raise CutShortError(cut)
        if why := next((w for w in map(doubt, figures(cells)) if w), ""):
            self._put_back_or_stop(before_json)
            self._step(candidate, lines, "failed", f"not measurable: {why}", None, cells)
            return False
        if cut:
            self._put_back_or_stop(before_json)
            self._step(candidate, lines, "aborted", cut, comparison, cells)
            return False
        better, why = keep(comparison)
        why += batches_moved(pool(self.cells).window, pool(cells).window)
        self._learn(candidate, better, comparison)
        if better:
            self.config_json, self.cells = config_json, list(cells)
            if (cut := settle(self.trials, self.request.slo, self.cells)) in BY_HAND:
                raise CutShortError(cut)
            self.kept.append(candidate.change)
            self.curve = self.trials.curve_window()
            if self.trials.journal is not None:
                self.trials.journal.append(
                    KEEP, run=self.trials.run.path, before=before_json, after=config_json
                )
        self._step(candidate, lines, "kept" if better else "undone", why, comparison, cells)
        return better

    def _measure(self, config_json: str, label: str) -> tuple[tuple[Cell, ...], Comparison, str]:
        """The candidate's cells, the comparison with the best, and why a cell was broken off (or empty).

        A gain that is seen but not clear gets a second pair, interleaved: the best again, then the
        candidate again, so that a drift of the machine falls on both. A clear gain is confirmed by a
        second cell of its own.
        """
        trials, stop = self.trials, partial(abort_rule, self.baseline_p99)
        trials.switch(config_json)
        cells = [trials.measure(label, stop)]
        comparison = compare(figures(self.cells), figures(cells))
        if cut := cells[-1].measurement.cut:
            return tuple(cells), comparison, cut
        if needs_pair(comparison):
            trials.switch(self.config_json)
            again = trials.measure(self.cells[0].measurement.setting)
            if cut := again.measurement.cut:
                return tuple(cells), comparison, cut
            if why := doubt(again.measurement):
                raise TrituneError(f"the best setting is not measurable again: {why}", slug="machine-busy")
            self.cells.append(again)
            trials.switch(config_json)
        elif comparison.verdict != "better":
            return tuple(cells), comparison, ""
        cells.append(trials.measure(label, stop))
        comparison = compare(figures(self.cells), figures(cells))
        return tuple(cells), comparison, cells[-1].measurement.cut

    def _learn(self, candidate: Candidate, better: bool, comparison: Comparison) -> None:
        """What an instance step proves about the next one (S12, S13)."""
        counts = [s.value for s in candidate.change.settings if s.path == COUNT]
        if not counts or not isinstance(counts[0], int):
            return
        grew = counts[0] > view_json(self.config_json).instances
        if grew and better:
            more, fewer = self.trials.curve_window(), self.curve
            rose = compare_instances(more, fewer) if more is not None and fewer is not None else None
            self.instances_help = rose is not None and not rose.contend
        if (not grew and better) or (grew and comparison.verdict == "worse"):
            self.more_slows = not grew

    def _no_budget(self) -> str:
        window_ns = self.request.workload.duration_ns or round(self.cells[0].measurement.seconds * NS_PER_S)
        need = TRIAL_OVERHEAD_NS + 2 * window_ns
        used = self.trials.kit.clock.now_ns() - self.started_ns
        if used + need > self.request.budget_ns:
            return f"the budget of {format_duration(self.request.budget_ns)} is used up (--budget)"
        if self.trials.reloads + RELOADS_OF_A_TRIAL > self.request.max_reloads:
            return f"the {self.request.max_reloads} reloads that were allowed are used up (--max-reloads)"
        return ""

    def _put_back_or_stop(self, config_json: str) -> None:
        if not self._put_back(config_json):
            raise CutShortError("the best setting could not be loaded again")

    def _put_back(self, config_json: str) -> bool:
        """Serve the best again at once after a trial that was broken off; False where that fails."""
        try:
            if not self.trials.serves(config_json):
                self.trials.load(config_json)
        except TrituneError:
            return False
        return True

    def _step(
        self,
        candidate: Candidate,
        lines: tuple[str, ...],
        outcome: Outcome,
        why: str,
        comparison: Comparison | None,
        cells: Sequence[Cell],
    ) -> None:
        self.trials.kit.progress.note(f"{outcome}: {', '.join(lines)} ({why})")
        self.steps.append(
            StepResult(
                candidate.stage,
                candidate.change,
                lines,
                candidate.reason,
                outcome,
                why,
                comparison,
                figures(cells),
            )
        )
