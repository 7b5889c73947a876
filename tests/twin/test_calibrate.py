"""Calibration must find the figures that a run was made with, and predict settings that it has not seen."""

from __future__ import annotations

from dataclasses import replace
from itertools import pairwise

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from observed_run import CLIENT_NS, SERVER_NS, observe, true_service, truth
from twin_play import MS, config

from tritune.arrivals.processes import plan
from tritune.errors import ExitCode, TrituneError
from tritune.model.profile import TwinProfile
from tritune.model.server import BatchStat, ModelCounters, ServerWindow
from tritune.stats.quantiles import quantile
from tritune.twin.ask.predict import Traffic, predict
from tritune.twin.ask.validate import validate
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import Requests, simulate
from tritune.twin.fit.calibrate import PRIOR_CV, arrival_fit, timing_of
from tritune.twin.fit.service_fit import fit_service, isotonic, reach
from tritune.twin.fit.variation import variation

# Service times ----------------------------------------------------------------------------------------------


@given(st.lists(st.tuples(st.floats(0, 1e9), st.floats(0.5, 1e4)), min_size=1, max_size=30))
def test_isotonic_is_the_nearest_rising_sequence(points: list[tuple[float, float]]) -> None:
    values, weights = zip(*points, strict=True)
    fitted = isotonic(values, weights)
    scale = max(values) + 1
    assert all(a <= b + 1e-9 * scale for a, b in pairwise(fitted))
    assert np.dot(fitted, weights) == pytest.approx(np.dot(values, weights), rel=1e-9)
    # Optimality: the residual is orthogonal to the fit, and no tail sum is positive.
    residual = (np.array(values) - fitted) * weights
    assert abs(np.dot(residual, fitted)) <= 1e-7 * scale**2 * sum(weights)
    assert (np.cumsum(residual[::-1]) <= 1e-7 * scale * sum(weights)).all()


def stats(curve: dict[int, float], count: int = 50) -> dict[int, BatchStat]:
    return {b: BatchStat(count, 0, round(ns * count), 0) for b, ns in curve.items()}


def test_sizes_between_are_interpolated_and_beyond_lie_on_the_line() -> None:
    seen = stats({b: true_service(b) for b in (2, 3, 6)})
    fitted = fit_service(seen, {}, largest=16, cv=0.05)
    assert list(fitted) == list(range(1, 17))
    assert {b for b in fitted if fitted[b].source == "measured"} == {2, 3, 6}
    assert {b for b in fitted if fitted[b].source == "interpolated"} == {4, 5}
    for b, time in fitted.items():
        assert time.ns == pytest.approx(true_service(b), rel=1e-6)
        assert (time.low_ns is not None) == (time.source == "measured")
    assert reach(fitted) == (1.0, 12.0)


def test_one_size_gives_no_line() -> None:
    assert list(fit_service(stats({4: 5e6}), {}, largest=16, cv=0.05)) == [4]


def test_rare_sizes_lean_on_the_warm_up() -> None:
    seen = stats({1: 5e6}, 100) | {8: BatchStat(2, 0, 40_000_000, 0)}
    fitted = fit_service(seen, stats({1: 9e6, 8: 8e6}, 30), largest=8, cv=0.05)
    assert (fitted[1].ns, fitted[1].source, fitted[1].executions) == (5e6, "measured", 100)
    assert (fitted[8].source, fitted[8].executions) == ("warm-up", 32)
    assert fitted[8].ns == pytest.approx((40e6 + 240e6) / 32)


def test_the_first_executions_of_a_model_are_not_believed() -> None:
    """Size 1 was run three times, the first of them cold; the line through the others is nearer."""
    seen = stats({2: true_service(2)}, 500)
    warm = stats({4: true_service(4)}, 50) | {1: BatchStat(3, 0, round(3.3 * true_service(1)), 0)}
    fitted = fit_service(seen, warm, largest=4, cv=0.05)
    assert fitted[1].ns == pytest.approx(true_service(1), rel=1e-6)
    assert (fitted[1].source, fitted[1].executions, fitted[1].low_ns) == ("extrapolated", 3, None)
    quick = warm | {1: BatchStat(3, 0, round(2.9 * true_service(1)), 0)}
    fitted = fit_service(seen, quick, largest=4, cv=0.05)
    assert (fitted[1].ns, fitted[1].source) == (pytest.approx(2.9 / 3 * true_service(1)), "warm-up")


def test_nothing_ran() -> None:
    with pytest.raises(TrituneError) as caught:
        fit_service({}, {}, largest=8, cv=0.05)
    assert (caught.value.slug, caught.value.exit_code) == ("twin-no-batches", ExitCode.NOT_TRUSTWORTHY)


# The profile ------------------------------------------------------------------------------------------------


def test_calibration_finds_what_the_run_was_made_with() -> None:
    run = observe(600, 20_000, late_ns=70_000)
    profile = run.profile()
    for size, time in profile.service_ns.items():
        if time.executions >= 20:
            assert time.ns == pytest.approx(true_service(size), rel=0.03)
    assert profile.client_overhead_ns.value == pytest.approx(CLIENT_NS, rel=0.01)
    assert profile.server_overhead_ns.value == pytest.approx(SERVER_NS, rel=0.01)
    assert profile.arrival.process == "poisson"
    assert profile.arrival.rate_per_s == pytest.approx(600, rel=0.03)
    assert (profile.cv.value, profile.cv.source) == (PRIOR_CV, "prior")
    assert profile.observed.instances == (1,)
    for unknown in ("contention", "wake_ns", "lost_wakeup_p", "stall_p", "stall_ns"):
        assert getattr(profile, unknown) is None


def test_a_profile_survives_json() -> None:
    profile = observe(count=500).profile()
    assert msgspec.json.decode(msgspec.json.encode(profile), type=TwinProfile) == profile


@pytest.mark.parametrize(("cv", "parts"), [(0.03, 40), (0.2, 40)])
def test_windows_give_the_variation(cv: float, parts: int) -> None:
    windows = []
    for seed in range(parts):
        part = observe(300, 300, timing=truth(cv=cv), seed=seed + 1)
        # Each with noise of its own.
        noise = np.random.default_rng(seed)
        drawn = {
            b: BatchStat(
                s.count, 0, int(true_service(b) * (1 + cv * noise.standard_normal(s.count)).sum()), 0
            )
            for b, s in (part.window.counters.batch_stats or {}).items()
        }
        windows.append(ServerWindow("m", "1", "statistics", 0, 10**9, ModelCounters(batch_stats=drawn)))
    assert variation(windows[:3]) is None
    found = variation(windows)
    assert found is not None
    assert found.value == pytest.approx(cv, rel=0.15)
    assert found.source == "measured"


@pytest.mark.parametrize("process", ["poisson", "constant"])
def test_arrivals_are_told_apart(process: str) -> None:
    fit = arrival_fit(plan(100, process, 3, count=1000))  # type: ignore[arg-type]
    assert fit.process == process
    bursts = np.sort(np.repeat(plan(10, "poisson", 3, count=100), 10))
    assert arrival_fit(bursts).process is None


def failing(share: float) -> object:
    run = observe(count=1000)
    kind = run.log.kind.copy()
    kind[: int(share * len(kind))] = 1
    return replace(run, log=replace(run.log, kind=kind)).profile()


def test_a_run_with_failures_is_refused() -> None:
    failing(0.005)
    with pytest.raises(TrituneError) as caught:
        failing(0.02)
    assert caught.value.slug == "twin-bad-run"
    assert caught.value.exit_code == ExitCode.NOT_TRUSTWORTHY


def test_counters_that_were_reset_are_refused() -> None:
    run = observe(count=500)
    reset = replace(run, window=msgspec.structs.replace(run.window, reset=True))
    with pytest.raises(TrituneError, match="reset"):
        reset.profile()


def test_contention_given_is_taken_out_of_what_was_observed() -> None:
    delta = 0.5
    run = observe(300, 20_000, timing=truth(contention=(delta,)), instances=2)
    timing = timing_of(run.profile(), 16, contention=delta)
    for b in (1, 2):
        # What is taken out is the average over all sizes, so single sizes are a little off.
        assert timing.service_ns[b] / true_service(b) == pytest.approx(1, abs=0.08)
        assert run.profile().service_ns[b].ns / true_service(b) > 1.15


# A setting that was not seen --------------------------------------------------------------------------------


@pytest.mark.parametrize(("rate", "delay_ms", "then_ms"), [(200, 100, 0.5), (600, 0, 5), (900, 0.5, 0)])
def test_an_unseen_setting_is_predicted(rate: float, delay_ms: float, then_ms: float) -> None:
    """Calibrated at one delay, compared with the machine itself at another, over 200 000 requests."""
    run = observe(rate, 12_000, delay_ms=delay_ms)
    # The warm-up ran every size, as that of tritune load does.
    profile = run.profile(warm_up=stats({b: true_service(b) for b in range(1, 17)}, 10))
    assert validate(run.config, profile, run.window, run.log).refusal == ""
    asked = config(then_ms, largest=16)
    found = predict(profile, asked, Traffic(rate))
    assert found.refusal == ""
    really = simulate(setting_of(asked), Requests(plan(rate, "poisson", 77, count=200_000)), truth(), seed=3)
    for name, q in (("p50", 0.5), ("p95", 0.95), ("p99", 0.99)):
        assert found.latency[name].value == pytest.approx(quantile(really.latency_ns(), q), rel=0.05), name
    assert found.mean_batch == pytest.approx(really.batch_items.mean(), rel=0.03)
    assert MS < found.latency["p50"].low < found.latency["p50"].high
