"""Sending a timeline: at its instants, without reading an answer before the last request is sent."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from tritune.errors import TrituneError
from tritune.model.timeline import QUEUE_FULL, TIMED_OUT
from tritune.testing.timelines.sender import Answer, send_all


class Listener:
    """Answers each connection once, the requests with the instants at which they came."""

    def __init__(self, answer: bytes) -> None:
        self.answer = answer
        self.got: list[tuple[bytes, float]] = []
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.thread = threading.Thread(target=self._serve, args=(3,))
        self.thread.start()

    def _serve(self, count: int) -> None:
        with ExitStack() as stack:
            peers = [stack.enter_context(self.socket.accept()[0]) for _ in range(count)]
            for peer in peers:
                self.got.append((peer.recv(100), time.monotonic()))
                peer.sendall(self.answer)


@pytest.fixture
def listener(request: pytest.FixtureRequest) -> Iterator[Listener]:
    server = Listener(request.param)
    yield server
    server.thread.join(5)
    server.socket.close()


@pytest.mark.parametrize(
    "listener", [b"HTTP/1.1 503 No\r\nContent-Type: x\r\nContent-Length: 3\r\n\r\nabc"], indirect=True
)
def test_every_request_at_its_instant(listener: Listener) -> None:
    planned = [0, 30_000_000, 50_000_000]
    answers = send_all("127.0.0.1", listener.port, planned, [b"a", b"b", b"c"], timeout_s=5)
    assert answers == [Answer(503, b"abc")] * 3
    assert [data for data, _ in listener.got] == [b"a", b"b", b"c"]
    first, second, third = (at for _, at in listener.got)
    assert second - first >= 0.025
    assert third - second >= 0.015


@pytest.mark.parametrize("listener", [b""], indirect=True)
def test_a_connection_that_breaks_is_a_sentence(listener: Listener) -> None:
    with pytest.raises(TrituneError) as caught:
        send_all("127.0.0.1", listener.port, [0, 0, 0], [b"a", b"b", b"c"], timeout_s=5)
    assert caught.value.slug == "timeline-cut"


@pytest.mark.parametrize(
    ("answer", "refusal"),
    [
        (Answer(200, b"{}"), ""),
        (Answer(503, b'{"error":"[request id: 1-2] Exceeds maximum queue size"}'), QUEUE_FULL),
        (Answer(503, b'{"error":"[request id: 1-2] Request timeout expired"}'), TIMED_OUT),
    ],
)
def test_a_refusal_by_the_queues_policy_is_known_by_its_words(answer: Answer, refusal: str) -> None:
    assert answer.refusal == refusal


def test_another_error_is_no_refusal() -> None:
    with pytest.raises(TrituneError, match="400, unexpected shape") as caught:
        assert Answer(400, b"unexpected shape").refusal
    assert caught.value.slug == "timeline-cut"
