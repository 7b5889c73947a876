"""`load` of an ensemble keeps what each of its models served and counted."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tuning_lab import MODEL, Lab, config

from tritune.errors import UsageError
from tritune.model.workload import Workload
from tritune.pbtxt.message import same_json
from tritune.store.ensemble import ensemble_run
from tritune.store.runs import Runs
from tritune.testing.counting import Execution
from tritune.units import NS_PER_S
from tritune.verbs.load import load, step_file

STEPS = ("detect/or", "classifier")
OPEN = Workload(MODEL, rate_per_s=100, duration_ns=5 * NS_PER_S)


def ensemble() -> dict[str, Any]:
    tensors = ("X", "mid", "Y")
    return {
        "name": MODEL,
        "platform": "ensemble",
        "max_batch_size": 8,
        "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [4]}],
        "output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": [4]}],
        "ensemble_scheduling": {
            "step": [
                {
                    "model_name": model,
                    "model_version": -1,
                    "input_map": {"X": taken},
                    "output_map": {"Y": made},
                }
                for model, taken, made in zip(STEPS, tensors, tensors[1:], strict=False)
            ]
        },
    }


@pytest.fixture
def lab() -> Lab:
    """Every read of the server finds one more execution of each step; before the first one there was one."""
    found = Lab(ensemble())
    for position, model in enumerate(STEPS):
        found.server.add_model(config(count=1 + 2 * position) | {"name": model})
        found.server.record(model, Execution((1,), infer_ns=9_000_000))
    original = found.server.statistics

    def statistics() -> Any:
        for model in STEPS:
            found.server.record(model, Execution((1, 1), queue_ns=1000, infer_ns=5_000_000))
        found.clock.sleep(0.001)  # the fake engine sends nothing, so that reads within it share an instant
        return original()

    found.server.statistics = statistics  # type: ignore[method-assign]
    return found


def kept(lab: Lab, tmp_path: Path) -> str:
    return load(lab.kit, Runs(tmp_path), OPEN, data=None, slo=None)[2]


def test_configurations_and_counters_of_every_model(lab: Lab, tmp_path: Path) -> None:
    path = kept(lab, tmp_path)
    assert step_file("detect/or") == "config/steps/detect%2For.json"
    run = ensemble_run(path, step_file)
    assert run is not None
    assert list(run.models) == list(STEPS)
    reads = run.models["classifier"].parts
    for model in STEPS:
        one = run.models[model]
        stored = (Path(path) / step_file(model)).read_text()
        assert same_json(stored, lab.server.effective_config(model))
        assert one.config.name == model
        assert one.window.model == model
        assert not one.own_log
        # The warm-up is before the window: the execution of one item, and the first read's of two.
        assert {size: stat.count for size, stat in one.warm_up.items()} == {1: 1, 2: 1}
        counted = one.window.counters
        assert counted.execution_count == counted.success.count / 2 == len(reads)
        assert sum(part.counters.execution_count for part in one.parts) == counted.execution_count
    assert len(reads) >= 4  # the parts that were read while it ran, for the models as well
    assert run.whole.config.ensemble_steps == STEPS


def test_the_warm_up_reaches_every_instance_of_every_model(lab: Lab, tmp_path: Path) -> None:
    asked: list[int] = []
    original = lab.warm_up.__call__

    def warm_up(*args: Any, instances: int, **more: Any) -> Any:
        asked.append(instances)
        return original(*args, instances=instances, **more)

    lab.kit = replace(lab.kit, warm_up=warm_up)
    kept(lab, tmp_path)
    assert asked == [3]


def test_a_model_that_is_no_ensemble_is_none(tmp_path: Path) -> None:
    path = kept(Lab(config(largest=8)), tmp_path)
    assert not (Path(path) / "config" / "steps").exists()
    assert ensemble_run(path, step_file) is None


def test_a_model_whose_counters_are_missing(lab: Lab, tmp_path: Path) -> None:
    path = kept(lab, tmp_path)
    (Path(path) / "server.parquet").unlink()
    with pytest.raises(UsageError) as caught:
        ensemble_run(path, step_file)
    assert caught.value.slug == "not-a-load"
    assert "detect/or, a step of ranker" in caught.value.message
