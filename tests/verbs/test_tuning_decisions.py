"""What a tuning decides, end to end in virtual time: the right field, nothing else, and nothing for noise."""

from __future__ import annotations

import json
from typing import Any

import pytest
from tuning_lab import LATEST, MODEL, Lab, config, device

from tritune.diagnose.moves import COUNT, DELAY, PREFERRED
from tritune.model.config import Setting
from tritune.pbtxt.message import same_json, view_json
from tritune.tune.result import StepResult, TuneResult
from tritune.tune.undo import as_served
from tritune.units import NS_PER_MS, NS_PER_S


def settings(result: TuneResult) -> dict[str, object]:
    return {s.path: s.value for s in result.change.settings}


def outcomes(result: TuneResult, stage: str | None = None) -> list[str]:
    return [step.outcome for step in result.steps if stage in (None, step.stage)]


def p99(cells: Any) -> float:
    return max(cell.latency["p99"].value for cell in cells) / NS_PER_MS


def changed(original: str, **fields: Any) -> str:
    """The original with some fields of its JSON replaced: what must be served in the end."""
    return json.dumps(json.loads(original) | fields)


def bigger_is_slower(items: int, instances: int) -> float:
    """Up to 8 items the work fits a fast memory; the device is one, whatever the number of instances."""
    alone = 9.0 + items + (20.0 + 0.05 * (items - 8) ** 2 if items > 8 else 0.0)
    return alone * (1 + 1.2 * (instances - 1)) * NS_PER_MS


# Four failures, each with the one thing that cures it -------------------------------------------------------


def test_a_delay_that_is_too_long_is_cut() -> None:
    lab = Lab(config(delay_us=100_000, largest=8))
    result = lab.tune("p99=25ms", 100)
    assert result.status == "met"
    assert settings(result) == {DELAY: 500}
    assert p99(result.before) > 70
    assert p99(result.after) < 12
    block = {"preferred_batch_size": [8], "max_queue_delay_microseconds": 500}
    assert same_json(lab.served, changed(lab.original, dynamic_batching=block))
    assert result.config_after == view_json(lab.served)
    assert "max_queue_delay_microseconds: 500" in result.diff


def test_without_the_delay_stage_plain_batching_cures_the_same_failure() -> None:
    lab = Lab(config(delay_us=100_000, preferred=(4,), largest=8))
    result = lab.tune("p99=25ms", 100, stages=("plain batching", "preferred sizes"))
    assert result.status == "met"
    assert settings(result) == {PREFERRED: None, DELAY: None}
    assert same_json(lab.served, changed(lab.original, dynamic_batching={"preferred_batch_size": [8]}))
    assert outcomes(result, "preferred sizes") == ["not tried"]


def test_one_saturated_instance_without_contention_becomes_two() -> None:
    lab = Lab(config(largest=8), device(20.0, 2.0))
    result = lab.tune("p99=60ms", 215)
    assert result.status == "met"
    assert settings(result) == {COUNT: 2}
    group = json.loads(lab.original)["instance_group"][0]
    assert same_json(lab.served, changed(lab.original, instance_group=[group | {"count": 2}]))
    assert [view_json(c).instances for _, c in lab.server.loads] == [2, 2]


def test_more_than_two_instances_are_kept_only_while_each_helps() -> None:
    lab = Lab(config(largest=8), device(20.0, 2.0))
    result = lab.tune("p99=1ms", 560, every_stage=True)
    assert result.status == "not met"
    counts = [step.change.settings[0].value for step in result.steps if step.stage == "instances"]
    assert counts == [2, 3, 4]
    assert settings(result)[COUNT] == 4


def test_an_slo_that_two_instances_meet_gets_no_third() -> None:
    result = Lab(config(largest=8), device(20.0, 2.0)).tune("p99=60ms", 215)
    tried = [step.change.settings[0].value for step in result.steps if step.stage == "instances"]
    assert tried == [2]


def test_batches_that_are_slower_when_larger_are_capped() -> None:
    lab = Lab(config(largest=16), bigger_is_slower)
    result = lab.tune("p99=55ms", 320)
    assert result.status == "met"
    assert settings(result) == {"max_batch_size": 8}
    assert outcomes(result, "instances") == ["undone"]
    # Preferred sizes {16} were filled in by Triton and must not stay behind above the maximum.
    assert json.loads(lab.served)["dynamic_batching"]["preferred_batch_size"] == [8]
    expected = changed(lab.original, max_batch_size=8, dynamic_batching={"preferred_batch_size": [8]})
    assert same_json(lab.served, expected)


def test_four_instances_that_fight_for_one_device_become_one() -> None:
    lab = Lab(config(largest=8, count=4), device(4.0, 0.5, contention=0.9))
    result = lab.tune("p99=22ms", 300)
    assert result.status == "met"
    assert settings(result) == {COUNT: 1}
    assert outcomes(result, "instances") == ["kept", "undone"]
    group = json.loads(lab.original)["instance_group"][0]
    assert same_json(lab.served, changed(lab.original, instance_group=[group | {"count": 1}]))


def test_what_is_healthy_is_left_alone() -> None:
    lab = Lab(config(largest=8))
    result = lab.tune("p99=30ms", 200)
    assert result.status == "already met"
    assert lab.server.loads == []
    assert (result.reloads, result.change.settings, result.diff, result.after) == (0, (), "", ())
    assert lab.journal.lines == []
    assert set(outcomes(result)) == {"not tried"}


@pytest.mark.parametrize(
    ("served", "service", "slo", "rate"),
    [
        (config(delay_us=100_000, preferred=(4, 8)), device(3.0, 0.4), "p99=25ms", 100),
        (config(largest=8), device(20.0, 2.0), "p99=60ms", 215),
        (config(largest=16), bigger_is_slower, "p99=55ms", 320),
        (config(largest=8, count=4), device(4.0, 0.5, 0.9), "p99=22ms", 300),
    ],
)
def test_trials_are_pinned_and_the_end_is_not(served: Any, service: Any, slo: str, rate: float) -> None:
    """Every load is journalled before it is made: `tuning_lab` checks that on each."""
    lab = Lab(served, service)
    result = lab.tune(slo, rate)
    policies = [json.loads(str(loaded))["version_policy"] for _, loaded in lab.server.loads]
    pinned = [view_json(str(loaded)) for _, loaded in lab.server.loads[:-1]]
    assert len(pinned) >= 1
    assert all(p == {"specific": {"versions": ["1"]}} for p in policies[:-1]), policies
    assert policies[-1] == LATEST
    assert json.loads(lab.served)["version_policy"] == LATEST
    assert result.reloads == len(lab.server.loads)
    assert lab.journal.actions[0] == "begin"
    assert lab.journal.actions[-1] == "finished"
    assert same_json(str(lab.journal.lines[0]["before"]), lab.original)
    assert same_json(as_served(str(lab.journal.lines[-1]["after"])), lab.served)
    assert lab.journal.actions.count("trial") == lab.journal.actions.count("loaded") == result.reloads


# What does not help -----------------------------------------------------------------------------------------


def test_a_change_that_does_nothing_is_not_kept() -> None:
    """A/A with 3 % noise from run to run: whatever is loaded, the device behaves as before."""
    verdicts: list[str] = []
    for seed in range(16):
        lab = Lab(
            config(delay_us=5_000, preferred=(2, 4, 8), count=4),
            device(6.0, 0.5),
            run_sd=0.03,
            batch_sd=0.03,
            seed=seed,
        )
        always = view_json(lab.original)
        lab.engine.serving = lambda _, always=always: always
        result = lab.tune("p99=1ms", 200, 4.0, every_stage=True, max_reloads=100, budget_ns=3600 * NS_PER_S)
        assert result.status == "not met"
        verdicts += [o for o in outcomes(result) if o != "not tried"]
        if "kept" not in outcomes(result):
            assert same_json(lab.served, lab.original)
    assert len(verdicts) > 100
    assert set(verdicts) <= {"kept", "undone"}
    assert verdicts.count("kept") / len(verdicts) <= 0.05


def test_worse_candidates_are_undone_and_the_original_is_served_again() -> None:
    lab = Lab(config(largest=8, count=2), device(5.0, 0.5))
    result = lab.tune("p99=1ms", 250, every_stage=True)
    assert result.status == "not met"
    assert "kept" not in outcomes(result)
    [step] = [s for s in result.steps if s.stage == "instances"]
    assert step.outcome == "undone"
    assert step.comparison is not None
    assert step.comparison.verdict == "worse"
    assert same_json(lab.served, lab.original)
    assert (result.change.settings, result.diff, result.after) == ((), "", ())
    assert lab.journal.actions[-1] == "restored"
    assert result.reloads == len(lab.server.loads) == 2


def test_the_steps_tell_the_move_its_reason_and_its_figures() -> None:
    result = Lab(config(delay_us=100_000, largest=8)).tune("p99=25ms", 100)
    step: StepResult = result.steps[0]
    assert step.edits == (f"{DELAY}: 100000 -> 500",)
    assert step.change.settings == (Setting(DELAY, 500),)
    assert step.reason
    assert step.comparison is not None
    assert step.comparison.low <= step.comparison.ratio <= step.comparison.high < 1
    assert len(step.measurements) == 2
    assert {step.stage for step in result.steps} == {
        "delay",
        "plain batching",
        "preferred sizes",
        "instances",
        "max batch size",
    }


def test_every_cell_is_kept_as_a_run_of_its_own() -> None:
    lab = Lab(config(delay_us=100_000, largest=8))
    result = lab.tune("p99=25ms", 100)
    [run] = lab.store.runs
    assert len(run.trials) == len(lab.engine.runs)
    assert all(t.manifest is not None and t.manifest.status == "complete" for t in run.trials)
    served = [view_json(str(t.files["config/effective.json"])) for t in run.trials]
    assert served == lab.engine.runs
    assert run.files["config.diff"] == result.diff
    assert same_json(str(run.files["config/effective.json"]), lab.original)
    assert f'name: "{MODEL}"' in str(run.files["config/original.pbtxt"])
    assert run.manifest is None  # its story is told, and it is finished, by whoever called


def test_an_slo_that_two_cells_do_not_decide_gets_more_of_them() -> None:
    lab = Lab(config(largest=8))
    result = lab.tune("p99=7.9ms", 200, stages=())
    assert len(lab.engine.runs) == 4
    assert result.before_whole.requests == sum(cell.requests for cell in result.before) > 7000
    assert result.status == "undecided"
    assert result.notes
    assert lab.server.loads == []


# Bounds -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("allowed", [0, 3, 4, 8, 12])
def test_never_more_reloads_than_allowed(allowed: int) -> None:
    lab = Lab(config(delay_us=5_000, preferred=(2, 4, 8), count=4), device(6.0, 0.5, 0.3))
    result = lab.tune("p99=1ms", 200, every_stage=True, max_reloads=allowed)
    assert len(lab.server.loads) == result.reloads <= allowed
    assert (allowed < 4) == (lab.server.loads == [])
    assert "not tried" in outcomes(result)


def test_no_trial_begins_beyond_the_budget() -> None:
    served = config(delay_us=5_000, preferred=(2, 4, 8), count=4)
    whole = Lab(served, device(6.0, 0.5)).tune("p99=1ms", 200, every_stage=True, max_reloads=99)
    lab = Lab(served, device(6.0, 0.5))
    result = lab.tune("p99=1ms", 200, every_stage=True, max_reloads=99, budget_ns=60 * NS_PER_S)
    tried = [o for o in outcomes(result) if o != "not tried"]
    assert 0 < len(tried) < len([o for o in outcomes(whole) if o != "not tried"])
    none = Lab(served, device(6.0, 0.5))
    result = none.tune("p99=1ms", 200, every_stage=True, budget_ns=45 * NS_PER_S)
    assert none.server.loads == []
    assert result.status == "not met"


def test_stages_that_were_not_asked_for_are_left_out() -> None:
    lab = Lab(config(delay_us=100_000, preferred=(4, 8), count=4), device(4.0, 0.5, 0.9))
    result = lab.tune("p99=1ms", 100, stages=("instances",))
    touched = {s.path for step in result.steps for s in step.change.settings}
    assert touched == {COUNT}


def test_every_stage_goes_on_after_the_slo_is_met() -> None:
    served = config(delay_us=100_000, preferred=(4, 8))
    result = Lab(served).tune("p99=25ms", 100, every_stage=True)
    assert result.status == "met"
    assert outcomes(result, "plain batching") != ["not tried"]
    assert outcomes(result, "instances") != ["not tried"]
