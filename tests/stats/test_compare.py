from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tritune.model.measurement import Comparison, Estimate, Measurement
from tritune.model.server import BatchStat, ModelCounters, ServerWindow
from tritune.model.workload import Workload
from tritune.stats.compare import batch_distance, compare
from tritune.units import NEVER_NS

WORK = Workload("m", rate_per_s=100, count=3000)


def measured(p99: float | None, blocks: tuple[float, ...] = (), requests: int = 3000) -> Measurement:
    return Measurement("s", WORK, requests, 30.0, {}, {"p99": Estimate(p99)}, blocks)


def noisy(rng: np.random.Generator, plan: np.ndarray, p99: float, *, run: float, block: float) -> Measurement:
    """A run whose p99 has a run effect, blocks that share the plan's shape, and noise of their own."""
    level = p99 * np.exp(rng.normal(0, run))
    blocks = level * np.exp(plan + rng.normal(0, block, len(plan)))
    return measured(float(np.exp(np.log(blocks).mean())), tuple(blocks))


def trial(
    rng: np.random.Generator, effect: float, *, runs: int, run: float, block: float, best: int = 2
) -> Comparison:
    plan = rng.normal(0, 0.3, 10)
    old = [noisy(rng, plan, 50e6, run=run, block=block) for _ in range(best)]
    new = [noisy(rng, plan, 50e6 * effect, run=run, block=block) for _ in range(runs)]
    return compare(old, new)


@pytest.mark.parametrize("runs", [1, 2])
@pytest.mark.parametrize(("run", "block"), [(0.0, 0.05), (0.03, 0.05), (0.035, 0.1), (0.03, 0.2)])
def test_the_same_setting_twice_is_rarely_called_better_or_worse(run: float, block: float, runs: int) -> None:
    rng = np.random.default_rng(1)
    verdicts = [trial(rng, 1.0, runs=runs, run=run, block=block).verdict for _ in range(600)]
    assert sum(v in ("better", "worse") for v in verdicts) / len(verdicts) <= 0.05


def test_repeats_teach_the_noise_of_a_machine_that_is_worse_than_the_prior() -> None:
    rng = np.random.default_rng(1)
    few = [trial(rng, 1.0, best=2, runs=2, run=0.06, block=0.05).verdict for _ in range(400)]
    many = [trial(rng, 1.0, best=8, runs=8, run=0.06, block=0.05).verdict for _ in range(400)]
    false = [sum(v in ("better", "worse") for v in verdicts) / 400 for verdicts in (few, many)]
    assert false[1] <= 0.07
    assert false[1] < false[0]


def test_a_real_gain_is_found() -> None:
    rng = np.random.default_rng(2)
    verdicts = [trial(rng, 0.7, runs=2, run=0.03, block=0.05).verdict for _ in range(200)]
    assert verdicts.count("better") >= 190
    losses = [trial(rng, 1.4, runs=1, run=0.03, block=0.05).verdict for _ in range(200)]
    assert losses.count("worse") >= 190


def test_the_interval_covers_the_effect() -> None:
    rng = np.random.default_rng(3)
    found = [trial(rng, 0.8, runs=2, run=0.03, block=0.1) for _ in range(300)]
    assert np.mean([c.low <= 0.8 <= c.high for c in found]) >= 0.93


def test_a_small_change_is_not_worth_a_verdict_and_many_equal_runs_are_equivalent() -> None:
    small = compare([measured(100e6)] * 40, [measured(97e6)] * 40)
    assert small.high < 1
    assert small.verdict == "equivalent"
    equal = compare([measured(100e6)] * 10, [measured(100e6)] * 10)
    assert equal.verdict == "equivalent"


def test_pairing_removes_the_plan_s_own_variation() -> None:
    """Blocks that vary 10-fold with the plan, but equally on both sides, say the ratio exactly."""
    blocks = tuple(10e6 * 1.3**i for i in range(10))
    paired = compare([measured(50e6, blocks)], [measured(40e6, tuple(b * 0.8 for b in blocks))])
    assert paired.verdict == "better"
    assert "within-run error 0.0%" in paired.basis
    other = compare([measured(50e6, blocks)], [measured(40e6, tuple(b * 0.8 for b in blocks), requests=10)])
    assert "do not pair" in other.basis


def test_noise_within_the_runs_widens_the_interval() -> None:
    calm = compare([measured(50e6, (50e6,) * 10)], [measured(40e6, (40e6,) * 10)])
    wild = compare([measured(50e6, (50e6,) * 10)], [measured(40e6, (20e6, 80e6) * 5)])
    assert wild.low < calm.low
    assert wild.high > calm.high
    assert wild.verdict == "undecided"


def test_failures_that_reach_the_p99_decide() -> None:
    never, fine = measured(NEVER_NS), measured(50e6)
    assert compare([fine], [never]).verdict == "worse"
    assert compare([fine, fine], [fine, never]).verdict == "worse"
    assert compare([never], [fine]).verdict == "better"
    assert compare([never], [never]).verdict == "undecided"
    assert compare([never, fine], [fine]).verdict == "undecided"
    assert compare([measured(None)], [fine]).verdict == "undecided"
    for pair in (([fine], [never]), ([never], [fine]), ([never], [never])):
        found = compare(*pair)
        assert np.isfinite([found.ratio, found.low, found.high]).all()
        assert found.low <= found.ratio <= found.high


def test_a_comparison_needs_both_sides() -> None:
    with pytest.raises(ValueError, match="at least one"):
        compare([], [measured(1e6)])


@given(
    st.lists(st.floats(1e5, 1e9), min_size=1, max_size=5),
    st.lists(st.floats(1e5, 1e9), min_size=1, max_size=5),
)
def test_swapping_the_sides_turns_the_ratio_over(a: list[float], b: list[float]) -> None:
    there = compare([measured(x) for x in a], [measured(x) for x in b])
    back = compare([measured(x) for x in b], [measured(x) for x in a])
    assert there.ratio == pytest.approx(1 / back.ratio)
    assert there.low == pytest.approx(1 / back.high)
    assert there.low <= there.ratio <= there.high
    mirror = {"better": "worse", "worse": "better"}
    if there.verdict in mirror:
        assert back.verdict == mirror[there.verdict]


def window(counts: dict[int, int] | None) -> ServerWindow:
    stats = None if counts is None else {s: BatchStat(n) for s, n in counts.items()}
    return ServerWindow("m", "1", "statistics", 0, 10**9, ModelCounters(batch_stats=stats))


def test_batch_distance() -> None:
    assert batch_distance(window({1: 10, 2: 10}), window({1: 500, 2: 500})) == 0
    assert batch_distance(window({1: 10}), window({2: 10})) == 1
    assert batch_distance(window({1: 3, 2: 1}), window({1: 1, 2: 3})) == pytest.approx(0.5)
    assert batch_distance(window(None), window({1: 1})) is None
    assert batch_distance(window({}), window({1: 1})) is None
