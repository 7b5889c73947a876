"""The twin refuses where its own replay is off, and what lies outside of what was observed."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from observed_run import Observed, observe, truth
from twin_play import MS, config

from tritune.twin.ask.predict import predict
from tritune.twin.ask.traffic import Traffic
from tritune.twin.ask.validate import validate
from tritune.twin.fit.agreement import distance


def judged(run: Observed, profile: object | None = None):
    return validate(run.config, profile or run.profile(), run.window, run.log)


@pytest.mark.parametrize("rate", [50, 300, 900])
@pytest.mark.parametrize("delay_ms", [0, 2, 50])
def test_its_own_runs_are_replayed(rate: float, delay_ms: float) -> None:
    found = judged(observe(rate, 4000, delay_ms=delay_ms))
    assert found.refusal == ""
    assert abs(found.queue_error) < 0.1
    assert abs(found.p99_error) < 0.1
    assert found.batch_distance < 0.05 + found.batch_noise


def test_the_senders_lateness_belongs_to_the_latency_and_not_to_the_server() -> None:
    found = judged(observe(300, 4000, late_ns=8 * MS))
    assert abs(found.p99_error) < 0.05
    assert found.p99_observed_ns > 16 * MS


def test_a_wrong_queue_is_refused() -> None:
    run = observe(600, 4000, delay_ms=2)
    profile = run.profile()
    slower = {b: msgspec.structs.replace(t, ns=1.3 * t.ns) for b, t in profile.service_ns.items()}
    found = judged(run, msgspec.structs.replace(profile, service_ns=slower))
    assert found.queue_error > 0.15
    assert "mean queue time" in found.refusal
    assert "measure" in found.refusal


def test_a_tiny_queue_is_not_held_against_it() -> None:
    run = observe(5, 600)
    found = judged(run)
    counters = run.window.counters
    more = msgspec.structs.replace(counters.queue, ns=counters.queue.ns + 600 * 80_000)
    window = msgspec.structs.replace(run.window, counters=msgspec.structs.replace(counters, queue=more))
    again = judged(replace(run, window=window), run.profile())
    assert found.refusal == again.refusal == ""
    assert again.queue_error < -0.15


def test_stalls_of_the_machine_are_refused_by_p99() -> None:
    run = observe(100, 3000)
    done = run.log.done_ns.copy()
    done[np.arange(0, len(done), 50)] += 100 * MS
    found = judged(replace(run, log=replace(run.log, done_ns=done)))
    assert "p99" in found.refusal
    assert found.p99_error < -0.2


def test_other_batches_are_refused() -> None:
    """The server behind this run had preferred sizes that nobody told the twin of."""
    run = observe(900, 6000, delay_ms=4, preferred=(4,))
    other = replace(run, config=config(4, largest=16))
    assert judged(run).refusal == ""
    assert judged(other, run.profile()).batch_distance > 0.05
    assert judged(other, run.profile()).refusal


def test_distance() -> None:
    assert distance({1: 10}, {1: 3}) == 0
    assert distance({1: 10}, {2: 3}) == 1
    assert distance({1: 1, 2: 1}, {1: 3, 2: 1}) == pytest.approx(0.25)
    assert distance({}, {1: 1}) == 1


# Outside of what was observed -------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def seen() -> Observed:
    return observe(200, 4000)


def refusal(run: Observed, rate: float = 200, *, items: int = 1, contention=None, **setting: object) -> str:
    asked = config(**({"largest": 16} | setting))  # type: ignore[arg-type]
    return predict(
        run.profile(), asked, Traffic(rate, items=items), contention=contention, requests=2000
    ).refusal


def test_inside(seen: Observed) -> None:
    assert refusal(seen) == ""
    assert refusal(seen, 310) == ""
    assert refusal(seen, 20, delay_ms=1) == ""


def test_a_rate_far_above_the_observed_one(seen: Observed) -> None:
    assert "more than 1.6 times" in refusal(seen, 340)


def test_requests_of_another_size(seen: Observed) -> None:
    assert "--items 2" in refusal(seen, items=2)


def test_another_instance_count_needs_a_contention(seen: Observed) -> None:
    assert "--contention" in refusal(seen, instances=2)
    assert refusal(seen, instances=2, contention=0.3) == ""


def test_batches_far_larger_than_any_that_ran() -> None:
    run = observe(10, 2000)
    largest = max(run.window.counters.batch_stats or {})
    assert largest <= 3
    found = refusal(run, 16, delay_ms=400, preferred=(16,))
    assert "items would form" in found
    assert "warm-up" in found


def test_one_far_batch_in_a_thousand_is_tolerated() -> None:
    run = observe(300, 20_000, timing=truth())
    few = {b: s for b, s in (run.window.counters.batch_stats or {}).items() if b <= 3}
    counters = msgspec.structs.replace(run.window.counters, batch_stats=few)
    narrow = replace(run, window=msgspec.structs.replace(run.window, counters=counters))
    assert refusal(narrow, 100) == ""
