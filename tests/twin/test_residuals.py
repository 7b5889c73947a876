"""What the replay leaves over gives turnaround and lost wake-ups back, and helps elsewhere, not only here."""

from __future__ import annotations

import numpy as np
import pytest
from observed_run import observe, truth
from twin_play import LAZY, config

from tritune.arrivals.processes import plan
from tritune.stats.quantiles import quantile
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import Requests, simulate
from tritune.twin.engine.timing import Timing
from tritune.twin.fit.calibrate import calibrate_runs
from tritune.twin.fit.figures import timing_of
from tritune.twin.fit.residuals import lone_variation


@pytest.mark.parametrize(("rate", "delay_ms"), [(400, 0), (600, 0.5), (900, 2)])
@pytest.mark.parametrize("true_ns", [0, 300_000])
def test_the_pause_between_executions_comes_back(rate: float, delay_ms: float, true_ns: int) -> None:
    run = observe(rate, 8000, timing=truth(turnaround_ns=true_ns), delay_ms=delay_ms)
    profile = calibrate_runs([run.run()])
    found = profile.turnaround_ns
    assert profile.wake_ns is None or profile.wake_ns.value == 0
    assert found.low <= true_ns <= found.high
    if true_ns:
        assert found.value == pytest.approx(true_ns, rel=0.25)
    else:
        assert found.value == 0


@pytest.mark.parametrize("true_ns", [0, 150_000])
@pytest.mark.parametrize(
    ("rate", "setting"),
    [(30, {}), (400, {}), (100, {"delay_ms": 2}), (200, {"delay_ms": 100, "preferred": (2, 4, 8)})],
)
def test_a_slow_wake_up_is_not_taken_for_a_turnaround(true_ns: int, rate: float, setting: dict) -> None:
    """By lone requests where there are some. In the last case there are none: batches of two form long before
    the delay is over, and a pause behind an execution moves no queue.
    """
    profile = calibrate_runs([observe(rate, 8000, timing=truth(wake_ns=true_ns), **setting).run()])
    assert profile.turnaround_ns is None or profile.turnaround_ns.value == 0
    assert profile.wake_ns.low <= true_ns + 5000
    assert profile.wake_ns.high >= true_ns - 5000
    assert profile.wake_ns.value == pytest.approx(true_ns, rel=0.25)


def test_a_pause_of_a_tenth_of_an_execution_is_another_mistake() -> None:
    profile = calibrate_runs([observe(400, 6000, timing=truth(turnaround_ns=1_500_000)).run()])
    assert (profile.turnaround_ns, profile.wake_ns) == (None, None)


@pytest.mark.parametrize("rate", [15, 60, 400])
@pytest.mark.parametrize("p", [0.0, 0.02, 0.1])
def test_lost_wakeups_come_back(rate: float, p: float) -> None:
    run = observe(rate, 8000, timing=truth(lost_wakeup_p=p), policy=LAZY)
    found = calibrate_runs([run.run()]).lost_wakeup_p
    # The interval of one run in twenty misses; these three do not.
    assert found.low <= p <= found.high
    assert found.high - found.low < 0.07


def test_lost_wakeups_behind_a_delay_and_full_batches() -> None:
    for more in ({"delay_ms": 3}, {"largest": 2}):
        run = observe(150, 8000, timing=truth(lost_wakeup_p=0.05), policy=LAZY, **more)
        found = calibrate_runs([run.run()]).lost_wakeup_p
        assert found.low <= 0.05 <= found.high


def test_what_loses_no_wakeups_says_nothing_of_them() -> None:
    for run in (
        observe(60, 3000),
        observe(60, 3000, policy=LAZY, instances=2),
        observe(60, 3000, policy=LAZY, dynamic=False),
    ):
        assert calibrate_runs([run.run()]).lost_wakeup_p is None
    old = observe(60, 3000, policy=LAZY).run(triton_version="24.01")
    assert calibrate_runs([old]).lost_wakeup_p is None


def test_lone_requests_bound_the_variation() -> None:
    run = observe(20, 4000, timing=truth(cv=0.05)).run()
    found = lone_variation(run, truth().service_ns[1])
    assert found.low <= 0.05 <= found.high
    assert lone_variation(observe(900, 200).run(), 5e6) is None


@pytest.mark.parametrize(
    ("real", "seen", "asked"),
    [
        (truth(turnaround_ns=300_000), {"rate": 600, "delay_ms": 0}, {"rate": 800, "delay_ms": 2}),
        (truth(), {"rate": 600, "delay_ms": 2}, {"rate": 850, "delay_ms": 0}),
        (
            truth(lost_wakeup_p=0.05),
            {"rate": 100, "policy": LAZY},
            {"rate": 50, "policy": LAZY, "delay_ms": 2},
        ),
    ],
)
def test_an_unseen_setting_is_predicted_with_what_was_recovered(
    real: Timing, seen: dict, asked: dict
) -> None:
    """Within 3 % of the machine itself under the same arrivals; nothing was fitted to this run alone."""
    run = observe(seen.pop("rate"), 12_000, timing=real, **seen)
    profile, rate = calibrate_runs([run.run(parts=30)]), asked.pop("rate")
    setting = setting_of(config(**{"largest": 16} | asked))
    latency = {
        timing: np.concatenate(
            [
                simulate(
                    setting, Requests(plan(rate, "poisson", s, count=30_000)), timing, seed=s
                ).latency_ns()
                for s in (1, 2, 3, 4)
            ]
        )
        for timing in (timing_of(profile, 16), real)
    }
    predicted, measured = latency.values()
    for q in (0.5, 0.95, 0.99):
        assert quantile(predicted, q) == pytest.approx(quantile(measured, q), rel=0.03), q
