"""What is sent: to which model, how often, for how long, in which pattern."""

from __future__ import annotations

from typing import Literal

import msgspec

from tritune.units import NS_PER_S, format_duration

Arrivals = Literal["poisson", "constant", "on-off"]


class Bursts(msgspec.Struct, frozen=True):
    """On/off arrivals: a Poisson process whose rate jumps between two levels (an MMPP of two states).

    While a burst lasts, requests come at `ratio` times the calm rate; a burst lasts `dwell_ns` on average
    (exponential), and bursts take the share `duty` of the time. The rate of a plan is the mean over both.
    """

    ratio: float
    dwell_ns: int
    duty: float


class Workload(msgspec.Struct, frozen=True):
    """Open loop when `rate_per_s` is set, closed loop when `concurrency` is; exactly one of them is.

    Ends after `count` requests or after `duration_ns`, whichever is set (count wins in closed loop).
    The same seed gives the same plan. `bursts` describes on-off arrivals. `items` is the batch dimension of
    every request, 0 = as many rows as the data has (1 without data).
    """

    model: str
    version: str = ""
    rate_per_s: float | None = None
    concurrency: int | None = None
    count: int | None = None
    duration_ns: int | None = None
    arrivals: Arrivals = "poisson"
    bursts: Bursts | None = None
    seed: int = 1
    items: int = 1
    data: str | None = None
    timeout_ns: int = 10 * NS_PER_S

    @property
    def planned_count(self) -> int | None:
        """How many requests an open loop plans or a counted closed loop sends; None if only time ends it."""
        if self.count is not None:
            return self.count
        if self.rate_per_s is not None and self.duration_ns is not None:
            return round(self.rate_per_s * self.duration_ns / NS_PER_S)
        return None

    def __str__(self) -> str:
        what = (
            f"{self.rate_per_s:g} requests/s, {self.arrivals} arrivals"
            if self.rate_per_s is not None
            else f"{self.concurrency} in flight"
        )
        length = f", {self.count} requests" if self.count is not None else ""
        length += f", for {format_duration(self.duration_ns)}" if self.duration_ns and not self.count else ""
        return what + length
