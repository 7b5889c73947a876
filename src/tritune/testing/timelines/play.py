"""Send a timeline to a real Triton at its instants, and learn from the traces what was executed together."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any, Self

import msgspec

from tritune.embedded.server import RunningServer
from tritune.errors import TrituneError
from tritune.model.config import ServingConfig
from tritune.model.timeline import NEVER, ExecutedTimeline, PlannedRequest, Timeline
from tritune.testing.timelines.repository import MODEL, config_json
from tritune.testing.timelines.sender import send_all
from tritune.testing.timelines.undisturbed import undisturb
from tritune.triton import connect
from tritune.triton.address import Address, parse_url
from tritune.triton.grpc import Grpc
from tritune.triton.payload import http_request
from tritune.triton.traces import RequestTrace, TraceFile, Tracing
from tritune.units import NS_PER_MS, NS_PER_US

_INSTANTS = ("QUEUE_START", "COMPUTE_START", "COMPUTE_END", "REQUEST_END")
_LOAD_DEADLINE_S = 30.0
_ANSWER_S = 10.0
# The answer is sent before the trace is closed.
_TRACE_DEADLINE_S = 3.0
_TRACE_POLL_S = 0.02
# After a full reload the instances of the old version take about a second to go (semantics 4.3).
_SETTLE_S = 1.2
# A change in place, such as one more instance, takes 0.1 s and leaves nothing behind.
_IN_PLACE_S = 0.5


class Player:
    """Plays timelines on a server of our own that serves the model MODEL and nothing else.

    `undisturbed`: whether the server has real-time priority since the last `configure` (see `undisturb`).
    """

    def __init__(self, running: RunningServer) -> None:
        self._pid = running.pid
        self.undisturbed = False
        self._address = parse_url(running.url)
        self._server = connect(running.url, grpc=running.grpc, metrics=running.metrics)
        self._grpc = Grpc(parse_url(f"http://{running.grpc}"), timeout_s=5)
        self._tracing = Tracing(self._grpc, running.url, MODEL)
        self._before = self._tracing.start()
        self._file = TraceFile(self._tracing.file())
        self._played = 0
        self._loads = 0

    def configure(self, config: ServingConfig, *, fresh: bool = False) -> None:
        """Load this configuration, wait until the old instances are gone, and run each instance once.

        `fresh`: with a new scheduler even where only the instance count changes, or nothing.
        """
        self._loads += fresh
        begin = time.monotonic()
        self._server.load(MODEL, config_json(config, self._loads), deadline_s=_LOAD_DEADLINE_S)
        self._server.wait_ready(MODEL, "1", deadline_s=_LOAD_DEADLINE_S)
        if time.monotonic() - begin > _IN_PLACE_S:
            time.sleep(_SETTLE_S)
        self.undisturbed = undisturb(self._pid)
        # An instance's first execution takes up to 50 ms more. Whole batches, at once: no instance is left.
        wake = PlannedRequest(0, 100 * NS_PER_MS, items=max(1, config.max_batch_size))
        self.play(Timeline((wake,) * config.instances))

    def play(self, timeline: Timeline) -> ExecutedTimeline:
        """What became of the timeline on the real server; instants are CLOCK_MONOTONIC ns.

        Raises TrituneError: trace-incomplete where not every request left a trace, timeline-cut where one
        was not sent, or answered with an error that is no refusal by the queue's policy.
        """
        self._played += 1
        ids = [f"{self._played}-{i}" for i in range(len(timeline.requests))]
        requests = [
            _request(self._address, name, request)
            for name, request in zip(ids, timeline.requests, strict=True)
        ]
        planned = [request.planned_ns for request in timeline.requests]
        answers = send_all(self._address.host, self._address.port, planned, requests, timeout_s=_ANSWER_S)
        refusals = [answer.refusal for answer in answers]
        found = self._traces(set(ids))
        return ExecutedTimeline.of((_times(found[name].at_ns) for name in ids), refusals)

    def close(self) -> None:
        """Put the trace settings back and close the connections."""
        self._tracing.restore(self._before)
        self._server.close()
        self._grpc.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _traces(self, wanted: set[str]) -> dict[str, RequestTrace]:
        found: dict[str, RequestTrace] = {}
        end = time.monotonic() + _TRACE_DEADLINE_S
        while wanted - found.keys():
            if time.monotonic() > end:
                raise TrituneError(
                    f"{len(wanted - found.keys())} of {len(wanted)} requests left no trace",
                    slug="trace-incomplete",
                )
            time.sleep(_TRACE_POLL_S)
            self._tracing.flush()
            found |= {trace.request_id: trace for trace in self._file.new() if trace.request_id in wanted}
        return found


def _times(at_ns: Mapping[str, int]) -> tuple[int, int, int, int]:
    queued, start, end, released = (at_ns.get(name, NEVER) for name in _INSTANTS)
    return queued, start, end, released


def _request(address: Address, name: str, request: PlannedRequest) -> bytes:
    parameters: dict[str, Any] = {}
    if request.priority:
        parameters["priority"] = request.priority
    if request.timeout_ns:
        parameters["timeout"] = request.timeout_ns // NS_PER_US
    width = request.shape
    body = {
        "id": name,
        "parameters": parameters,
        "inputs": [
            {
                "name": "x",
                "datatype": "FP32",
                "shape": [request.items, width],
                "data": [request.service_ns / NS_PER_MS] * (request.items * width),
            }
        ],
    }
    return http_request(address, MODEL, "", msgspec.json.encode(body), b"")
