"""What is sent in a prediction, and how its arrivals are drawn."""

from __future__ import annotations

import msgspec
import numpy as np

from tritune.arrivals.processes import plan
from tritune.model.client import ClientPolicy
from tritune.model.profile import Process
from tritune.model.requests import Int64
from tritune.model.workload import Bursts
from tritune.twin.simulate import Requests


class Traffic(msgspec.Struct, frozen=True):
    """`items` per request; `bursts` for on-off arrivals. `client`: None = waits for ever, never retries."""

    rate_per_s: float
    process: Process = "poisson"
    items: int = 1
    bursts: Bursts | None = None
    client: ClientPolicy | None = None


def requests_of(traffic: Traffic, seed: int, count: int) -> Requests:
    """`count` requests; the same seed gives the same arrivals, whose gaps scale with the rate."""
    return Requests(instants(traffic, seed, count), items=traffic.items, client=traffic.client)


def instants(traffic: Traffic, seed: int, count: int) -> Int64:
    """Planned instants, ns from 0."""
    found = plan(traffic.rate_per_s, traffic.process, seed, count=count, bursts=traffic.bursts)
    return np.ascontiguousarray(found)
