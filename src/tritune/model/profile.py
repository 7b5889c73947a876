"""What the twin must know of one model on one machine to play it: estimated from a run, or typed by hand.

A figure that was not estimated is None. A figure that was assumed says "prior" as its source, one that a
person gave says "given"; nothing else is made up.
"""

from __future__ import annotations

from typing import Literal

import msgspec

from tritune.model.workload import Bursts

SCHEMA_VERSION = 1

Source = Literal["measured", "prior", "given"]
# warm-up: executions before the measured window. extrapolated: on a straight line through the others.
# regression: on the line through several loads, where the source counts no batch sizes.
ServiceSource = Literal["measured", "warm-up", "interpolated", "extrapolated", "regression", "given"]
# As Workload.arrivals; recorded: none of them, so that what was recorded is played again in blocks.
Process = Literal["poisson", "constant", "on-off", "recorded"]


class Figure(msgspec.Struct, frozen=True):
    """One estimate with its 95 % interval; None bounds where the source gives none."""

    value: float
    low: float | None = None
    high: float | None = None
    source: Source = "measured"


class ServiceTime(msgspec.Struct, frozen=True):
    """S(b): mean ns of one execution, its 95 % interval, and the executions it was taken from."""

    ns: float
    low_ns: float | None = None
    high_ns: float | None = None
    executions: int = 0
    source: ServiceSource = "measured"


class ArrivalFit(msgspec.Struct, frozen=True):
    """How requests came: rate, and squared coefficient of variation of the gaps (Poisson 1, constant 0).

    `process` None: none of them fits. `bursts`: those of on-off arrivals.
    """

    rate_per_s: float
    scv: float
    process: Process | None
    bursts: Bursts | None = None


class ObservedRanges(msgspec.Struct, frozen=True):
    """What was seen, and so what may be asked about. `batch_sizes` in items, `request_items` per request.

    `others_active`: how many other instances executed on average while one did and S(b) was taken; 0 where
    S(b) is that of one instance alone.
    """

    rates_per_s: tuple[float, ...]
    batch_sizes: tuple[int, ...]
    request_items: tuple[int, ...]
    instances: tuple[int, ...]
    delays_us: tuple[int, ...]
    others_active: float = 0.0


class TwinProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of one model on one machine. `observed` and `arrival` are None where nothing was observed.

    `service_ns` has an entry for every size from 1 to the largest batch that can be played. cv: standard
    deviation / mean of an execution. contention: relative slowing-down per other active instance, on average
    over the executions; contention_by_size: where it clearly differs with the batch size, the value at some
    sizes, straight lines between. `notes`: why a figure could not be had, a sentence each.
    turnaround_ns: from the end of an execution to the instance's next one. client_overhead_ns: client's
    latency - server's; server_overhead_ns: server's request - (queue + compute). `source` says in words
    where it comes from.
    """

    schema_version: int = SCHEMA_VERSION
    model: str
    source: str
    triton_version: str = ""
    service_ns: dict[int, ServiceTime]
    cv: Figure
    contention: Figure | None = None
    contention_by_size: dict[int, float] | None = None
    client_overhead_ns: Figure | None = None
    server_overhead_ns: Figure | None = None
    turnaround_ns: Figure | None = None
    wake_ns: Figure | None = None
    lost_wakeup_p: Figure | None = None
    stall_p: Figure | None = None
    stall_ns: Figure | None = None
    arrival: ArrivalFit | None = None
    observed: ObservedRanges | None = None
    notes: tuple[str, ...] = ()
