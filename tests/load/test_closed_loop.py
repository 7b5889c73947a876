"""A fixed number of requests in flight."""

import numpy as np
import pytest

from tritune.model.requests import Kind
from tritune.units import NS_PER_MS, NS_PER_S


@pytest.mark.parametrize(("concurrency", "count"), [(1, 7), (5, 60), (20, 20), (30, 3)])
def test_exactly_count_requests_and_never_more_than_concurrency_in_flight(
    engine, responder, concurrency, count
):
    outcome = engine.closed_loop(
        responder.target, concurrency, [responder.shot("delay/4")], timeout_ns=5 * NS_PER_S, count=count
    )
    log = outcome.log
    assert (log.kind == Kind.OK).all()
    assert len(log) == count
    starts = np.searchsorted(np.sort(log.planned_ns), log.planned_ns, side="right")
    ends = np.searchsorted(np.sort(log.done_ns), log.planned_ns, side="right")
    assert (starts - ends).max() == min(concurrency, count)
    assert outcome.sender.new_connections == 0


def test_the_next_request_is_planned_when_the_answer_is_there(engine, responder):
    log = engine.closed_loop(
        responder.target, 1, [responder.shot("delay/2")], timeout_ns=5 * NS_PER_S, count=20
    ).log
    assert (log.planned_ns[1:] == log.done_ns[:-1]).all()


def test_a_closed_loop_ends_after_its_duration(engine, responder):
    outcome = engine.closed_loop(
        responder.target,
        4,
        [responder.shot("delay/5")],
        timeout_ns=5 * NS_PER_S,
        duration_ns=300 * NS_PER_MS,
    )
    assert outcome.cut == ""
    assert (outcome.log.planned_ns < 310 * NS_PER_MS).all()
    assert 0.29 < outcome.seconds < 3
    assert (outcome.log.kind == Kind.OK).all()
    assert len(outcome.log) > 20


def test_the_record_grows_with_a_loop_that_only_time_ends(engine, responder, monkeypatch):
    monkeypatch.setattr("tritune.load.engine._FIRST_ROWS", 8)
    log = engine.closed_loop(
        responder.target,
        3,
        [responder.shot("delay/0")],
        timeout_ns=5 * NS_PER_S,
        duration_ns=500 * NS_PER_MS,
    ).log
    assert len(log) > 40
    assert (np.diff(log.planned_ns) >= 0).all()
    assert (log.done_ns > log.planned_ns).all()


@pytest.mark.parametrize("end", [{}, {"count": 0}])
def test_a_closed_loop_without_an_end_is_a_mistake_of_the_caller(engine, responder, end):
    with pytest.raises(ValueError, match="closed loop needs"):
        engine.closed_loop(responder.target, 1, [responder.shot("delay/0")], timeout_ns=1, **end)
