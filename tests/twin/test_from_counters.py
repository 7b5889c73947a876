"""A profile from counters of somebody else's traffic, and what it must say that it does not know."""

from __future__ import annotations

import math

import msgspec
import numpy as np
import pytest
from observed_run import SERVER_NS, true_service, truth
from observed_windows import watched
from twin_play import MS, config

from tritune.arrivals.processes import plan
from tritune.errors import ExitCode, TrituneError
from tritune.model.measurement import Estimate
from tritune.model.server import BatchStat, ServerWindow, Tally
from tritune.model.workload import Bursts
from tritune.stats.quantiles import quantile
from tritune.twin.ask.from_counters import from_counters, variants, widened
from tritune.twin.ask.predict import Prediction, predict
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import Requests, simulate

SERVED = config(5, largest=16)
BURSTS = Bursts(6, 300 * MS, 0.2)


def test_poisson_traffic_of_requests_of_two_items() -> None:
    windows = watched(300, 40, items=2)
    found = from_counters(SERVED, windows, triton_version="2.51.0", source="a test")
    profile = found.profile
    for size, time in profile.service_ns.items():
        if time.executions >= 50:
            assert time.ns == pytest.approx(true_service(size), rel=0.03)
            assert time.low_ns < time.ns < time.high_ns
    assert (profile.cv.source, profile.client_overhead_ns) == ("measured", None)
    assert profile.cv.value == pytest.approx(0.03, rel=0.5)
    assert profile.server_overhead_ns.value == pytest.approx(SERVER_NS, rel=0.01)
    assert profile.observed.request_items == (2,)
    assert profile.arrival.process == "poisson"
    assert (found.traffic.items, found.traffic.process) == (2, "poisson")
    assert found.validity.refusal == ""
    assert abs(found.validity.queue_error) < 0.1
    assert found.validity.p99_error is None
    assert "no p99 was there to check against" in profile.notes[0]


def test_the_tail_of_bursty_traffic_is_predicted_and_its_interval_is_wider() -> None:
    windows = watched(300, 90, bursts=BURSTS)
    found = from_counters(SERVED, windows)
    assert found.validity.refusal == ""
    asked = config(0, largest=16)
    alone = predict(found.profile, asked, found.traffic)
    others = [
        predict(profile, asked, msgspec.structs.replace(found.traffic, bursts=bursts), replications=1)
        for profile, bursts in variants(found)
    ]
    wide = widened(alone, others)
    planned = plan(300, "on-off", 77, count=200_000, bursts=BURSTS)
    play = simulate(setting_of(asked), Requests(planned), truth(), seed=3)
    # The server's part: without the client's way to and fro.
    really = quantile((play.server_done_ns - play.arrived_ns + SERVER_NS).astype(float), 0.99)
    p99 = wide.latency["p99"]
    assert p99.value == alone.latency["p99"].value == pytest.approx(really, rel=0.15)
    assert p99.low < alone.latency["p99"].low < alone.latency["p99"].high < p99.high
    assert p99.low < really < p99.high


def test_widening_adds_independent_errors() -> None:
    one = Prediction("x", 1.0, 1, latency={"p99": Estimate(100.0, 80.0, 125.0)})
    logs = np.array([-0.1, 0.1])
    others = [Prediction("x", 1.0, 1, latency={"p99": Estimate(100 * math.exp(v))}) for v in logs]
    half = math.hypot(math.log(1.25), 1.96 * logs.std(ddof=1))
    found = widened(one, others).latency["p99"]
    assert found.high == pytest.approx(100 * math.exp(half), rel=1e-3)
    assert found.low == pytest.approx(100 * math.exp(-half), rel=1e-3)
    assert widened(one, others[:1]) == one


def slower(window: ServerWindow) -> ServerWindow:
    """As if requests waited three times as long, with the same batches, which no arrivals explain."""
    queue = Tally(window.counters.queue.count, 3 * window.counters.queue.ns)
    return msgspec.structs.replace(window, counters=msgspec.structs.replace(window.counters, queue=queue))


def test_a_queue_that_no_arrivals_explain_is_refused() -> None:
    windows = tuple(slower(window) for window in watched(300, 30))
    found = from_counters(SERVED, windows)
    assert "no arrivals that the twin can play explain" in found.validity.refusal


def no_counts(window: ServerWindow) -> ServerWindow:
    counters = msgspec.structs.replace(window.counters, success=Tally(), batch_stats={1: BatchStat()})
    return msgspec.structs.replace(window, counters=counters)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda w: w[:10], "10 reads a second apart are too few"),
        (lambda w: (msgspec.structs.replace(w[0], reset=True), *w[1:]), "were reset"),
        (lambda w: (msgspec.structs.replace(w[0], replicas=2), *w[1:]), "several replicas"),
        (lambda w: tuple(no_counts(one) for one in w), "no request was answered"),
    ],
)
def test_what_cannot_be_used_is_refused_in_a_sentence(change, said) -> None:
    with pytest.raises(TrituneError, match=said) as caught:
        from_counters(SERVED, change(watched(50, 25)))
    assert (caught.value.slug, caught.value.exit_code) == ("twin-bad-run", ExitCode.NOT_TRUSTWORTHY)


def test_requests_of_several_sizes_are_refused() -> None:
    mixed = [
        one if k % 2 else two
        for k, (one, two) in enumerate(zip(watched(50, 25), watched(50, 25, items=2), strict=True))
    ]
    with pytest.raises(TrituneError, match="differ in size"):
        from_counters(SERVED, mixed)
