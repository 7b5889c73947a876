"""How the end of a request is told: one kind each, and errors never as a latency."""

import numpy as np
import pytest

from tritune.load.attempts import kind_of
from tritune.model.requests import Kind
from tritune.units import NS_PER_MS, NS_PER_S

SECOND = NS_PER_S


@pytest.mark.parametrize(
    ("path", "kind", "status"),
    [
        ("delay/0", Kind.OK, 200),
        ("delay/5", Kind.OK, 200),
        ("status/204", Kind.OK, 204),
        ("chunked", Kind.OK, 200),
        ("until-close", Kind.OK, 200),
        ("announced", Kind.OK, 200),
        ("connection-close", Kind.OK, 200),
        ("status/302", Kind.REDIRECT, 302),
        ("status/401", Kind.AUTH, 401),
        ("status/403", Kind.AUTH, 403),
        ("status/400", Kind.CLIENT_ERROR, 400),
        ("status/404", Kind.CLIENT_ERROR, 404),
        ("status/500", Kind.SERVER_ERROR, 500),
        ("status/503", Kind.SERVER_ERROR, 503),
        ("cut-in-the-head", Kind.CONNECTION, 0),
        ("cut-in-the-body", Kind.CONNECTION, 0),
        ("hang-up", Kind.CONNECTION, 0),
        ("garbage", Kind.BAD_REPLY, 0),
        ("surplus", Kind.BAD_REPLY, 0),
        ("twice", Kind.BAD_REPLY, 0),
    ],
)
def test_each_end_of_a_request_has_its_kind(engine, responder, path, kind, status):
    outcome = engine.closed_loop(responder.target, 2, [responder.shot(path)], timeout_ns=5 * SECOND, count=6)
    log = outcome.log
    assert outcome.cut == ""
    assert log.kind.tolist() == [kind] * 6
    assert log.status.tolist() == [status] * 6
    assert log.request.tolist() == list(range(6))
    assert (log.planned_ns <= log.sent_ns).all()
    assert (log.sent_ns <= log.done_ns).all()
    answered = log.first_byte_ns >= 0
    assert answered.all() == (path != "hang-up")
    assert (log.first_byte_ns[answered] <= log.done_ns[answered]).all()
    assert np.isfinite(log.latency_ns()).all() == (kind == Kind.OK)


def test_a_request_without_an_answer_is_a_timeout_and_its_connection_is_not_used_again(engine, responder):
    shots = [responder.shot("never"), responder.shot("delay/0")]
    outcome = engine.closed_loop(responder.target, 1, shots, timeout_ns=400 * NS_PER_MS, count=4)
    log = outcome.log
    assert log.kind.tolist() == [Kind.TIMEOUT, Kind.OK, Kind.TIMEOUT, Kind.OK]
    waited = (log.done_ns - log.planned_ns)[log.kind == Kind.TIMEOUT]
    assert (waited >= 400 * NS_PER_MS).all()
    assert (waited < 4 * SECOND).all()
    assert log.new_connection.tolist() == [0, 1, 0, 1]
    assert outcome.sender.new_connections == 2


def test_a_connection_that_the_server_closes_between_requests_is_no_error(engine, responder):
    # Far enough apart that a busy machine has closed the last connection before the next request.
    planned = np.arange(12, dtype=np.int64) * 100 * NS_PER_MS
    outcome = engine.open_loop(
        responder.target,
        planned,
        [responder.shot("close-when-idle")],
        timeout_ns=5 * SECOND,
        max_in_flight=100,
    )
    assert outcome.log.kind.tolist() == [Kind.OK] * 12
    assert outcome.sender.new_connections >= 4  # the first eight were there from the start


def test_shots_are_taken_round_robin_and_described_in_the_log(engine, responder):
    shots = [responder.shot("delay/0", items=1, shape=0), responder.shot("status/404", items=8, shape=3)]
    log = engine.closed_loop(responder.target, 1, shots, timeout_ns=5 * SECOND, count=5).log
    assert log.status.tolist() == [200, 404, 200, 404, 200]
    assert log.items.tolist() == [1, 8, 1, 8, 1]
    assert log.shape.tolist() == [0, 3, 0, 3, 0]


def test_every_status_has_a_kind():
    kinds = {status: kind_of(status) for status in range(200, 600)}
    assert {s for s, k in kinds.items() if k == Kind.AUTH} == {401, 403}
    assert {s for s, k in kinds.items() if k == Kind.REDIRECT} == set(range(300, 400))
    assert {s for s, k in kinds.items() if k == Kind.CLIENT_ERROR} == set(range(400, 500)) - {401, 403}
    assert {s for s, k in kinds.items() if k == Kind.SERVER_ERROR} == set(range(500, 600))
