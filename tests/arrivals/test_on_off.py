import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tritune.arrivals.processes import plan
from tritune.errors import UsageError
from tritune.model.workload import Bursts
from tritune.units import NS_PER_S

BURSTS = Bursts(8, 200_000_000, 0.2)

shapes = st.builds(Bursts, st.floats(1, 50), st.integers(1_000_000, 2 * NS_PER_S), st.floats(0.02, 0.9))


@given(st.floats(10, 5_000), shapes, st.integers(0, 2**32), st.integers(1, 500), st.integers(0, 500))
def test_a_plan_is_sorted_and_a_shorter_one_is_its_beginning(rate, bursts, seed, count, more):
    long = plan(rate, "on-off", seed, count=count + more, bursts=bursts)
    assert len(long) == count + more
    assert (np.diff(long) >= 0).all()
    assert (long[:count] == plan(rate, "on-off", seed, count=count, bursts=bursts)).all()
    within = plan(rate, "on-off", seed, duration_ns=int(long[-1] + 2 * NS_PER_S / rate), bursts=bursts)
    assert len(within) >= count + more
    assert (within[: count + more] == long).all()


def test_the_mean_rate_and_the_burstiness_are_those_of_an_mmpp_of_two_states():
    rate, seconds = 500.0, 4_000
    instants = plan(rate, "on-off", 3, duration_ns=seconds * NS_PER_S, bursts=BURSTS)
    assert len(instants) == pytest.approx(rate * seconds, rel=0.03)
    # Index of dispersion of counts, window far above the dwell times (Fischer and Meier-Hellstern 1993):
    # 1 + 2 (l1 - l2)^2 p1 p2 / (rate (s1 + s2)), s = the rates at which the states are left.
    calm = rate / (1 + BURSTS.duty * (BURSTS.ratio - 1))
    leave = 1 / 0.2 + 1 / 0.8
    expected = 1 + 2 * (7 * calm) ** 2 * 0.2 * 0.8 / (rate * leave)
    counts = np.bincount(instants // (20 * NS_PER_S), minlength=seconds // 20)[: seconds // 20]
    assert counts.var() / counts.mean() == pytest.approx(expected, rel=0.3)


def test_a_burst_comes_at_the_same_time_at_any_rate():
    low = plan(1_000, "on-off", 5, duration_ns=20 * NS_PER_S, bursts=BURSTS)
    high = plan(4_000, "on-off", 5, duration_ns=20 * NS_PER_S, bursts=BURSTS)
    counts = [np.bincount(one // 20_000_000, minlength=1000) for one in (low, high)]
    assert np.corrcoef(*counts)[0, 1] > 0.8


@pytest.mark.parametrize(
    "bursts", [Bursts(0.5, 1, 0.5), Bursts(2, 0, 0.5), Bursts(2, 1, 0.0), Bursts(2, 1, 1.0), None]
)
def test_bursts_that_are_none_are_refused(bursts):
    with pytest.raises(UsageError) as error:
        plan(100, "on-off", 1, count=10, bursts=bursts)
    assert error.value.slug == "bad-bursts"


def test_bursts_of_other_arrivals_are_refused():
    with pytest.raises(UsageError):
        plan(100, "poisson", 1, count=10, bursts=BURSTS)
