"""When diagnose must not answer, and how sure it may be."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from physics import affine, config, serve

from tritune.diagnose.diagnose import diagnose
from tritune.model.config import ServingConfig
from tritune.model.server import ModelCounters, ServerWindow, Tally

CASES = Path(__file__).parents[1] / "data" / "cases"


def window(counters: ModelCounters, seconds: float = 10.0) -> ServerWindow:
    return ServerWindow("m", "1", "statistics", 0, round(seconds * 1e9), counters)


def test_no_traffic_is_a_sentence_and_no_numbers() -> None:
    found = diagnose(config(), window(ModelCounters(batch_stats={})))
    assert "No request succeeded" in found.no_verdict
    assert (found.breakdown, found.mean_batch, found.capacity, found.findings) == (None, None, None, ())
    failed = diagnose(config(), window(ModelCounters(fail=Tally(7, 1))))
    assert "7 failed" in failed.no_verdict
    assert b"null" not in msgspec.json.encode(found.batches)


@pytest.mark.parametrize(("rate", "enough"), [(3, False), (40, True)])
def test_a_few_requests_are_no_verdict(rate: float, enough: bool) -> None:
    conf = config(delay_us=100_000)
    found = diagnose(conf, serve(conf, rate, affine(3, 0.5)))
    assert (found.no_verdict == "") is enough
    assert bool(found.findings) is enough
    assert found.breakdown is not None


def test_a_reset_within_the_window_lowers_confidence_and_is_said() -> None:
    conf = config(delay_us=50_000)
    seen = serve(conf, 40, affine(3, 0.5))
    assert diagnose(conf, seen).findings[0].confidence == "high"
    found = diagnose(conf, msgspec.structs.replace(seen, reset=True))
    assert found.findings[0].confidence == "medium"
    assert any("started anew" in line for line in found.not_seen)


def test_the_client_s_part_is_shown_and_else_named_as_unseen() -> None:
    conf = config()
    seen = serve(conf, 40, affine(3, 0.5))
    without = diagnose(conf, seen)
    assert any("client" in line for line in without.not_seen)
    mean = seen.counters.success.mean_ns
    found = diagnose(conf, seen, client_mean_ns=mean + 1e6)
    assert found.breakdown is not None
    assert found.breakdown.parts[-1].ns == pytest.approx(1e6)
    assert not any("network" in line for line in found.not_seen)


def test_ensembles_and_sequences_get_no_verdict_by_rules_that_do_not_hold_for_them() -> None:
    conf = config(largest=4)
    seen = serve(conf, 230, affine(8.5, 2))
    assert diagnose(conf, seen).findings
    parent = msgspec.structs.replace(conf, ensemble_steps=("pre", "net"))
    found = diagnose(parent, seen)
    assert found.findings == ()
    assert any("pre, net" in line for line in found.not_seen)
    assert diagnose(msgspec.structs.replace(conf, sequence_batching=True), seen).findings == ()


def test_three_replicas_read_as_a_sum_have_three_times_the_instances() -> None:
    conf = config(largest=4)
    seen = serve(conf, 230, affine(8.5, 2))
    assert diagnose(conf, msgspec.structs.replace(seen, replicas=3)).findings == ()


def test_a_diagnosis_survives_json() -> None:
    conf = config(count=4)
    found = diagnose(conf, serve(conf, 300, affine(5, 0.5), contention=1.0))
    assert msgspec.json.decode(msgspec.json.encode(found), type=type(found)) == found


# Real users' statistics: single totals since the load, without a time span and without batch sizes.


def totals(name: str, model: str) -> ServerWindow:
    stats = json.loads((CASES / name).read_text())["model_stats"]
    entry = next(e for e in stats if e["name"] == model)
    found = {
        k: Tally(int(v.get("count", 0)), int(v.get("ns", 0))) for k, v in entry["inference_stats"].items()
    }
    counters = ModelCounters(
        **{k: v for k, v in found.items() if not k.startswith("cache")},
        inference_count=int(entry["inference_count"]),
        execution_count=int(entry["execution_count"]),
    )
    return ServerWindow(model, entry["version"], "statistics", 0, 0, counters)


@pytest.mark.parametrize(
    ("name", "model", "largest", "count"),
    [
        ("c02_stats.json", "bert", 8, 1),
        ("c29_stats.json", "resnet_2inst", 8, 2),
        ("c54_stats.json", "trt_fp16", 16, 1),
        ("c68_stats.json", "embed_lookup", 2048, 1),
        ("c68_stats.json", "predict", 2048, 1),
        ("c68_bigbatch_stats.json", "ens", 8192, 1),
        ("c99_stats.json", "ens_det", 0, 1),
        ("c125_stats.json", "preprocess", 8, 1),
    ],
)
def test_single_totals_are_never_a_confident_verdict(name: str, model: str, largest: int, count: int) -> None:
    conf = config(largest=largest, count=count, batching=largest > 0)
    found = diagnose(conf, totals(name, model))
    assert all(f.confidence == "low" for f in found.findings)
    if found.breakdown is not None:
        assert any("without a time span" in line for line in found.not_seen)
    assert found.capacity is None


def test_a_backlog_in_single_totals_is_a_suspicion() -> None:
    """C54 (established: saturated): queue 243 ms, execution 4 ms, mean batch 16."""
    found = diagnose(config(largest=16), totals("c54_stats.json", "trt_fp16"))
    assert [f.slug for f in found.findings] == ["saturated"]
    few = diagnose(ServingConfig("bert", max_batch_size=8), totals("c02_stats.json", "bert"))
    assert "Only 87 requests" in few.no_verdict
