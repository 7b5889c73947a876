"""What is sent in a prediction, and how its arrivals are drawn."""

from __future__ import annotations

import msgspec
import numpy as np

from tritune.arrivals.processes import plan
from tritune.arrivals.recorded import Recorded, recorded, resample
from tritune.errors import UsageError
from tritune.model.client import ClientPolicy
from tritune.model.profile import ArrivalFit, Process
from tritune.model.requests import Int64, RequestLog
from tritune.model.workload import Bursts
from tritune.twin.engine.simulate import ClosedLoop, Load, Requests


class Traffic(msgspec.Struct, frozen=True):
    """Open loop at `rate_per_s`, or a closed loop with `concurrency` requests in flight (the rate is then 0).

    `items` per request; 0: those of `recorded`, which come along with the gaps they were recorded with.
    `bursts` for on-off arrivals, `recorded` for recorded ones. `client`: None = waits for ever.
    """

    rate_per_s: float
    process: Process = "poisson"
    items: int = 1
    bursts: Bursts | None = None
    client: ClientPolicy | None = None
    recorded: Recorded | None = None
    concurrency: int | None = None

    @property
    def request_items(self) -> tuple[int, ...]:
        """The sizes of requests that come, in order."""
        if self.items or self.recorded is None:
            return (self.items,)
        return tuple(int(size) for size in np.unique(self.recorded.items))

    @property
    def mean_items(self) -> float:
        """Items per request on average."""
        return (
            float(self.recorded.items.mean())
            if not self.items and self.recorded is not None
            else float(self.items)
        )


def traffic_of(fit: ArrivalFit, log: RequestLog, *, items: int = 0) -> Traffic:
    """The traffic that a run showed: its process where one fits, else its own arrivals in blocks.

    Requests of several sizes are always played from the record, because sizes may come in runs as well.
    `items`: every request has this many instead. Raises UsageError (record-too-short).
    """
    last = log.last_attempts()
    order = np.argsort(last.planned_ns, kind="stable")
    sizes = np.unique(last.items)
    size = items or (int(sizes[0]) if len(sizes) == 1 else 0)
    if fit.process not in (None, "recorded") and size:
        return Traffic(fit.rate_per_s, fit.process, size, fit.bursts)
    record = recorded(last.planned_ns[order], last.items[order])
    return Traffic(fit.rate_per_s, "recorded", size, recorded=record)


def requests_of(traffic: Traffic, seed: int, count: int) -> Load:
    """`count` requests; the same seed gives the same arrivals, whose gaps scale with the rate.

    Bursts of on-off arrivals come at the same instants whatever the rate.
    """
    if traffic.concurrency is not None:
        items = _items(traffic, seed, count)
        return ClosedLoop(traffic.concurrency, count, items=items, client=traffic.client)
    return Requests(instants(traffic, seed, count), items=_items(traffic, seed, count), client=traffic.client)


def instants(traffic: Traffic, seed: int, count: int) -> Int64:
    """Planned instants of an open loop, ns from 0."""
    if traffic.process == "recorded":
        return resample(_record(traffic), traffic.rate_per_s, seed, count)[0]
    found = plan(traffic.rate_per_s, traffic.process, seed, count=count, bursts=traffic.bursts)
    return np.ascontiguousarray(found)


def _items(traffic: Traffic, seed: int, count: int) -> Int64 | int:
    return traffic.items or resample(_record(traffic), 1.0, seed, count)[1]


def _record(traffic: Traffic) -> Recorded:
    if traffic.recorded is None:
        raise UsageError(
            "recorded arrivals, or sizes as recorded, need a record",
            slug="bad-arrivals",
            hint="Start from a run folder of tritune load, or use poisson, constant or on-off.",
        )
    return traffic.recorded
