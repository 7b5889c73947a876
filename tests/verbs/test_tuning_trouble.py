"""A tuning that is disturbed: the end is the original, or a sentence and a journal to undo with."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from tuning_lab import LATEST, MODEL, Lab, config, device

from tritune.errors import ExitCode, TrituneError
from tritune.model.config import ServingConfig
from tritune.model.facts import IndexEntry
from tritune.pbtxt.message import same_json, view_json
from tritune.testing import FakeServer, Mishap
from tritune.tune.result import TuneResult
from tritune.tune.undo import as_served
from tritune.units import NS_PER_MS
from tritune.verbs.restore import restore

SLOW = config(delay_us=100_000, largest=8)
GOAL = "p99=25ms"
RATE = 100
# The first two open-loop runs are the baseline's cells, the third is the first trial's.
FIRST_TRIAL = 3


def failing(lab: Lab) -> TrituneError:
    with pytest.raises(TrituneError) as caught:
        lab.tune(GOAL, RATE)
    assert "\n" not in caught.value.message
    return caught.value


def outcomes(result: TuneResult) -> list[str]:
    return [step.outcome for step in result.steps]


def delay_of(config_json: str) -> int:
    block = view_json(config_json).dynamic_batching
    assert block is not None
    return block.max_queue_delay_microseconds


# Interrupted ------------------------------------------------------------------------------------------------


def test_interrupted_in_the_baseline_nothing_was_touched() -> None:
    lab = Lab(SLOW, mishaps={1: Mishap(interrupted=True)})
    result = lab.tune(GOAL, RATE)
    assert (result.status, result.cut) == ("cut", "interrupted")
    assert lab.server.loads == []
    assert len(lab.engine.runs) == 1
    assert 0 < result.before[0].requests < 600
    [cell] = lab.store.runs[0].trials
    assert cell.manifest is not None
    assert (cell.manifest.status, cell.manifest.cut) == ("cut", "interrupted")


@pytest.mark.parametrize("run", [3, 4])
def test_interrupted_in_a_trial_the_original_is_served(run: int) -> None:
    lab = Lab(SLOW, mishaps={run: Mishap(interrupted=True)})
    result = lab.tune(GOAL, RATE)
    assert (result.status, result.cut) == ("cut", "interrupted")
    assert (result.change.settings, result.diff, result.after) == ((), "", ())
    assert same_json(lab.served, lab.original)
    assert lab.journal.actions[-1] == "restored"
    assert result.reloads == len(lab.server.loads) == 2


def test_interrupted_after_something_was_kept_the_original_is_served_all_the_same() -> None:
    lab = Lab(SLOW, mishaps={5: Mishap(interrupted=True)})
    result = lab.tune(GOAL, RATE)
    assert "keep" in lab.journal.actions
    assert (result.status, result.change.settings, result.after) == ("cut", (), ())
    assert same_json(lab.served, lab.original)


@pytest.mark.parametrize("word", ["interrupted", "terminated"])
def test_a_signal_in_a_trials_warm_up_ends_the_tuning_too(word: str) -> None:
    lab = Lab(SLOW)
    lab.warm_up.cuts[2] = word
    result = lab.tune(GOAL, RATE)
    assert (result.status, result.cut) == ("cut", word)
    assert same_json(lab.served, lab.original)


def test_an_interrupted_cell_is_not_measured_again_although_the_machine_was_disturbed_too() -> None:
    lab = Lab(SLOW, mishaps={1: Mishap(interrupted=True, late_ns=LATE.late_ns)})
    assert lab.tune(GOAL, RATE).status == "cut"
    assert len(lab.engine.runs) == 1


def test_a_signal_while_one_measures_on_for_certainty_ends_the_tuning() -> None:
    """Two cells leave it undecided whether the SLO holds, and the third is interrupted."""
    lab = Lab(config(largest=8), mishaps={3: Mishap(interrupted=True)})
    result = lab.tune("p99=7.9ms", 200)
    assert (result.status, result.cut) == ("cut", "interrupted")
    assert lab.server.loads == []
    lab = Lab(SLOW, mishaps={5: Mishap(interrupted=True)})
    result = lab.tune("p99=7.9ms", 200)
    assert (result.status, result.cut) == ("cut", "interrupted")
    assert [delay_of(str(loaded)) for _, loaded in lab.server.loads] == [500, 100_000]
    assert same_json(lab.served, lab.original)


def test_a_signal_while_single_requests_are_sent_is_its_exit_code() -> None:
    lab = Lab(SLOW)
    real = lab.engine.closed_loop

    def terminated(*args: Any, **more: Any) -> Any:
        return replace(real(*args, **more), cut="terminated")

    lab.engine.closed_loop = terminated
    assert failing(lab).exit_code == ExitCode.TERMINATED
    assert lab.engine.runs == []


def test_a_signal_in_the_first_warm_up_is_its_exit_code() -> None:
    lab = Lab(SLOW)
    lab.warm_up.cuts[1] = "terminated"
    assert failing(lab).exit_code == ExitCode.TERMINATED
    assert lab.server.loads == []


@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit, ZeroDivisionError])
def test_whatever_is_raised_the_original_is_served(stop: type[BaseException]) -> None:
    lab = Lab(SLOW)
    load = lab.kit.server.load
    asked: list[str] = []

    def interrupted(model: str, config_json: str | None, *, deadline_s: float) -> None:
        asked.append(str(config_json))
        load(model, config_json, deadline_s=deadline_s)
        if len(asked) == 1:
            raise stop

    lab.server.load = interrupted
    with pytest.raises(stop):
        lab.tune(GOAL, RATE)
    assert same_json(lab.served, lab.original)
    assert lab.journal.actions == ["begin", "trial", "restoring", "restored"]


# Refused, late, gone ----------------------------------------------------------------------------------------


class PickyServer(FakeServer):
    """Refuses configurations that `refuse` picks, or lets the answer to their load get lost."""

    def __init__(self, refuse: Callable[[ServingConfig], bool], slug: str = "load-failed") -> None:
        super().__init__()
        self.refuse = refuse
        self.slug = slug
        self.late: list[str] = []

    def load(self, model: str, config_json: str | None, *, deadline_s: float) -> None:
        if self.refuse(view_json(str(config_json))):
            self.loads.append((model, config_json))
            self.late.append(str(config_json))
            raise TrituneError("it did not load", slug=self.slug)
        super().load(model, config_json, deadline_s=deadline_s)


def has_delay(us: int) -> Callable[[ServingConfig], bool]:
    def refuse(served: ServingConfig) -> bool:
        return served.dynamic_batching is not None and (
            served.dynamic_batching.max_queue_delay_microseconds == us
        )

    return refuse


@pytest.mark.parametrize("slug", ["load-failed", "load-refused"])
def test_a_refused_configuration_fails_its_step_and_the_search_goes_on(slug: str) -> None:
    lab = Lab(SLOW, server=PickyServer(has_delay(500), slug))
    result = lab.tune(GOAL, RATE)
    assert outcomes(result)[:2] == ["failed", "kept"]
    assert result.status == "met"
    assert delay_of(lab.served) == 100
    assert lab.journal.actions[:4] == ["begin", "trial", "failed", "trial"]


@pytest.mark.parametrize("slug", ["load-timeout", "server-unreachable", "server-timeout"])
def test_a_load_of_unknown_outcome_is_superseded_before_anything_else(slug: str) -> None:
    """The server may go on with it: what was served before is loaded again, and the journal knows."""
    lab = Lab(SLOW, server=PickyServer(has_delay(500), slug))
    result = lab.tune(GOAL, RATE)
    assert outcomes(result)[:2] == ["failed", "kept"]
    assert lab.journal.actions[:6] == ["begin", "trial", "trial", "loaded", "trial", "loaded"]
    assert delay_of(str(lab.server.loads[1][1])) == 100_000
    assert result.status == "met"


def test_after_a_load_of_unknown_outcome_the_best_is_loaded_again_although_it_was_served() -> None:
    lab = Lab(SLOW, server=PickyServer(has_delay(100), "load-timeout"))
    result = lab.tune(GOAL, RATE)
    assert outcomes(result)[:2] == ["kept", "failed"]
    assert [delay_of(str(loaded)) for _, loaded in lab.server.loads] == [500, 100, 500, 500]


def test_a_server_that_is_gone_is_a_sentence_and_leaves_what_restore_needs() -> None:
    lab = Lab(SLOW, mishaps={FIRST_TRIAL: Mishap(gone=True)})
    assert failing(lab).slug == "not-restored"
    assert lab.journal.actions[0] == "begin"
    assert "restored" not in lab.journal.actions
    assert "finished" not in lab.journal.actions
    cell = lab.store.runs[0].trials[-1]
    assert cell.manifest is not None
    assert cell.manifest.status == "cut"
    assert cell.requests is not None
    assert len(cell.requests) > 300
    lab.server._gone = False  # it is back, and what it serves has survived (a network that failed)
    assert delay_of(lab.served) == 500
    restore(lab.server, lab.journal, MODEL, clock=lab.clock)
    assert same_json(lab.served, lab.original)


def test_a_server_that_ends_in_the_baseline_is_a_sentence() -> None:
    lab = Lab(SLOW, mishaps={1: Mishap(gone=True)})
    assert failing(lab).slug == "server-gone"
    assert lab.journal.lines == []


def test_a_model_that_answers_nothing_is_not_tuned() -> None:
    lab = Lab(SLOW, mishaps={n: Mishap(error_share=1.0) for n in range(1, 9)})
    assert failing(lab).slug == "nothing-answered"
    assert lab.server.loads == []


# Broken off -------------------------------------------------------------------------------------------------


def test_a_trial_whose_requests_fail_is_aborted_and_undone_at_once() -> None:
    lab = Lab(SLOW, mishaps={FIRST_TRIAL: Mishap(error_share=0.05)})
    result = lab.tune(GOAL, RATE)
    step = result.steps[0]
    assert step.outcome == "aborted"
    assert step.measurements[0].seconds < 5
    assert delay_of(str(lab.server.loads[1][1])) == 100_000
    assert result.status == "met"  # with the next candidate


def test_a_trial_that_explodes_is_aborted_and_undone_at_once() -> None:
    lab = Lab(config(largest=8), lambda items, instances: (9.0 if instances == 1 else 80.0) * NS_PER_MS)
    result = lab.tune("p99=5ms", 150)
    [step] = [s for s in result.steps if s.stage == "instances"]
    assert step.outcome == "aborted"
    assert step.measurements[0].seconds < 5
    assert same_json(lab.served, lab.original)


# Disturbed --------------------------------------------------------------------------------------------------

LATE = Mishap(late_ns=30 * NS_PER_MS)


def test_a_cell_of_a_disturbed_machine_is_measured_again() -> None:
    lab = Lab(SLOW, mishaps={1: LATE, 2: LATE, FIRST_TRIAL + 2: LATE})
    result = lab.tune(GOAL, RATE)
    assert result.status == "met"
    assert {s.path: s.value for s in result.change.settings} == {
        "dynamic_batching.max_queue_delay_microseconds": 500
    }
    assert all(cell.sender.lateness_p99_ns < NS_PER_MS for cell in (*result.before, *result.after))


def test_a_baseline_that_cannot_be_believed_is_undecided() -> None:
    lab = Lab(SLOW, mishaps=dict.fromkeys(range(1, 20), LATE))
    result = lab.tune(GOAL, RATE)
    assert result.status == "undecided"
    assert lab.server.loads == []
    assert len(lab.engine.runs) == 6  # two cells, three tries each


def test_a_trial_that_cannot_be_believed_is_never_kept() -> None:
    lab = Lab(SLOW, mishaps=dict.fromkeys(range(FIRST_TRIAL, 99), LATE))
    result = lab.tune(GOAL, RATE)
    assert result.status == "not met"
    assert set(outcomes(result)) <= {"failed", "not tried"}
    assert outcomes(result).count("failed") >= 3
    assert same_json(lab.served, lab.original)


def test_a_best_that_cannot_be_measured_again_makes_no_candidate_look_good() -> None:
    """In a pair, only the best's second cell is disturbed: it would seem slow, the candidate fast."""
    told: list[str] = []
    for seed in range(8):
        lab = Lab(config(delay_us=5_000, largest=8), device(6.0, 0.5), run_sd=0.03, seed=seed)
        always = view_json(lab.original)
        lab.engine.serving = lambda _, always=always: always
        lab.engine.open_loop = _disturbed_at_the_best(lab)
        result = lab.tune("p99=1ms", 200, 5.0, every_stage=True)
        assert "kept" not in outcomes(result)
        assert same_json(lab.served, lab.original)
        told += outcomes(result)
    assert "failed" in told


def _disturbed_at_the_best(lab: Lab) -> Callable[..., Any]:
    real = lab.engine.open_loop

    def open_loop(*args: Any, **more: Any) -> Any:
        best = lab.journal.actions and view_json(lab.served) == view_json(lab.original)
        lab.engine.mishaps[len(lab.engine.runs) + 1] = LATE if best else Mishap()
        return real(*args, **more)

    return open_loop


# Not alone --------------------------------------------------------------------------------------------------


def test_foreign_traffic_in_the_baseline_is_refused() -> None:
    lab = Lab(SLOW, mishaps={1: Mishap(foreign=20)})
    assert failing(lab).slug == "foreign-traffic"
    assert lab.server.loads == []


def test_a_stray_request_is_no_foreign_traffic() -> None:
    assert Lab(SLOW, mishaps={1: Mishap(foreign=5)}).tune(GOAL, RATE).status == "met"


def test_foreign_traffic_in_a_trial_ends_the_tuning() -> None:
    lab = Lab(SLOW, mishaps={FIRST_TRIAL: Mishap(foreign=20)})
    result = lab.tune(GOAL, RATE)
    assert result.status == "cut"
    assert "not ours" in result.cut
    assert same_json(lab.served, lab.original)


def test_requests_we_gave_up_on_are_not_taken_for_foreign_ones() -> None:
    """A saturated server executes in the second cell what timed out in the first."""
    lab = Lab(config(largest=1), device(20.0, 0.0), mishaps={2: Mishap(foreign=100)})
    result = lab.tune("p99=30ms", 100, workload={"timeout_ns": 500 * NS_PER_MS}, stages=("delay",))
    assert result.status == "not met"
    assert result.before[0].errors["timeout"] > 100


class BusyRepository(FakeServer):
    """A newer version was copied into the repository: any load that is not pinned deploys it."""

    def index(self) -> tuple[IndexEntry, ...]:
        found = super().index()
        policy = json.loads(super().effective_config(MODEL))["version_policy"]
        if self.loads and policy == LATEST:
            return tuple(IndexEntry(e.name, "2", e.state) for e in found)
        return found

    def effective_config(self, model: str, version: str = "") -> str:
        return super().effective_config(model)


def test_a_newer_version_in_the_repository_is_never_deployed_by_a_trial() -> None:
    lab = Lab(SLOW, server=BusyRepository())
    seen: list[tuple[str, ...]] = []
    real = lab.engine.open_loop

    def looking(*args: Any, **more: Any) -> Any:
        seen.append(tuple(e.version for e in lab.server.index()))
        return real(*args, **more)

    lab.engine.open_loop = looking
    assert failing(lab).slug == "version-moved"  # said at the end, where the original policy is served again
    assert set(seen) == {("1",)}
    assert [e.version for e in lab.server.index()] == ["1"]
    assert json.loads(lab.served)["version_policy"] == {"specific": {"versions": ["1"]}}
    assert view_json(lab.served) == view_json(lab.original)


class Meddled(FakeServer):
    """Somebody else loads something right after the second of our loads."""

    ALIEN = config(delay_us=7_000, largest=8)

    def load(self, model: str, config_json: str | None, *, deadline_s: float) -> None:
        super().load(model, config_json, deadline_s=deadline_s)
        if len(self.loads) == 2:
            super().load(model, json.dumps(self.ALIEN), deadline_s=deadline_s)


def test_somebody_elses_load_is_not_overwritten() -> None:
    lab = Lab(SLOW, server=Meddled())
    assert failing(lab).slug == "not-restored"
    assert same_json(lab.served, as_served(json.dumps(Meddled.ALIEN)))
    assert len(lab.server.loads) == 3
