"""Requests go out at their planned instants, whatever the server does."""

import gc
import os
import sys

import numpy as np
import pytest

from tritune.errors import TrituneError
from tritune.load.attempts import GONE
from tritune.model.requests import Kind
from tritune.units import NS_PER_MS, NS_PER_S
from tritune.verbs.ports import LoadEngine

SECOND = NS_PER_S


def constant(rate, seconds):
    return (np.arange(round(rate * seconds)) * (SECOND / rate)).astype(np.int64)


def test_requests_are_sent_at_their_planned_instants(engine, responder):
    port: LoadEngine = engine
    planned = constant(500, 1.0)
    outcome = port.open_loop(
        responder.target, planned, [responder.shot("delay/2")], timeout_ns=5 * SECOND, max_in_flight=1000
    )
    log = outcome.log
    assert outcome.cut == ""
    assert (log.planned_ns == planned).all()
    assert (log.kind == Kind.OK).all()
    lateness = log.sent_ns - planned
    assert (lateness >= 0).all()
    # Generous for a busy machine: a pacer with a grain of a millisecond or a relative sleep still fails it.
    assert np.percentile(lateness, 25) < 0.5 * NS_PER_MS
    assert np.median(lateness) < 5 * NS_PER_MS
    assert outcome.sender.lateness_p50_ns == np.median(lateness)
    assert outcome.sender.lateness_max_ns == lateness.max()
    assert 0 < outcome.sender.cpu_share < 1.5
    assert 0.99 < outcome.seconds < 5


def test_a_freeze_of_the_server_shows_in_the_percentiles(engine, responder):
    # Request 60 freezes the whole server for a second. A client that waits for its answers would show one
    # slow request in 400; planned arrivals show all that came meanwhile: half of them, 0 to 1 s late.
    shots = [responder.shot("freeze/1000" if i == 60 else "delay/0") for i in range(400)]
    outcome = engine.open_loop(
        responder.target, constant(200, 2.0), shots, timeout_ns=10 * SECOND, max_in_flight=1000
    )
    latency_s = outcome.log.latency_ns() / SECOND
    assert np.isfinite(latency_s).all()
    assert 0.9 < np.percentile(latency_s, 99) < 1.5
    assert 0.35 < np.mean(latency_s > 0.1) < 0.65
    # Nobody waited for a connection: as many were opened as requests were in flight.
    assert outcome.sender.new_connections > 150
    assert outcome.log.new_connection.sum() > 150
    sent_late = (outcome.log.sent_ns - outcome.log.planned_ns)[outcome.log.sent_ns >= 0]
    assert np.median(sent_late) < 0.1 * SECOND


def test_too_many_requests_in_flight_end_the_run(engine, responder):
    outcome = engine.open_loop(
        responder.target,
        constant(400, 10),
        [responder.shot("never")],
        timeout_ns=600 * NS_PER_MS,
        max_in_flight=30,
    )
    assert outcome.cut == "more than 30 requests in flight"
    assert outcome.log.kind.tolist() == [Kind.TIMEOUT] * 30
    assert (outcome.log.done_ns >= outcome.log.planned_ns).all()
    assert outcome.seconds < 5


def test_a_stop_rule_ends_the_run_and_what_was_due_stays_in_the_log(engine, responder):
    ticks = []

    def stop(tick):
        ticks.append(tick)
        return "p99 is above the limit" if len(ticks) == 2 else None

    planned = constant(100, 30)
    outcome = engine.open_loop(
        responder.target,
        planned,
        [responder.shot("delay/3"), responder.shot("status/500")],
        timeout_ns=5 * SECOND,
        max_in_flight=1000,
        stop=stop,
    )
    assert outcome.cut == "p99 is above the limit"
    assert 50 < len(outcome.log) < 1000
    assert outcome.log.request.tolist() == list(range(len(outcome.log)))
    assert set(outcome.log.kind.tolist()) == {Kind.OK, Kind.SERVER_ERROR}
    first, second = ticks
    assert first.elapsed_ns < second.elapsed_ns
    assert first.done == first.sent - first.in_flight
    assert second.planned >= second.sent > first.sent
    assert abs(second.errors - second.done / 2) <= 1
    assert 3 * NS_PER_MS <= second.recent_p50_ns <= second.recent_p99_ns < SECOND


def test_what_a_tick_raises_reaches_the_caller(engine, responder):
    def on_tick(tick):
        raise TrituneError("the screen is gone", slug="test-only")

    with pytest.raises(TrituneError, match="the screen is gone"):
        engine.open_loop(
            responder.target,
            constant(100, 30),
            [responder.shot("delay/0")],
            timeout_ns=SECOND,
            max_in_flight=100,
            on_tick=on_tick,
        )


def test_a_server_that_goes_away_ends_the_run_and_the_log_is_kept(engine, own_responder):
    shots = [own_responder.shot("exit" if i == 100 else "delay/1") for i in range(5000)]
    outcome = engine.open_loop(
        own_responder.target, constant(500, 10), shots, timeout_ns=30 * SECOND, max_in_flight=1000
    )
    assert outcome.cut == GONE
    assert outcome.log.errors_by_kind().keys() == {"connection"}
    assert (outcome.log.kind == Kind.OK).sum() > 80
    assert 20 <= outcome.log.errors_by_kind()["connection"] < 1000
    refused = outcome.log.sent_ns == -1
    assert refused.sum() >= 15
    assert (outcome.log.done_ns[refused] >= outcome.log.planned_ns[refused]).all()


def test_connections_that_are_refused_in_the_same_instant_all_fail_at_once(engine, own_responder):
    planned = np.array([0] + [SECOND // 4] * 15 + [SECOND // 2] * 15)
    shots = [own_responder.shot("exit")]
    outcome = engine.open_loop(
        own_responder.target, planned, shots, timeout_ns=20 * SECOND, max_in_flight=1000
    )
    assert outcome.log.errors_by_kind() == {"connection": 31}


def test_one_mass_reset_is_not_the_end_of_a_server(engine, responder):
    shots = [responder.shot("reset-everyone" if i == 100 else "delay/60") for i in range(400)]
    outcome = engine.closed_loop(responder.target, 50, shots, timeout_ns=5 * SECOND, count=250)
    assert outcome.cut == ""
    assert len(outcome.log) == 250
    assert 25 <= outcome.log.errors_by_kind()["connection"] <= 60


def test_an_empty_plan_sends_nothing(engine, responder):
    outcome = engine.open_loop(
        responder.target,
        np.empty(0, np.int64),
        [responder.shot("delay/0")],
        timeout_ns=SECOND,
        max_in_flight=1,
    )
    assert len(outcome.log) == 0
    assert outcome.cut == ""


def test_the_interpreter_is_left_as_it_was(engine, responder):
    switch, policy = sys.getswitchinterval(), os.sched_getscheduler(0)
    engine.open_loop(
        responder.target,
        constant(1000, 0.05),
        [responder.shot("delay/0")],
        timeout_ns=SECOND,
        max_in_flight=100,
    )
    assert gc.isenabled()
    assert gc.get_freeze_count() == 0
    assert sys.getswitchinterval() == switch
    assert os.sched_getscheduler(0) == policy


def test_without_the_right_to_a_higher_priority_it_sends_all_the_same(engine, responder, monkeypatch):
    def refuse(*_):
        raise PermissionError

    monkeypatch.setattr(os, "sched_setscheduler", refuse)
    outcome = engine.open_loop(
        responder.target,
        constant(500, 0.05),
        [responder.shot("delay/0")],
        timeout_ns=5 * SECOND,
        max_in_flight=100,
    )
    assert outcome.log.kind.tolist() == [Kind.OK] * 25
