import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tritune.arrivals.processes import plan
from tritune.arrivals.recorded import Recorded, block_length, recorded, resample
from tritune.errors import UsageError
from tritune.model.workload import Bursts
from tritune.units import NS_PER_S

BURSTS = Bursts(8, 200_000_000, 0.2)


def dispersion(instants, window_ns=NS_PER_S):
    """Variance / mean of the counts per window."""
    counts = np.bincount((instants // window_ns).astype(np.int64))[:-1]
    return counts.var() / counts.mean()


def ones(instants):
    return np.ones(len(instants), np.int64)


@given(st.integers(0, 2**32), st.floats(1, 5_000), st.integers(1, 300), st.integers(0, 300))
def test_same_seed_same_blocks_and_a_shorter_plan_is_the_beginning(seed, rate, count, more):
    source = plan(100, "on-off", 4, count=400, bursts=BURSTS)
    record = recorded(source, np.arange(400))
    instants, items = resample(record, rate, seed, count + more)
    short, few = resample(record, rate, seed, count)
    assert (short == instants[:count]).all()
    assert (few == items[:count]).all()
    assert (np.diff(instants) >= 0).all()


def test_gaps_and_sizes_stay_together_and_follow_each_other():
    source = np.cumsum(np.random.default_rng(3).permutation(1_000) + 1)
    record = recorded(source, np.arange(1_000))
    record = Recorded(record.gaps_ns, record.items, 50.0)
    instants, items = resample(record, record.rate_per_s, 9, 20_000)
    gaps = np.diff(instants, prepend=0)
    assert (gaps == record.gaps_ns[items - 1]).all()
    follows = (np.diff(items) == 1) | ((items[:-1] == 999) & (items[1:] == 1))
    assert (~follows).mean() == pytest.approx(1 / 50, rel=0.2)


def test_the_rate_stretches_the_same_arrivals():
    record = recorded(plan(100, "on-off", 4, count=5_000, bursts=BURSTS), np.ones(5_000, np.int64))
    low, _ = resample(record, 100, 5, 50_000)
    high, _ = resample(record, 400, 5, 50_000)
    assert low / 4 == pytest.approx(high, abs=1)
    assert 50_000 / low[-1] * NS_PER_S == pytest.approx(100, rel=0.05)


def test_gaps_without_memory_need_no_blocks():
    lengths = [block_length(np.random.default_rng(seed).exponential(1.0, 5_000)) for seed in range(20)]
    assert np.median(lengths) < 5
    assert block_length(np.full(100, 3.0)) == 1.0


@pytest.mark.parametrize("phi", [0.5, 0.9])
def test_the_block_of_an_autoregression_is_the_one_of_the_formula(phi):
    """g(0) = s^2 / (1 - phi)^2, sum of |k| R(k) = 2 s^2 phi / ((1 - phi)^3 (1 + phi))."""
    n, found = 20_000, []
    for seed in range(10):
        steps = np.random.default_rng(seed).standard_normal(n)
        series = np.empty(n)
        last = 0.0
        for i, step in enumerate(steps.tolist()):
            last = phi * last + step
            series[i] = last
        found.append(block_length(series))
    exact = ((2 * phi / ((1 - phi) * (1 + phi))) ** 2 * n) ** (1 / 3)
    assert np.median(found) == pytest.approx(exact, rel=0.25)


def test_bursts_survive_in_blocks_and_not_in_single_gaps():
    source = plan(300, "on-off", 11, count=30_000, bursts=BURSTS)
    record = recorded(source, ones(source))
    blocks, _ = resample(record, record.rate_per_s, 1, 200_000)
    singly, _ = resample(Recorded(record.gaps_ns, record.items, 1.0), record.rate_per_s, 1, 200_000)
    assert dispersion(blocks) == pytest.approx(dispersion(source), rel=0.35)
    assert dispersion(singly) < 0.2 * dispersion(source)


@pytest.mark.parametrize("instants", [range(10), [7] * 100])
def test_a_record_too_short_is_refused(instants):
    with pytest.raises(UsageError) as caught:
        recorded(np.array(instants), np.ones(len(instants), np.int64))
    assert caught.value.slug == "record-too-short"
