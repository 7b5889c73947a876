"""An ensemble's calibration: a run made from known figures gives them back, and predicts what was not run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pytest

from tritune.errors import TrituneError
from tritune.model.config import EnsembleStep
from tritune.model.slo import parse_slo
from tritune.store.ensemble import ensemble_run
from tritune.testing.ensemble_truth import (
    CLASSIFIER,
    CLIENT_NS,
    COSTS,
    DETECTOR,
    HAND_OVER,
    TANDEM,
    EnsembleTruth,
    ensemble_json,
    model_json,
)
from tritune.twin.ask.sweep import Effort
from tritune.twin.ask.traffic import Traffic
from tritune.twin.ensemble.chain_fit import ChainProfile, calibrate_chain
from tritune.twin.ensemble.chain_predict import Case, chain_headroom, chain_knee, predict_chain
from tritune.twin.ensemble.chain_validate import validate_chain
from tritune.twin.ensemble.ensemble_run import EnsembleRun
from tritune.verbs.load import step_file

TRUTH = EnsembleTruth(TANDEM, {"detector": DETECTOR, "classifier": CLASSIFIER}, COSTS)
RATE = 130.0
QUICK = Effort(requests=5000, replications=4)


def kept(folder: Path, truth: EnsembleTruth = TRUTH, **more: Any) -> EnsembleRun:
    run = ensemble_run(truth.keep(folder, **more), step_file)
    assert run is not None
    return run


@pytest.fixture(scope="module")
def observed(tmp_path_factory: pytest.TempPathFactory) -> tuple[EnsembleRun, ChainProfile]:
    run = kept(tmp_path_factory.mktemp("runs"))
    return run, calibrate_chain(run)


def test_the_figures_come_back(observed: tuple[EnsembleRun, ChainProfile]) -> None:
    _, profile = observed
    for model, (base, item) in COSTS.items():
        for size, time in profile.models[model].service_ns.items():
            if time.executions >= 30:
                assert time.ns == pytest.approx((base + item * size) * 1e6, rel=0.02), (model, size)
    assert profile.client_overhead_ns.value == pytest.approx(CLIENT_NS, rel=0.01)
    assert profile.hand_over_ns.value == pytest.approx(HAND_OVER.ns, abs=12_000)
    assert profile.spacing_ns is not None
    assert profile.spacing_ns.value == pytest.approx(HAND_OVER.spacing_ns, rel=0.55)
    assert profile.arrival.process == "poisson"
    for one in profile.models.values():
        assert one.wake_ns is not None
        assert one.wake_ns.source == "prior"
        assert one.client_overhead_ns is None


def test_the_replay_holds_for_the_whole_and_for_each_model(
    observed: tuple[EnsembleRun, ChainProfile],
) -> None:
    found = validate_chain(*observed)
    assert found.whole.refusal == ""
    assert abs(found.mean_error) < 0.01
    assert abs(found.whole.p99_error or 0.0) < 0.05
    assert [one.model for one in found.models] == ["detector", "classifier"]
    for one in found.models:
        assert one.batch_distance < 0.05
        assert one.batch_replayed == pytest.approx(one.batch_observed, rel=0.04)


@pytest.mark.parametrize("delay_us", [500, 15_000])
def test_a_delay_that_never_ran_is_predicted(
    observed: tuple[EnsembleRun, ChainProfile], delay_us: int
) -> None:
    run, profile = observed
    other = model_json("detector", max_queue_delay_microseconds=delay_us)
    configs = {model: one.config for model, one in run.models.items()}
    batching = configs["detector"].dynamic_batching
    assert batching is not None
    configs["detector"] = msgspec.structs.replace(
        configs["detector"],
        dynamic_batching=msgspec.structs.replace(batching, max_queue_delay_microseconds=delay_us),
    )
    found = predict_chain(Case(profile, run.whole.config, configs, Traffic(RATE)), effort=QUICK)
    truth = replace(TRUTH, models=dict(TRUTH.models) | {"detector": other}).play(RATE, 20_000, seed=77)
    for name, value in (
        ("mean", truth.latency_ns().mean()),
        ("p50", np.quantile(truth.latency_ns(), 0.5)),
        ("p99", np.quantile(truth.latency_ns(), 0.99)),
    ):
        assert found.whole.latency[name].value == pytest.approx(value, rel=0.05), name
    for one in found.models:
        sizes = truth.models[one.model].batch_items
        assert one.mean_batch == pytest.approx(sizes.mean(), rel=0.05)


def test_headroom_and_knee(observed: tuple[EnsembleRun, ChainProfile]) -> None:
    run, profile = observed
    case = Case(profile, run.whole.config, {m: one.config for m, one in run.models.items()}, Traffic(RATE))
    room = chain_headroom(case, effort=QUICK)
    # 1 x 8 / 13 ms against 2 x 4 / 12 ms.
    assert room.load == pytest.approx(RATE / (8 / 0.013), rel=0.02)
    tails = [estimate.value or 0.0 for estimate in room.p99_ns.values()]
    assert tails == sorted(tails)
    limit = (tails[1] + tails[2]) / 2
    knee = chain_knee(case, parse_slo(f"p99={limit / 1e6:.4f}ms"), effort=QUICK)
    assert knee is not None
    assert not knee.beyond
    below = predict_chain(case.at(knee.low * 0.96), effort=QUICK).whole
    above = predict_chain(case.at(min(knee.high * 1.04, knee.up_to)), effort=QUICK).whole
    assert (below.latency["p99"].value or 0) < limit < (above.latency["p99"].value or 0)
    loose = chain_knee(case, parse_slo("p99=1s"), effort=QUICK)
    assert loose is not None
    assert loose.beyond


def test_a_model_without_batches_leaves_no_spacing_to_find(tmp_path: Path) -> None:
    single = model_json("detector", largest=4) | {"max_batch_size": 0}
    single.pop("dynamic_batching")
    truth = EnsembleTruth(
        TANDEM | {"max_batch_size": 0}, {"detector": single, "classifier": CLASSIFIER}, COSTS
    )
    run = kept(tmp_path, truth, rate_per_s=80.0, count=1200)
    profile = calibrate_chain(run)
    assert profile.spacing_ns is None
    assert validate_chain(run, profile).whole.refusal == ""


def test_branches_have_a_hand_over_that_counters_do_not_show(tmp_path: Path) -> None:
    tree = ensemble_json(("left", ("in",), "l"), ("right", ("in",), "r"), ("join", ("l", "r"), "out"))
    models = {name: model_json(name) for name in ("left", "right", "join")}
    truth = EnsembleTruth(tree, models, {"left": (3, 1), "right": (6, 1), "join": (1, 0.5)})
    run = kept(tmp_path, truth, rate_per_s=90.0)
    profile = calibrate_chain(run)
    assert (profile.hand_over_ns.value, profile.hand_over_ns.source) == (0.0, "prior")
    found = validate_chain(run, profile)
    assert found.whole.refusal == ""
    assert abs(found.mean_error) < 0.02


def test_two_steps_of_one_model_are_counted_together(tmp_path: Path) -> None:
    both = ensemble_json(("m", ("in",), "one"), ("m", ("in",), "two"), ("n", ("one", "two"), "out"))
    models = {name: model_json(name) for name in ("m", "n")}
    run = kept(tmp_path, EnsembleTruth(both, models, {"m": (3, 1), "n": (1, 0.5)}), rate_per_s=60.0)
    profile = calibrate_chain(run)
    found = validate_chain(run, profile)
    assert found.whole.refusal == "", found
    case = Case(profile, run.whole.config, {m: one.config for m, one in run.models.items()}, Traffic(60))
    shares = {one.model: one.load for one in predict_chain(case, effort=QUICK).models}
    assert shares["m"] == pytest.approx(2 * 60 / (8 / 0.011), rel=0.03)


# Refusals ---------------------------------------------------------------------------------------------------


def test_another_setting_than_the_one_that_ran_is_noticed(observed: tuple[EnsembleRun, ChainProfile]) -> None:
    run, profile = observed
    config = run.models["detector"].config
    batching = msgspec.structs.replace(config.dynamic_batching, max_queue_delay_microseconds=0)  # type: ignore[type-var]
    wrong = replace(run.models["detector"], config=msgspec.structs.replace(config, dynamic_batching=batching))
    found = validate_chain(EnsembleRun(run.whole, dict(run.models) | {"detector": wrong}), profile)
    assert "at detector" in found.whole.refusal


def test_requests_of_others_at_a_step(tmp_path: Path) -> None:
    with pytest.raises(TrituneError) as caught:
        calibrate_chain(kept(tmp_path, foreign={"classifier": 100}))
    assert caught.value.slug == "twin-bad-run"
    assert "classifier answered 2700 requests where the ensemble's were 2600" in caught.value.message


def test_a_step_that_gets_other_items_than_were_sent(observed: tuple[EnsembleRun, ChainProfile]) -> None:
    run, _ = observed
    one = run.models["classifier"]
    counters = msgspec.structs.replace(one.window.counters, inference_count=7800)
    more = replace(one, window=msgspec.structs.replace(one.window, counters=counters))
    with pytest.raises(TrituneError) as caught:
        calibrate_chain(EnsembleRun(run.whole, dict(run.models) | {"classifier": more}))
    assert caught.value.slug == "twin-bad-run"
    assert "7800 items" in caught.value.message


@pytest.mark.parametrize(
    ("model", "change", "rate", "says"),
    [
        ("classifier", {"max_batch_size": 2}, RATE, "Triton does not load pipeline"),
        ("detector", {"instance_group": ()}, RATE * 1.7, "detector: 221 requests/s is more than 1.6 times"),
        ("classifier", {"instance_group": ()}, RATE, "classifier: only 2 instances were observed"),
        ("detector", {"sequence_batching": True}, RATE, "model detector: it does not know the sequence"),
        ("detector", {"ensemble": (EnsembleStep("x"),), "ensemble_steps": ("x",)}, RATE, "an ensemble"),
    ],
)
def test_what_is_not_predicted(
    observed: tuple[EnsembleRun, ChainProfile], model: str, change: dict[str, Any], rate: float, says: str
) -> None:
    run, profile = observed
    configs = {name: one.config for name, one in run.models.items()}
    configs[model] = msgspec.structs.replace(configs[model], **change)
    found = predict_chain(Case(profile, run.whole.config, configs, Traffic(rate)), effort=QUICK)
    assert says in found.whole.refusal
    assert found.whole.latency == {}
    assert found.models == ()
