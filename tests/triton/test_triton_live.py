"""Facts about the real server that the package rests on."""

from __future__ import annotations

import socket
from collections.abc import Callable
from pathlib import Path

import pytest

from tritune.embedded.server import RunningServer, stop
from tritune.errors import TrituneError
from tritune.model.server import ModelKey
from tritune.triton import connect
from tritune.triton.address import parse_url
from tritune.triton.grpc import Grpc
from tritune.triton.http import Http
from tritune.triton.metadata import configured_model, model_metadata
from tritune.triton.server import TritonServer
from tritune.triton.statistics import from_grpc

pytestmark = pytest.mark.live


def send(server: TritonServer, model: str, items: int) -> None:
    [shot] = server.shots(model, "", items, None)
    with socket.create_connection((server.target.host, server.target.port), timeout=10) as peer:
        peer.sendall(shot.data)
        assert peer.recv(64).startswith(b"HTTP/1.1 200")


def test_http_grpc_and_the_metrics_page_agree(triton: RunningServer) -> None:
    with connect(triton.url, grpc=triton.grpc, metrics=triton.metrics) as server:
        for items in (1, 2, 3, 1):
            send(server, "ranker", items)
        http = server.statistics()
        grpc = Grpc(parse_url(triton.url).shifted(1), timeout_s=5)
        message, t_ns = grpc.statistics()
        assert http.models == from_grpc(message, t_ns=t_ns).models
        key = ModelKey("ranker", "1")
        exact = http.models[key]
        page = server.metrics()
        assert page is not None
        seen = page.models[key]
        assert seen.inference_count == exact.inference_count > 0
        assert seen.execution_count == exact.execution_count
        for stage in ("success", "queue", "compute_input", "compute_infer", "compute_output"):
            precise, coarse = getattr(exact, stage), getattr(seen, stage)
            assert precise.count == coarse.count
            # Truncated to whole microseconds request by request (semantics 3.1).
            assert 0 <= precise.ns - coarse.ns < 1_000 * precise.count
        assert exact.batch_stats is not None
        assert sum(stat.count for stat in exact.batch_stats.values()) == exact.execution_count
        assert page.summaries is not None
        assert "0.99" in page.summaries[key]["nv_inference_request_summary_us"]
        grpc.close()


def test_http_and_grpc_describe_the_model_alike(triton: RunningServer) -> None:
    address = parse_url(triton.url)
    http, grpc = Http(address, timeout_s=5), Grpc(address.shifted(1), timeout_s=5)
    with connect(triton.url) as server:
        config = configured_model(grpc.config_json("ranker", ""), url=triton.url)
        assert config == configured_model(server.effective_config("ranker"), url=triton.url)
        over_grpc = model_metadata(grpc.metadata_json("ranker", ""), config, url=triton.url)
        assert over_grpc == server.metadata("ranker")
        assert grpc.ready()
        assert server.ready()
        there = grpc.server_metadata()
        assert (there["name"], there["version"]) == (server.info().name, triton.version)
    http.close()
    grpc.close()


@pytest.mark.parametrize(("by", "slug"), [(1, "grpc-port-given"), (2, "metrics-port-given")])
def test_the_wrong_port_of_the_right_server(triton: RunningServer, by: int, slug: str) -> None:
    right = parse_url(triton.url)
    with pytest.raises(TrituneError) as caught:
        connect(right.shifted(by).url)
    assert caught.value.slug == slug
    assert caught.value.hint == f"Use {right.url}, which answers."


def test_the_probe_of_the_control_mode_leaves_one_line_in_the_log(triton: RunningServer) -> None:
    with connect(triton.url) as server:
        before = server.index()
        known = Path(triton.log).read_text(errors="replace").count("tritune-probe-")
        assert server.control_mode() == "explicit"
        assert server.control_mode() == "explicit"
        assert server.index() == before
    # Only what this test asked for: other tests share the server.
    lines = Path(triton.log).read_text(errors="replace").splitlines()
    assert sum("tritune-probe-" in line for line in lines) - known == 1


def test_a_server_that_dies(start_triton: Callable[..., RunningServer]) -> None:
    running = start_triton("healthy")
    with connect(running.url) as server:
        assert server.control_mode() == "explicit"
        stop(running)
        for ask in (
            server.statistics,
            lambda: server.metadata("ranker"),
            lambda: server.load("ranker", None, deadline_s=5),
            lambda: server.wait_ready("ranker", "1", deadline_s=5),
        ):
            with pytest.raises(TrituneError) as caught:
                ask()
            assert caught.value.slug == "server-gone"
        assert server.metrics() is None
