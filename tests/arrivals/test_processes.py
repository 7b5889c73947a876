import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from tritune.arrivals.processes import plan
from tritune.errors import ExitCode, UsageError
from tritune.units import NS_PER_S

rates = st.floats(0.5, 50_000)
patterns = st.sampled_from(["poisson", "constant"])
seeds = st.integers(0, 2**32)


@given(rates, patterns, seeds, st.integers(1, 2_000))
def test_a_counted_plan_is_sorted_and_has_exactly_that_many(rate, arrivals, seed, count):
    instants = plan(rate, arrivals, seed, count=count, duration_ns=1)
    assert instants.dtype == np.int64
    assert len(instants) == count
    assert instants[0] >= 0
    assert (np.diff(instants) >= 0).all()


@given(rates, patterns, seeds, st.floats(1, 2_000))
def test_a_timed_plan_is_sorted_and_ends_before_its_duration(rate, arrivals, seed, expected):
    duration_ns = round(expected / rate * NS_PER_S) + 1
    instants = plan(rate, arrivals, seed, duration_ns=duration_ns)
    assert (np.diff(instants) >= 0).all()
    assert (instants < duration_ns).all()
    # Six standard deviations: false alarms in about one of 1e8 examples, less for constant.
    assert abs(len(instants) - expected) <= 6 * np.sqrt(expected) + 6


@given(rates, patterns, seeds, st.integers(1, 500), st.integers(0, 500))
def test_a_shorter_plan_is_the_beginning_of_a_longer_one(rate, arrivals, seed, count, more):
    short = plan(rate, arrivals, seed, count=count)
    long = plan(rate, arrivals, seed, count=count + more)
    assert (long[:count] == short).all()


@given(rates, seeds)
def test_the_same_seed_gives_the_same_plan_and_another_seed_another(rate, seed):
    first = plan(rate, "poisson", seed, count=50)
    assert (first == plan(rate, "poisson", seed, count=50)).all()
    assert (first != plan(rate, "poisson", seed + 1, count=50)).any()


@given(rates, st.integers(2, 2_000))
def test_constant_arrivals_are_exactly_spaced_and_do_not_drift(rate, count):
    instants = plan(rate, "constant", 1, count=count)
    assert instants[0] == 0
    exact = np.arange(count) * (NS_PER_S / rate)
    assert (np.abs(instants - exact) <= 0.5 + 1e-6 * exact).all()


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_poisson_gaps_are_exponential_and_independent(seed):
    rate = 1_000.0
    instants = plan(rate, "poisson", seed, count=20_000)
    gaps = np.diff(instants, prepend=0) * rate / NS_PER_S
    assert stats.kstest(gaps, "expon").pvalue > 1e-4
    assert abs(np.corrcoef(gaps[1:], gaps[:-1])[0, 1]) < 4 / np.sqrt(len(gaps))


def test_the_number_of_poisson_requests_in_a_time_varies_as_a_poisson_number():
    counts = np.array([len(plan(100, "poisson", seed, duration_ns=NS_PER_S)) for seed in range(400)])
    # Mean and variance are both 100; bounds are four standard errors wide.
    assert abs(counts.mean() - 100) < 4 * 10 / np.sqrt(400)
    assert 0.7 < counts.var() / 100 < 1.3


def test_a_constant_plan_over_a_time_has_rate_times_time_requests():
    assert len(plan(200, "constant", 1, duration_ns=30 * NS_PER_S)) == 6_000


@pytest.mark.parametrize("rate", [0, -1, float("nan"), float("inf"), 1e-9, 1e12])
def test_a_rate_that_cannot_be_sent_is_a_usage_error(rate):
    with pytest.raises(UsageError) as error:
        plan(rate, "poisson", 1, count=10)
    assert error.value.slug == "bad-rate"
    assert error.value.exit_code == ExitCode.USAGE


@pytest.mark.parametrize(
    ("end", "slug"),
    [
        ({}, "no-end"),
        ({"count": 0}, "bad-count"),
        ({"count": -3}, "bad-count"),
        ({"duration_ns": 0}, "bad-load-duration"),
        ({"duration_ns": -1}, "bad-load-duration"),
        ({"count": 10**10}, "load-too-long"),
        ({"duration_ns": 10**7 * NS_PER_S}, "load-too-long"),
        ({"duration_ns": 1_000}, "load-too-short"),
    ],
)
def test_an_end_that_makes_no_load_is_a_usage_error(end, slug):
    with pytest.raises(UsageError) as error:
        plan(200, "poisson", 1, **end)
    assert error.value.slug == slug


def test_an_unknown_pattern_and_a_negative_seed_are_usage_errors():
    with pytest.raises(UsageError, match="burst"):
        plan(200, "burst", 1, count=1)
    with pytest.raises(UsageError, match="-1"):
        plan(200, "poisson", -1, count=1)
