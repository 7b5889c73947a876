"""The gRPC side against a scripted servicer in this process."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from scripted_http import TRITON, as_json, scripted
from tritonclient.grpc import service_pb2, service_pb2_grpc

from tritune.errors import TrituneError
from tritune.model.server import ModelKey, Tally
from tritune.triton import connect
from tritune.triton.address import Address
from tritune.triton.control import control_mode
from tritune.triton.grpc import Grpc
from tritune.triton.probe import speaks_http2

NOT_ALLOWED = "explicit model load / unload is not allowed if polling is enabled"


class Servicer(service_pb2_grpc.GRPCInferenceServiceServicer):  # type: ignore[misc]
    def __init__(self) -> None:
        self.loaded: list[Any] = []
        self.refusal: tuple[grpc.StatusCode, str] | None = None
        self.name = "triton"

    def ServerMetadata(self, request: Any, context: Any) -> Any:  # noqa: N802
        return service_pb2.ServerMetadataResponse(name=self.name, version="2.51.0", extensions=["statistics"])

    def RepositoryIndex(self, request: Any, context: Any) -> Any:  # noqa: N802
        answer = service_pb2.RepositoryIndexResponse()
        answer.models.add(name="m", version="1", state="READY")
        return answer

    def ModelStatistics(self, request: Any, context: Any) -> Any:  # noqa: N802
        assert request.name == ""
        answer = service_pb2.ModelStatisticsResponse()
        model = answer.model_stats.add(name="m", version="1", inference_count=4)
        model.inference_stats.queue.count = 2
        model.inference_stats.queue.ns = 12_345
        return answer

    def RepositoryModelLoad(self, request: Any, context: Any) -> Any:  # noqa: N802
        self.loaded.append(request)
        if self.refusal:
            context.abort(*self.refusal)
        return service_pb2.RepositoryModelLoadResponse()


@pytest.fixture
def servicer() -> Servicer:
    return Servicer()


@pytest.fixture
def port(servicer: Servicer) -> Iterator[int]:
    server = grpc.server(ThreadPoolExecutor(2))
    service_pb2_grpc.add_GRPCInferenceServiceServicer_to_server(servicer, server)
    number = server.add_insecure_port("127.0.0.1:0")
    server.start()
    yield number
    server.stop(None).wait()


@pytest.fixture
def client(port: int) -> Iterator[Grpc]:
    client = Grpc(Address("127.0.0.1", port), timeout_s=5)
    yield client
    client.close()


def test_the_port_is_recognised_without_importing_grpc(port: int) -> None:
    assert speaks_http2(Address("127.0.0.1", port), timeout_s=2)


def test_a_load_carries_the_configuration(client: Grpc, servicer: Servicer) -> None:
    client.load("m", '{"name":"m"}', deadline_s=5)
    client.load("m", None, deadline_s=5)
    with_config, plain = servicer.loaded
    assert with_config.model_name == "m"
    assert with_config.parameters["config"].string_param == '{"name":"m"}'
    assert not plain.parameters


@pytest.mark.parametrize(
    ("refusal", "mode"),
    [
        ((grpc.StatusCode.INTERNAL, "failed to load 'x', failed to poll from model repository"), "explicit"),
        ((grpc.StatusCode.UNAVAILABLE, NOT_ALLOWED), "fixed"),
        ((grpc.StatusCode.UNAVAILABLE, "This protocol is restricted, expecting header 'key'"), "fixed"),
        ((grpc.StatusCode.PERMISSION_DENIED, "RBAC: access denied"), "fixed"),
        ((grpc.StatusCode.UNIMPLEMENTED, ""), "fixed"),
    ],
)
def test_the_control_mode_is_told_from_the_refusal(
    client: Grpc, servicer: Servicer, refusal: tuple[grpc.StatusCode, str], mode: str
) -> None:
    servicer.refusal = refusal
    assert control_mode(client) == mode
    [probe] = servicer.loaded
    assert probe.model_name.startswith("tritune-probe-")
    assert not probe.parameters


def test_no_grpc_at_all() -> None:
    client = Grpc(Address("127.0.0.1", 9), timeout_s=2)
    with pytest.raises(TrituneError) as caught:
        control_mode(client)
    assert caught.value.slug == "grpc-unreachable"
    client.close()


def test_statistics_over_grpc_where_http_is_denied(port: int) -> None:
    answers = {"/v2": as_json(TRITON), "/v2/models/stats": as_json({"error": "This API is restricted"}, 403)}
    with scripted(answers) as http, connect(http.url, grpc=f"127.0.0.1:{port}", timeout_s=2) as server:
        found = server.statistics()
    assert found.source == "statistics"
    assert found.models[ModelKey("m", "1")].queue == Tally(2, 12_345)


def test_a_load_never_goes_to_another_server_than_the_one_that_is_read(port: int, servicer: Servicer) -> None:
    answers = {"/v2": as_json(TRITON), "/v2/repository/index": as_json([{"name": "m", "version": "1"}])}
    with scripted(answers) as http, connect(http.url, grpc=f"127.0.0.1:{port}", timeout_s=2) as server:
        servicer.name = "stranger"
        for change in (lambda: server.load("m", None, deadline_s=5), server.control_mode):
            with pytest.raises(TrituneError) as caught:
                change()
            assert caught.value.slug == "grpc-other-server"
        assert servicer.loaded == []
        servicer.name = "triton"
        server.load("m", None, deadline_s=5)
    assert len(servicer.loaded) == 1
