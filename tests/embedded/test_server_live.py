"""The embedded server on the real Triton: what it says, where it listens, and that it goes when it must."""

from __future__ import annotations

import json
import urllib.request

import psutil
import pytest

from tritune.embedded.server import RunningServer

pytestmark = pytest.mark.live


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=5) as reply:
        body: bytes = reply.read()
    return body


def test_it_answers_and_infers(triton: RunningServer) -> None:
    assert json.loads(get(f"{triton.url}/v2"))["version"] == triton.version == "2.51.0"
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 4], "data": list(range(8))}]}
    request = urllib.request.Request(f"{triton.url}/v2/models/ranker/infer", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=10) as reply:
        [output] = json.loads(reply.read())["outputs"]
    assert output["shape"] == [2, 4]
    assert output["data"] == [float(i + 1) for i in range(8)]


def test_everything_listens_on_loopback_only(triton: RunningServer) -> None:
    listening = [c.laddr for c in psutil.Process(triton.pid).net_connections("inet") if c.status == "LISTEN"]
    # gRPC listens through a socket of the other family, on the same address.
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
    port = int(triton.url.rsplit(":", 1)[1])
    assert {address.port for address in listening} == {port, port + 1, port + 2}


def test_metrics_have_summaries(triton: RunningServer) -> None:
    get(f"{triton.url}/v2/health/ready")
    assert b"nv_inference_request_summary_us" in get(triton.metrics)
