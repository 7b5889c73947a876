import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tritune.arrivals.dispersion import correlation, count_variance, ratio_of, sample_variance
from tritune.arrivals.processes import plan
from tritune.model.workload import Bursts
from tritune.units import NS_PER_S

BURSTS = Bursts(6, 300_000_000, 0.2)

shapes = st.builds(Bursts, st.floats(1.1, 50), st.integers(1_000_000, 5 * NS_PER_S), st.floats(0.02, 0.9))


def counts(rate, bursts, seconds, window_s):
    process = "on-off" if bursts else "poisson"
    instants = plan(rate, process, 3, duration_ns=seconds * NS_PER_S, bursts=bursts)
    number = (instants // round(window_s * NS_PER_S)).astype(np.int64)
    return np.bincount(number, minlength=round(seconds / window_s)).astype(float)


@pytest.mark.parametrize("window_s", [0.1, 1.0, 5.0])
def test_the_variance_of_counts_is_that_of_simulated_ones(window_s):
    seen = counts(200, BURSTS, 10_000, window_s)
    assert seen.var() == pytest.approx(count_variance(200, BURSTS, window_s), rel=0.1)


def test_short_samples_are_less_scattered_and_their_neighbours_less_alike():
    """Of 20 windows: the mean over many such samples, against the formula with its correction."""
    samples = counts(200, BURSTS, 10_000, 1.0).reshape(-1, 20)
    assert samples.var(axis=1, ddof=1).mean() == pytest.approx(
        sample_variance(200, BURSTS, 1.0, 20), rel=0.08
    )
    assert sample_variance(200, BURSTS, 1.0, 20) < 0.99 * count_variance(200, BURSTS, 1.0)
    long = counts(200, BURSTS, 10_000, 1.0)
    centred = long - long.mean()
    acf = (centred[1:] * centred[:-1]).sum() / (centred**2).sum()
    assert correlation(200, BURSTS, 1.0, 10_000) == pytest.approx(acf, abs=0.04)


def test_poisson_counts_have_their_mean_as_variance_and_no_memory():
    assert count_variance(50, None, 4.0) == 200
    assert sample_variance(50, None, 4.0, 10) == pytest.approx(200)
    assert correlation(50, None, 4.0, 10) == pytest.approx(0)


@given(st.floats(1, 5_000), shapes, st.floats(0.1, 5))
def test_the_ratio_is_found_again(rate, bursts, window_s):
    dispersion = count_variance(rate, bursts, window_s) / (rate * window_s)
    found = ratio_of(rate, dispersion, bursts.dwell_ns, bursts.duty, window_s)
    back = Bursts(found, bursts.dwell_ns, bursts.duty)
    assert count_variance(rate, back, window_s) / (rate * window_s) == pytest.approx(dispersion, rel=1e-6)
    assert ratio_of(rate, 0.9, bursts.dwell_ns, bursts.duty, window_s) == 1
