"""What may answer at an address that is not, or no longer, a Triton: one sentence each."""

from __future__ import annotations

import socket

import pytest
from scripted_http import TRITON, Answer, as_json, listening, scripted

from tritune.errors import TrituneError
from tritune.triton import connect, endpoints, identity

SETTINGS_FRAME = bytes.fromhex("000018040000000000") + bytes(24)
METRICS = (200, "text/plain", b"# TYPE nv_inference_count counter\n")
STATS = as_json({"model_stats": [{"name": "m", "version": "1", "inference_count": 3}]})


@pytest.fixture(autouse=True)
def short_probes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(identity, "_PROBE_S", 0.2)
    monkeypatch.setattr(endpoints, "_TRY_S", 0.2)


def refusal(url: str, **options: str) -> TrituneError:
    with pytest.raises(TrituneError) as caught:
        connect(url, timeout_s=0.3, **options)
    assert "\n" not in caught.value.message
    assert url.split("://")[-1].split(":")[0] in caught.value.message
    return caught.value


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port: int = listener.getsockname()[1]
    return port


def test_nothing_listens() -> None:
    assert refusal(f"http://127.0.0.1:{free_port()}").slug == "server-unreachable"


def test_a_host_that_does_not_exist(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_such_host(*_: object, **__: object) -> None:
        raise socket.gaierror(-2, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", no_such_host)
    error = refusal("http://trition.example:8000")
    assert error.slug == "unknown-host"


def test_a_port_that_never_answers() -> None:
    with listening(None) as port:
        error = refusal(f"http://127.0.0.1:{port}")
    assert error.slug == "server-timeout"
    assert "300 ms" in error.message


def test_a_grpc_port() -> None:
    with listening(SETTINGS_FRAME) as port:
        error = refusal(f"http://127.0.0.1:{port}")
    assert error.slug == "grpc-port-given"
    assert f":{port - 1}" in error.hint


def test_a_port_that_speaks_something_else() -> None:
    with listening(b"SSH-2.0-OpenSSH_9.2\r\n") as port:
        assert refusal(f"http://127.0.0.1:{port}").slug == "not-http"


def test_plain_http_behind_https() -> None:
    with scripted({"/v2": as_json(TRITON)}) as server:
        error = refusal(server.url.replace("http:", "https:"))
    assert error.slug == "tls-failed"
    assert "http://" in error.hint


def test_a_metrics_port() -> None:
    # Triton's answers 200 and nothing to every path but its own (measured on 24.10).
    with scripted({"/v2": (200, "text/html", b""), "/metrics": METRICS}) as server:
        error = refusal(server.url)
        assert error.slug == "metrics-port-given"
        assert f":{server.server_address[1] - 2}" in error.hint


@pytest.mark.parametrize(
    ("answer", "slug", "said"),
    [
        ((200, "text/html", b"<html><title>Welcome to nginx!</title>"), "not-triton", "Welcome to nginx!"),
        ((404, "text/plain", b"404 page not found"), "not-triton", "HTTP 404"),
        ((200, "application/json", b"{"), "not-triton", "HTTP 200"),
        (as_json({"name": "mlserver", "version": "1.3", "extensions": []}), "not-triton", "mlserver"),
        ((302, "text/html", b"", {"Location": "https://login.example/"}), "redirected", "login.example"),
        ((301, "text/html", b""), "redirected", "another address"),
        ((401, "text/html", b"who are you"), "access-denied", "HTTP 401"),
        (as_json({"error": "This API is restricted"}, 403), "access-denied", "This API is restricted"),
        ((503, "text/plain", b"no healthy upstream"), "proxy-without-server", "HTTP 503"),
    ],
)
def test_another_service(answer: Answer, slug: str, said: str) -> None:
    with scripted({"/v2": answer}) as server:
        error = refusal(server.url)
    assert error.slug == slug
    assert said in error.message


def test_a_named_endpoint_that_does_not_answer_is_an_error() -> None:
    with scripted({"/v2": as_json(TRITON)}) as server:
        assert refusal(server.url, grpc=f"127.0.0.1:{free_port()}").slug == "grpc-unreachable"
        assert refusal(server.url, metrics=f"127.0.0.1:{free_port()}").slug == "metrics-unreachable"
        # The metrics page of something else does not do.
        assert refusal(server.url, metrics=f"{server.url}/v2").slug == "metrics-unreachable"


def test_without_grpc_and_metrics_it_says_what_is_lost() -> None:
    answers = {
        "/v2": as_json(TRITON),
        "/v2/models/stats": STATS,
        "/v2/repository/index": as_json([{"name": "m"}]),
    }
    with scripted(answers) as fake, connect(fake.url, timeout_s=0.3) as server:
        grpc, metrics = server.notes
        assert "nothing can be tuned" in grpc
        assert "quantiles" in metrics
        assert server.metrics() is None
        assert server.control_mode() == "fixed"
        with pytest.raises(TrituneError) as caught:
            server.load("m", None, deadline_s=1)
        assert caught.value.slug == "grpc-needed"


def test_named_metrics_are_used() -> None:
    with scripted({"/v2": as_json(TRITON), "/prometheus": METRICS}) as fake:
        server = connect(fake.url, metrics=f"{fake.url}/prometheus", timeout_s=0.3)
        assert server.metrics() is not None
        del fake.answers["/prometheus"]
        assert server.metrics() is None
        server.close()


def test_a_connection_closed_between_two_reads_is_opened_again() -> None:
    with scripted({"/v2": as_json(TRITON), "/v2/models/stats": STATS}) as fake:
        server = connect(fake.url, timeout_s=0.3)
        server.statistics()
        fake.hang_up()
        assert len(server.statistics().models) == 1
        server.close()


def test_a_server_that_went_away_is_gone_and_not_unreachable() -> None:
    with scripted({"/v2": as_json(TRITON), "/v2/models/stats": STATS}) as fake:
        server = connect(fake.url, timeout_s=0.3)
    for ask in (server.statistics, server.info, server.index, server.several_replicas):
        with pytest.raises(TrituneError) as caught:
            ask()
        assert caught.value.slug == "server-gone"
    server.close()


def test_replicas_are_asked_over_a_connection_each() -> None:
    with scripted({"/v2": as_json(TRITON), "/v2/models/stats": STATS}) as fake:
        server = connect(fake.url, timeout_s=0.3)
        before = len(fake.peers)
        assert not server.several_replicas()
        assert len(fake.peers) == before + 5
        server.close()


def test_statistics_cut_short_are_one_sentence() -> None:
    with scripted(
        {"/v2": as_json(TRITON), "/v2/models/stats": (200, "application/json", b'{"model_')}
    ) as fake:
        server = connect(fake.url, timeout_s=0.3)
        with pytest.raises(TrituneError) as caught:
            server.statistics()
        assert caught.value.slug == "bad-reply"
        server.close()
