"""A run that cannot begin is one sentence."""

import socket

import pytest

from tritune.errors import TrituneError
from tritune.model.load import Target
from tritune.units import NS_PER_S


def slug_of(engine, responder, target):
    with pytest.raises(TrituneError) as error:
        engine.closed_loop(target, 1, [responder.shot("delay/0")], timeout_ns=NS_PER_S, count=1)
    assert error.value.message.count("\n") == 0
    assert error.value.hint
    return error.value.slug


def test_nothing_listens(engine, responder):
    with socket.socket() as held:  # bound but not listening: the port stays free of anyone else
        held.bind(("127.0.0.1", 0))
        assert slug_of(engine, responder, Target("127.0.0.1", held.getsockname()[1])) == "cannot-connect"


def test_a_name_that_cannot_be_a_host(engine, responder):
    assert slug_of(engine, responder, Target("a..b", 8000)) == "unknown-host"


def test_tls_to_a_server_that_speaks_plain_http(engine, responder):
    target = Target("127.0.0.1", responder.port, tls=True)
    assert slug_of(engine, responder, target) == "tls-failed"


def test_a_certificate_that_this_machine_does_not_know(engine, tls_responder):
    target = Target("localhost", tls_responder.port, tls=True)
    assert slug_of(engine, tls_responder, target) == "tls-failed"


def test_a_certificate_that_it_knows(engine, tls_responder, certificate, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", certificate)
    target = Target("localhost", tls_responder.port, tls=True)
    outcome = engine.closed_loop(
        target, 3, [tls_responder.shot("delay/1")], timeout_ns=5 * NS_PER_S, count=30
    )
    assert outcome.log.status.tolist() == [200] * 30
    assert outcome.log.errors_by_kind() == {}
