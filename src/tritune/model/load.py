"""What goes to the load engine and what comes back from it."""

from __future__ import annotations

from dataclasses import dataclass

import msgspec

from tritune.model.measurement import Sender
from tritune.model.requests import RequestLog

# Why a load ended when a person or the system asked for it (`LoadOutcome.cut`).
INTERRUPTED = "interrupted"
TERMINATED = "terminated"
BY_HAND = (INTERRUPTED, TERMINATED)


@dataclass(frozen=True)
class Target:
    """Where the bytes go."""

    host: str
    port: int
    tls: bool = False


@dataclass(frozen=True)
class Shot:
    """One complete HTTP/1.1 request, built before the clock starts; `items` is its batch dimension."""

    data: bytes
    items: int = 1
    shape: int = 0


class Tick(msgspec.Struct, frozen=True):
    """The state of a running load, about twice a second; recent = answers since the tick before, ns."""

    elapsed_ns: int
    planned: int
    sent: int
    done: int
    errors: int
    in_flight: int
    recent_p50_ns: float
    recent_p99_ns: float


@dataclass(frozen=True)
class LoadOutcome:
    """Every attempt, the generator's own error, and why the run ended early (empty if it did not)."""

    log: RequestLog
    sender: Sender
    seconds: float
    cut: str = ""


class WarmUpDone(msgspec.Struct, frozen=True):
    """What a warm-up sent: requests, how many of them failed, its length, the batch dimensions reached.

    `cut` says why it ended early ("interrupted", the server gone), empty if it did not.
    """

    requests: int
    errors: int
    seconds: float
    sizes: tuple[int, ...] = ()
    cut: str = ""
