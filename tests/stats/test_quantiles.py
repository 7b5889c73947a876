from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from queues import batching_queue, single_queue

from tritune.model.measurement import Estimate
from tritune.stats.quantiles import block_p99, estimate, percentiles, quantile
from tritune.units import NEVER_NS


@given(
    st.lists(st.floats(1, 1e9), min_size=1, max_size=200),
    st.sampled_from([0.5, 0.9, 0.95, 0.99, 0.999]),
)
def test_quantile_is_the_smallest_value_that_a_share_q_does_not_exceed(values: list[float], q: float) -> None:
    found = quantile(np.array(values), q)
    assert found == np.quantile(values, q, method="inverted_cdf")


@given(st.integers(1, 5000), st.floats(0, 0.05))
def test_a_percentile_that_failures_reach_is_never_and_is_never_otherwise(n: int, share: float) -> None:
    failures = int(share * n)
    latency = np.arange(1.0, n + 1)
    latency[:failures] = np.inf
    # p99 is the ceil(0.99 n)-th of n: it is reached when fewer than that many were answered.
    reached = n - failures < int(np.ceil(0.99 * n - 1e-9))
    assert (estimate(latency, 0.99).value == NEVER_NS) is reached


def test_no_latencies_give_no_value() -> None:
    assert estimate(np.empty(0), 0.99) == Estimate()
    assert percentiles(np.empty(0))["mean"] == Estimate()


@pytest.mark.parametrize("n", [1, 2, 30, 200])
def test_few_requests_have_a_value_but_no_interval_for_p99(n: int) -> None:
    found = estimate(np.random.default_rng(1).exponential(1e6, n), 0.99)
    assert found.value is not None
    assert (found.low, found.high) == (None, None)


def test_a_handful_of_long_episodes_is_not_taken_for_many_slow_requests() -> None:
    """3000 requests with 60 slow ones in three spells: 60 slow requests, three events, no interval."""
    latency = np.random.default_rng(2).uniform(1e6, 2e6, 3000)
    for start in (500, 1500, 2500):
        latency[start : start + 20] = 9e6
    assert estimate(latency, 0.99).high is None


@pytest.mark.parametrize("q", [0.5, 0.9, 0.99])
def test_independent_latencies_are_covered(q: float) -> None:
    rng = np.random.default_rng(3)
    truth = -np.log(1 - q)
    runs = [estimate(rng.exponential(1, 4000), q) for _ in range(150)]
    covered = [r.low <= truth <= r.high for r in runs if r.low is not None and r.high is not None]
    assert len(covered) >= 145
    assert np.mean(covered) >= 0.93


@pytest.mark.parametrize(
    ("make", "load", "n"),
    [
        (batching_queue, 0.3, 4000),
        (batching_queue, 0.5, 6000),
        (batching_queue, 0.7, 12000),
        (batching_queue, 0.8, 25000),
        (single_queue, 0.5, 6000),
        (single_queue, 0.7, 20000),
    ],
)
def test_correlated_latencies_are_covered_up_to_a_load_of_four_fifths(make, load: float, n: int) -> None:  # type: ignore[no-untyped-def]
    rng = np.random.default_rng(4)
    truth = float(np.median([quantile(make(rng, 60000, load), 0.99) for _ in range(9)]))
    runs = [estimate(make(rng, n, load), 0.99) for _ in range(80)]
    known = [r for r in runs if r.low is not None and r.high is not None]
    covered = [r.low <= truth <= r.high for r in known]  # type: ignore[operator]
    assert len(known) >= 60
    assert np.mean(covered) >= 0.88  # nominal 0.95; 0.88 is three standard errors below 0.95 at n = 80


def test_the_interval_holds_its_value_and_narrows_with_more_requests() -> None:
    rng = np.random.default_rng(5)
    widths = []
    for n in (6000, 60000):
        found = estimate(batching_queue(rng, n, 0.5), 0.99)
        assert found.value is not None
        assert found.low is not None
        assert found.high is not None
        assert found.low <= found.value <= found.high
        widths.append(found.high / found.low)
    assert widths[1] < widths[0]


def test_failures_near_the_percentile_leave_no_upper_bound_below_never() -> None:
    """1 % failures scattered over the run: whether p99 is a number is chance, so the interval says so."""
    rng = np.random.default_rng(6)
    latency = rng.exponential(1e6, 6000)
    latency[rng.choice(6000, 57, replace=False)] = np.inf
    found = estimate(latency, 0.99)
    assert found.value is not None
    assert found.value < NEVER_NS
    assert found.high == NEVER_NS


def test_the_mean_is_over_answered_requests_and_has_an_interval() -> None:
    rng = np.random.default_rng(7)
    latency = rng.exponential(1e6, 5000)
    latency[::50] = np.inf
    found = percentiles(latency)["mean"]
    assert found.value == pytest.approx(latency[np.isfinite(latency)].mean())
    assert found.low is not None
    assert found.high is not None
    assert found.low < 1e6 < found.high


def test_percentiles_are_ordered() -> None:
    values = [
        percentiles(np.random.default_rng(8).exponential(1, 3000))[k].value
        for k in ("p50", "p90", "p95", "p99", "p99.9")
    ]
    assert values == sorted(values)  # type: ignore[type-var]


def test_blocks_are_equal_slices_of_the_plan_whatever_the_row_order() -> None:
    latency = np.arange(1.0, 1001.0)
    planned = np.arange(1000)
    blocks = block_p99(latency, planned, blocks=10)
    assert blocks == tuple(99.0 + 100 * i for i in range(10))
    shuffled = np.random.default_rng(9).permutation(1000)
    assert block_p99(latency[shuffled], planned[shuffled], blocks=10) == blocks


def test_a_block_that_failures_reach_is_never_and_too_few_requests_make_no_blocks() -> None:
    latency = np.arange(1.0, 101.0)
    latency[5] = np.inf
    blocks = block_p99(latency, np.arange(100), blocks=10)
    assert blocks[0] == NEVER_NS
    assert NEVER_NS not in blocks[1:]
    assert block_p99(latency[:19], np.arange(19), blocks=10) == ()
    with pytest.raises(ValueError, match="planned instants"):
        block_p99(latency, np.arange(7))
