"""Traffic of predictions: what a run showed is what is played, at any rate, open or closed."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from observed_run import log_of, observe, truth
from twin_play import config

from tritune.arrivals.processes import plan
from tritune.errors import UsageError
from tritune.model.client import ClientPolicy
from tritune.model.profile import ArrivalFit
from tritune.model.workload import Bursts
from tritune.stats.quantiles import quantile
from tritune.twin.ask.traffic import Traffic, requests_of, traffic_of
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import ClosedLoop, Requests, simulate
from tritune.twin.fit.calibrate import arrival_fit

BURSTS = Bursts(8, 200_000_000, 0.2)


def test_a_process_that_fits_is_played_as_such() -> None:
    run = observe(count=2_000)
    assert traffic_of(arrival_fit(run.log.planned_ns), run.log) == Traffic(
        arrival_fit(run.log.planned_ns).rate_per_s
    )
    fit = ArrivalFit(100, 3.0, "on-off", BURSTS)
    assert traffic_of(fit, run.log) == Traffic(100, "on-off", bursts=BURSTS)


def test_bursty_arrivals_of_a_run_are_played_again_and_keep_the_tail() -> None:
    served, timing = setting_of(config(largest=16)), truth()
    source = plan(300, "on-off", 3, count=40_000, bursts=BURSTS)
    play = simulate(served, Requests(source), timing)
    log = log_of(source, source, play)
    fit = arrival_fit(source)
    assert fit.process is None
    traffic = traffic_of(fit, log)
    assert (traffic.process, traffic.request_items) == ("recorded", (1,))

    def p99(what: Traffic) -> float:
        return quantile(simulate(served, requests_of(what, 5, 200_000), timing).latency_ns(), 0.99)

    really = quantile(play.latency_ns(), 0.99)
    assert p99(traffic) == pytest.approx(really, rel=0.1)
    # Poisson arrivals of the same rate would not do.
    assert p99(Traffic(fit.rate_per_s)) < 0.75 * really


def test_requests_of_several_sizes_come_with_the_gaps_they_had() -> None:
    run = observe(count=2_000)
    sizes = np.where(np.arange(2_000) // 100 % 2, 4, 1)
    traffic = traffic_of(arrival_fit(run.log.planned_ns), replace(run.log, items=sizes))
    assert (traffic.process, traffic.request_items) == ("recorded", (1, 4))
    assert traffic.mean_items == pytest.approx(2.5, abs=0.01)
    load = requests_of(traffic, 1, 500)
    assert isinstance(load, Requests)
    gaps = np.diff(np.asarray(load.planned_ns), prepend=0)
    known = dict(zip(np.diff(run.log.planned_ns).tolist(), sizes[1:].tolist(), strict=True))
    assert [known[gap] for gap in gaps.tolist()] == np.asarray(load.items).tolist()
    alike = traffic_of(arrival_fit(run.log.planned_ns), replace(run.log, items=sizes), items=2)
    assert (alike.process, alike.items, alike.mean_items) == ("poisson", 2, 2.0)


def test_a_closed_loop_keeps_so_many_in_flight() -> None:
    load = requests_of(Traffic(0.0, concurrency=7, items=2), 1, 300)
    assert load == ClosedLoop(7, 300, items=2)
    play = simulate(setting_of(config(largest=16)), load, truth())
    flying = [(play.planned_ns <= t).sum() - (play.done_ns <= t).sum() for t in play.planned_ns[7:-7]]
    assert max(flying) == 7


def test_clients_of_a_closed_loop_may_give_up_and_retry() -> None:
    client = ClientPolicy(timeout_ns=1_000_000, retries=1)
    load = requests_of(Traffic(0.0, concurrency=4, client=client), 1, 200)
    play = simulate(setting_of(config(largest=16)), load, truth())
    assert np.isinf(play.latency_ns()).all()
    assert (play.attempts_per_request() == 2).all()


def test_what_contradicts_itself_is_refused() -> None:
    with pytest.raises(UsageError) as caught:
        requests_of(Traffic(10.0, "recorded"), 1, 10)
    assert caught.value.slug == "bad-arrivals"
