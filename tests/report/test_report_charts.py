"""Chart data: right figures at right places, downsampled, and never told by colour alone."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import sample
from hypothesis import given
from hypothesis import strategies as st

from tritune.model.measurement import Estimate
from tritune.model.requests import RequestLog
from tritune.model.slo import Clause
from tritune.report.content import evidence
from tritune.report.content.charts import look
from tritune.report.content.charts.batches import batch_sizes, service_times
from tritune.report.content.charts.breakdown import breakdown
from tritune.report.content.charts.ladder import depth, ladder
from tritune.report.content.charts.steps import Row, steps
from tritune.report.content.charts.timeline import MAX_BUCKETS, MAX_RUNGS, buckets, rungs, timeline
from tritune.units import NEVER_NS, NS_PER_MS

LIMIT = Clause("p99", 30 * NS_PER_MS)
PHASES = [("before", sample.BASELINE[0]), ("after", sample.FINAL[0])]


def values(spec: dict[str, Any]) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = spec["data"]["values"]
    return rows


def test_each_rung_is_ten_times_rarer() -> None:
    assert depth(0.9) == pytest.approx(1)
    assert depth(0.99) == pytest.approx(2)
    assert depth(0.999) == pytest.approx(3)


def test_the_ladder_holds_every_percentile_with_its_interval() -> None:
    rows = values(ladder(PHASES, LIMIT))
    assert [(r["phase"], r["percentile"]) for r in rows] == [
        (phase, p) for phase in ("before", "after") for p in ("p50", "p90", "p95", "p99", "p99.9")
    ]
    p99 = next(r for r in rows if r["phase"] == "after" and r["percentile"] == "p99")
    assert (p99["ms"], p99["low"], p99["high"]) == (14.3, 13.728, 14.872)


def test_the_ladder_writes_one_figure_per_phase() -> None:
    phases = [("before", m) for m in sample.BASELINE] + [("after", m) for m in sample.FINAL]
    said = [r["said"] for r in values(ladder(phases, LIMIT)) if r["said"]]
    assert said == ["112 ms", "14.3 ms"]


def test_what_never_came_is_not_drawn() -> None:
    row = Row(1, ("x",), "aborted", Estimate(NEVER_NS, 1e6, NEVER_NS), 100)
    drawn = values(steps([row], LIMIT))[0]
    assert drawn["ms"] is None
    assert drawn["high"] is None
    assert drawn["said"].startswith("never")


def test_the_parts_of_a_bar_join_and_add_up() -> None:
    bars = [(name, bar) for name, m in PHASES if (bar := evidence.breakdown(m))]
    rows = values(breakdown(bars))
    for name, bar in bars:
        own = [r for r in rows if r["bar"] == name]
        assert own[0]["from"] == 0
        for left, right in pairwise(own):
            assert right["from"] == pytest.approx(left["to"], abs=1e-3)
        assert own[-1]["to"] == pytest.approx(bar.total_ns / NS_PER_MS, rel=1e-3)


def test_batch_shares_add_up_and_gaps_are_seen() -> None:
    spec = batch_sizes([(name, evidence.batches(m)) for name, m in PHASES])
    for phase in ("before", "after"):
        shares = [r["share"] for r in values(spec) if r["phase"] == phase]
        assert sum(shares) == pytest.approx(1, abs=1e-3)
    assert spec["layer"][0]["encoding"]["x"]["scale"]["domain"] == list(range(1, 17))


def test_series_differ_by_more_than_colour() -> None:
    sizes = [(name, evidence.batches(m)) for name, m in PHASES]
    for spec in (ladder(PHASES, LIMIT), service_times(sizes)):
        assert any("shape" in layer["encoding"] for layer in spec["layer"])
    spec = steps([Row(1, ("a",), "kept", Estimate(1e6), 9)], LIMIT)
    assert any("shape" in layer["encoding"] for layer in spec["layer"])
    assert values(spec)[0]["said"].endswith("kept")
    assert any("strokeDash" in layer["encoding"] for layer in timeline(sample.request_log(), LIMIT)["layer"])
    shapes = [shape for _, shape in look.OUTCOMES.values()]
    assert len(set(shapes)) == len(shapes)


def test_specifications_are_plain_json() -> None:
    spec = timeline(sample.request_log(), LIMIT)
    assert json.loads(json.dumps(spec, allow_nan=False)) == spec


def test_buckets_count_every_request_once_and_are_few() -> None:
    log = sample.request_log(40_000)
    rows = buckets(log)
    assert len(rows) <= MAX_BUCKETS
    assert sum(r["requests"] for r in rows) == 40_000
    assert sum(r["failed"] for r in rows) == 25
    finite = log.latency_ns()[np.isfinite(log.latency_ns())]
    assert max(r["slowest"] for r in rows if r["slowest"]) == pytest.approx(
        finite.max() / NS_PER_MS, rel=1e-4
    )


def test_an_empty_log_has_no_buckets() -> None:
    assert buckets(RequestLog.empty()) == []


def test_a_single_request_is_one_bucket() -> None:
    assert len(buckets(sample.request_log(1, failures=0))) == 1


@given(st.lists(st.floats(0, 1e9), min_size=1, max_size=3000))
def test_rungs_are_few_rise_and_stay_within_the_sample(sample_ns: list[float]) -> None:
    found = rungs(np.array(sample_ns))
    quantiles = [q for q, _ in found]
    heights = [ns for _, ns in found]
    assert 0 < len(found) <= MAX_RUNGS
    assert quantiles == sorted(set(quantiles))
    assert heights == sorted(heights)
    assert 0 < quantiles[0] < 1
    assert quantiles[-1] < 1
    assert heights[-1] == max(sample_ns)


@given(st.floats(1e-4, 1e6), st.floats(1, 1e6))
def test_log_axes_have_ticks_inside_a_domain_that_holds_all(low: float, factor: float) -> None:
    axis = look.log_axis([low, low * factor, None])
    bottom, top = axis["scale"]["domain"]
    assert bottom < low
    assert low * factor < top
    assert all(bottom <= tick <= top for tick in axis["axis"]["values"])
