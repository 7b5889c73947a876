"""Send prepared HTTP requests at their instants, and read nothing before all are sent.

The load engine reads each answer when it comes. Here that would wake us at every completion, the very moment
at which threads of the server race, and on a machine of two cores decide that race.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from http import HTTPStatus

import msgspec

from tritune.errors import TrituneError
from tritune.load.priority import at_once
from tritune.load.quiet import quiet
from tritune.model.timeline import QUEUE_FULL, TIMED_OUT
from tritune.triton.model_errors import first_line

# Sleeping longer than this wakes late where real-time priority is not to be had.
_SPIN_NS = 50_000
_LEAD_NS = 5_000_000
# How the server words its refusals; both are 503 (semantics 1.10).
_REFUSALS = {b"Exceeds maximum queue size": QUEUE_FULL, b"Request timeout expired": TIMED_OUT}


class Answer(msgspec.Struct, frozen=True):
    """The HTTP status and the body."""

    status: int
    body: bytes

    @property
    def refusal(self) -> str:
        """Why the queue's policy refused the request, empty where it was answered; else TrituneError."""
        if self.status == HTTPStatus.OK:
            return ""
        for words, refusal in _REFUSALS.items():
            if words in self.body:
                return refusal
        said = first_line(self.body.decode(errors="replace"))
        raise TrituneError(
            f"the timeline was cut: a request was answered {self.status}, {said}",
            slug="timeline-cut",
            hint="The model must be the timelines' own, with a configuration that takes its requests.",
        )


def send_all(
    host: str, port: int, planned_ns: Sequence[int], requests: Sequence[bytes], *, timeout_s: float
) -> list[Answer]:
    """Each request on a connection of its own, planned_ns after the start; the answers to them.

    Raises TrituneError (timeline-cut) where a connection breaks or an answer does not come in time.
    """
    with ExitStack() as stack:
        try:
            peers = [
                stack.enter_context(socket.create_connection((host, port), timeout=timeout_s))
                for _ in requests
            ]
            for peer in peers:
                peer.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            with quiet(), at_once():
                begin = time.monotonic_ns() + _LEAD_NS
                for peer, at_ns, data in zip(peers, planned_ns, requests, strict=True):
                    _sleep_until(begin + at_ns)
                    peer.sendall(data)
            return [_answer(peer) for peer in peers]
        except OSError as error:
            raise TrituneError(f"the timeline was cut: {error}", slug="timeline-cut") from error


def _sleep_until(instant_ns: int) -> None:
    while (left_ns := instant_ns - time.monotonic_ns()) > 0:
        if left_ns > _SPIN_NS:
            time.sleep((left_ns - _SPIN_NS) / 1e9)


def _answer(peer: socket.socket) -> Answer:
    with peer.makefile("rb") as answer:
        words = answer.readline().split(b" ", 2)
        if len(words) < 2:
            raise ConnectionResetError("the server closed a connection without an answer")
        length = 0
        while (line := answer.readline().strip().lower()) != b"":
            name, _, value = line.partition(b":")
            if name == b"content-length":
                length = int(value)
        return Answer(int(words[1]), answer.read(length))
