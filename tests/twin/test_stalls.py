"""Rare long executions are found in the parts of a run, and nothing else is taken for one."""

from __future__ import annotations

from dataclasses import replace

import pytest
from observed_run import observe, true_service, truth
from twin_play import MS

from tritune.twin.fit.calibrate import calibrate_runs
from tritune.twin.fit.stalls import binomial, find_stalls


@pytest.mark.parametrize(
    ("p", "stall_ms", "rate"), [(0.001, 20, 100), (0.001, 50, 800), (0.0005, 100, 400), (0.003, 30, 300)]
)
def test_stalls_come_back_and_s_does_not_hold_them_twice(p: float, stall_ms: int, rate: float) -> None:
    run = observe(rate, 12_000, timing=truth(stall_p=p, stall_ns=stall_ms * MS))
    profile = calibrate_runs([run.run(parts=60)])
    assert profile.stall_p.low <= p <= profile.stall_p.high
    assert profile.stall_ns.value == pytest.approx(stall_ms * MS, rel=0.15)
    assert profile.cv.value == pytest.approx(0.03, rel=0.25)
    assert profile.service_ns[1].ns == pytest.approx(true_service(1), rel=0.012)


def test_none_seen_is_an_upper_bound() -> None:
    run = observe(300, 6000).run()
    found = find_stalls(run.parts, 0, run.log)
    executions = sum(stat.count for part in run.parts for stat in part.counters.batch_stats.values())
    assert (found.p.value, found.p.high) == (0.0, pytest.approx(3 / executions))
    assert found.ns is None
    assert find_stalls(run.parts[:3], 0, run.log).p is None


def test_what_the_client_did_not_see_is_no_stall() -> None:
    """A part that took long while every answer came in time: the counters' fault, or many small delays."""
    run = observe(100, 12_000, timing=truth(stall_p=0.001, stall_ns=50 * MS)).run(parts=60)
    quick = replace(run.log, done_ns=run.log.planned_ns + 5 * MS)
    assert find_stalls(run.parts, 0, run.log).p.value > 0
    assert find_stalls(run.parts, 0, quick).p.value == 0


def test_a_machine_that_was_slow_for_a_second_has_no_stall() -> None:
    run = observe(300, 12_000).run(parts=40)
    slow = [
        part if k != 7 else type(part)(
            part.model, part.version, part.source, part.t0_ns, part.t1_ns,
            replace_stats(part.counters, 1.5),
        )
        for k, part in enumerate(run.parts)
    ]  # fmt: skip
    late = run.log.done_ns.copy()
    late[(late > slow[7].t0_ns) & (late < slow[7].t1_ns)] += 5000 * MS
    assert find_stalls(slow, 0, replace(run.log, done_ns=late)).p.value == 0


def replace_stats(counters: object, factor: float) -> object:
    import msgspec

    stats = {
        size: msgspec.structs.replace(stat, infer_ns=round(stat.infer_ns * factor))
        for size, stat in counters.batch_stats.items()
    }
    return msgspec.structs.replace(counters, batch_stats=stats)


def test_binomial_intervals() -> None:
    """Clopper-Pearson by hand: 1 of 10 is [0.0025, 0.4450], 10 of 10 is [0.6915, 1]."""
    one, all_ = binomial(1, 10), binomial(10, 10)
    assert (one.value, one.low, one.high) == (
        0.1,
        pytest.approx(0.0025, abs=1e-4),
        pytest.approx(0.4450, abs=1e-4),
    )
    assert (all_.low, all_.high) == (pytest.approx(0.6915, abs=1e-4), 1.0)
    assert binomial(0, 2).high == 1.0
