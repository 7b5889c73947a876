"""How instances slow each other down, from runs of the twin with a known contention."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from observed_run import Observed, observe, true_service, truth
from twin_play import config, ms, play

from tritune.arrivals.processes import plan
from tritune.model.profile import TwinProfile
from tritune.stats.quantiles import quantile
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import Requests, simulate
from tritune.twin.engine.timing import Timing
from tritune.twin.fit.calibrate import calibrate_runs
from tritune.twin.fit.contention import others_at_start
from tritune.twin.fit.figures import timing_of


def two(timing: Timing, *, first: int = 1, rate: float = 300) -> tuple[Observed, Observed]:
    """A run with one and one with two instances, in this order or the other."""
    one = observe(rate, 6000, timing=timing, seed=3)
    other = observe(1.3 * rate, 6000, timing=timing, instances=2, seed=4)
    return (one, other) if first == 1 else (other, one)


def fitted(*runs: Observed) -> TwinProfile:
    return calibrate_runs([run.run() for run in runs])


@pytest.mark.parametrize(("delta", "first"), [(0.0, 1), (0.3, 2), (0.7, 1), (0.7, 2)])
def test_it_comes_back_with_its_interval(delta: float, first: int) -> None:
    profile = fitted(*two(truth(contention=(delta,)), first=first))
    found = profile.contention
    assert found.source == "measured"
    assert found.low <= found.value <= found.high
    assert found.value == pytest.approx(delta, abs=0.015)
    assert found.low - 0.005 <= delta <= found.high + 0.005
    assert profile.contention_by_size is None
    assert sorted(profile.observed.instances) == [1, 2]
    # S(b) is that of one instance alone, whichever run is the reference.
    for size in (1, 2, 3):
        assert profile.service_ns[size].ns == pytest.approx(true_service(size), rel=0.015)
    assert profile.observed.others_active == 0


def test_mean_activity_would_mislead() -> None:
    """Why the twin counts: what meets an execution at its start is not the activity that counters give."""
    _, run = two(truth(contention=(0.7,)), rate=120)
    busy = sum(stat.ns for stat in run.window.counters.batch_stats.values()) / run.window.seconds / 1e9
    others = others_at_start(run.play)
    by_size = [others[run.play.batch_items == b].mean() for b in (1, 2)]
    assert abs(by_size[0] - by_size[1]) > 0.1
    assert abs(busy / 2 - others.mean()) > 0.1


def test_others_at_start_are_counted_by_hand() -> None:
    found = play(
        config(dynamic=False, largest=1, instances=3), Requests(ms([0, 1, 2, 11])), Timing((0.0, 1e7))
    )
    assert others_at_start(found).tolist() == [0, 1, 2, 1]


def test_where_sizes_differ_it_is_by_size() -> None:
    delta = tuple(0.1 + 0.08 * b for b in range(17))
    profile = fitted(*two(truth(contention=delta), rate=500))
    assert profile.contention_by_size
    timing = timing_of(profile, 16)
    for size in (1, 4, 8):
        assert timing.contention[size] == pytest.approx(delta[size], abs=0.06)


def test_one_instance_count_shows_nothing() -> None:
    timing = truth(contention=(0.5,))
    profile = fitted(observe(300, 3000, timing=timing), observe(500, 3000, timing=timing, seed=8))
    assert profile.contention is None
    assert "all runs had 1 of them" in profile.notes[0]


def test_instances_that_were_hardly_active_together_show_nothing() -> None:
    timing = truth(contention=(0.5,))
    profile = fitted(observe(15, 2000, timing=timing), observe(15, 2000, timing=timing, instances=2, seed=8))
    assert profile.contention is None
    assert "hardly ever active together" in profile.notes[0]
    assert profile.observed.instances == (1,)


def test_runs_without_parts_give_a_value_without_interval() -> None:
    runs = [run.run(parts=0) for run in two(truth(contention=(0.5,)))]
    found = calibrate_runs(runs).contention
    assert found.value == pytest.approx(0.5, abs=0.02)
    assert (found.low, found.high) == (None, None)


@cache
def seen_at_one_and_two() -> TwinProfile:
    return fitted(*two(truth(contention=(0.5,))))


@pytest.mark.parametrize(("instances", "delay_ms", "rate"), [(3, 0.0, 450), (4, 2.0, 400), (1, 1.0, 300)])
def test_an_unseen_instance_count_is_predicted(instances: int, delay_ms: float, rate: float) -> None:
    """Within 3 %: the machine itself under the same arrivals, 60 000 requests."""
    real, profile = truth(contention=(0.5,)), seen_at_one_and_two()
    setting = setting_of(config(delay_ms, largest=16, instances=instances))
    for q in (0.5, 0.95, 0.99):
        predicted, measured = (
            quantile(
                np.concatenate(
                    [
                        simulate(
                            setting, Requests(plan(rate, "poisson", seed, count=20_000)), timing, seed=seed
                        ).latency_ns()
                        for seed in (1, 2, 3)
                    ]
                ),
                q,
            )
            for timing in (timing_of(profile, 16), real)
        )
        assert predicted == pytest.approx(measured, rel=0.03), q
