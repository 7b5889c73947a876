"""Several runs as one calibration: which of them give what, and which are left out."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import pytest
from observed_run import observe, true_service, truth

from tritune.errors import TrituneError
from tritune.twin.fit.calibrate import PRIOR_CV, calibrate_runs


def test_one_run_without_parts_keeps_its_prior() -> None:
    run = observe(300, 3000)
    profile = calibrate_runs([run.run(parts=0)])
    assert profile == run.profile(source="a test")
    assert (profile.cv.value, profile.cv.source) == (PRIOR_CV, "prior")
    assert profile.notes == ()


def test_parts_make_the_variation_measured() -> None:
    found = calibrate_runs([observe(300, 8000).run()]).cv
    assert (found.source, found.value) == ("measured", pytest.approx(0.03, rel=0.2))
    assert found.low < 0.03 < found.high


def test_the_reference_comes_first_and_the_others_fill_in() -> None:
    low, high = observe(100, 4000), observe(900, 4000, delay_ms=2, seed=9)
    profile = calibrate_runs([low.run(source="low"), high.run(source="high")])
    assert profile.source == "low, high"
    assert profile.observed.rates_per_s[0] == pytest.approx(100, rel=0.05)
    assert profile.observed.rates_per_s[1] == pytest.approx(900, rel=0.05)
    assert profile.observed.delays_us == (0, 2000)
    assert profile.arrival.rate_per_s == pytest.approx(100, rel=0.05)
    ours = low.window.counters.batch_stats[1]
    assert profile.service_ns[1].ns == pytest.approx(ours.ns / ours.count, rel=1e-6)
    assert low.window.counters.batch_stats.keys() < set(profile.observed.batch_sizes)
    assert profile.service_ns[6].ns == pytest.approx(true_service(6), rel=0.02)


def test_a_run_that_says_nothing_is_left_out_and_named() -> None:
    good = observe(100, 2000).run()
    bad = observe(100, 2000, seed=6)
    reset = bad.run(source="the other")
    reset = replace(reset, window=msgspec.structs.replace(reset.window, reset=True))
    profile = calibrate_runs([good, reset])
    assert profile.notes[0] == "the other was left out: the server's counters were reset while it ran"
    assert len(profile.observed.rates_per_s) == 1
    with pytest.raises(TrituneError, match="reset"):
        calibrate_runs([reset, good])
    with pytest.raises(ValueError, match="needs a run"):
        calibrate_runs([])


def test_requests_of_others_are_refused() -> None:
    run = observe(100, 2000).run()
    counters = run.window.counters
    more = msgspec.structs.replace(
        counters, success=msgspec.structs.replace(counters.success, count=counters.success.count + 100)
    )
    foreign = replace(run, window=msgspec.structs.replace(run.window, counters=more))
    with pytest.raises(TrituneError, match="100 of the 2100 requests"):
        calibrate_runs([foreign])
    # A step of an ensemble may be called more often than the ensemble.
    assert calibrate_runs([replace(foreign, own_log=False)]).turnaround_ns is None


def test_a_closed_loop_has_a_rate_and_no_process() -> None:
    fit = calibrate_runs([replace(observe(100, 2000).run(), concurrency=4)]).arrival
    assert fit.process is None
    assert fit.rate_per_s == pytest.approx(100, rel=0.05)


def test_runs_with_the_same_several_instances_keep_their_s() -> None:
    """Without another count nothing says what they did to each other, so S(b) stays as it was seen."""
    timing = truth(contention=(0.4,))
    run = observe(300, 4000, timing=timing, instances=2)
    profile = calibrate_runs([run.run(), observe(200, 4000, timing=timing, instances=2, seed=8).run()])
    assert profile.contention is None
    assert profile.observed.others_active > 0.5
    assert profile.service_ns[1].ns > 1.1 * true_service(1)
