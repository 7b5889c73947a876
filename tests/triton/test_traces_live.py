"""Request traces of the real server: switched on, read, and everything as it was before."""

from __future__ import annotations

import json
import math
import time
import urllib.request
from pathlib import Path

import pytest

from tritune.embedded.server import RunningServer
from tritune.errors import TrituneError
from tritune.triton.address import parse_url
from tritune.triton.grpc import Grpc
from tritune.triton.traces import TraceFile, Tracing

pytestmark = pytest.mark.live


def infer(server: RunningServer, name: str) -> None:
    with urllib.request.urlopen(f"{server.url}/v2/models/ranker") as answer:
        shape = [1, *json.load(answer)["inputs"][0]["shape"][1:]]
    x = {"name": "x", "datatype": "FP32", "shape": shape, "data": [0.0] * math.prod(shape)}
    body = {"id": name, "inputs": [x]}
    request = urllib.request.Request(f"{server.url}/v2/models/ranker/infer", json.dumps(body).encode())
    with urllib.request.urlopen(request) as answer:
        assert answer.status == 200


def test_traces_are_whole_and_the_settings_come_back(triton: RunningServer) -> None:
    grpc = Grpc(parse_url(triton.url).shifted(1), timeout_s=5)
    tracing = Tracing(grpc, triton.url, "ranker")
    own, server = grpc.trace_setting("ranker"), grpc.trace_setting("")
    file = TraceFile(tracing.file())
    before = tracing.start()
    try:
        begin = time.monotonic_ns()
        for name in ("one", 'two "quoted"', ""):
            infer(triton, name)
        end = time.monotonic_ns()
        time.sleep(0.1)
        tracing.flush()
        traces = file.new()
    finally:
        tracing.restore(before)
    assert [trace.request_id for trace in traces] == ["one", 'two "quoted"', ""]
    for trace in traces:
        assert (trace.model, trace.version, trace.parent) == ("ranker", "1", 0)
        order = ("REQUEST_START", "QUEUE_START", "COMPUTE_START", "COMPUTE_OUTPUT_START", "COMPUTE_END")
        instants = [trace.at_ns[name] for name in order]
        assert [begin, *instants] == sorted([begin, *instants])  # the same clock as ours
        assert instants[3] < end
    assert (grpc.trace_setting("ranker"), grpc.trace_setting("")) == (own, server)
    infer(triton, "untraced")
    time.sleep(0.1)
    tracing.restore(before)
    assert file.new() == ()
    assert Path(triton.trace_file) == file.path
    grpc.close()


def test_an_unknown_model_is_refused_in_a_sentence(triton: RunningServer) -> None:
    grpc = Grpc(parse_url(triton.url).shifted(1), timeout_s=5)
    with pytest.raises(TrituneError) as caught:
        Tracing(grpc, triton.url, "nobody").start()
    assert caught.value.slug == "trace-refused"
    assert "'nobody'" in str(caught.value)
    grpc.close()
