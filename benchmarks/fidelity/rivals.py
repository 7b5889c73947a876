"""What simpler models of a batching server predict for the same plan, with the same calibrated S(b)."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tritune.model.requests import Floats, Int64
from tritune.twin.fit.service_fit import line


def late_binding_ns(
    planned_ns: Int64,
    service_ns: Sequence[float],
    *,
    instances: int,
    max_batch: int,
    delay_ns: int,
    contention: float,
    overhead_ns: float,
) -> Floats:
    """Latency of each request where a batch takes all that waits when an instance is free (research.md 2).

    A free instance waits until the oldest request has the age of the delay or the batch is full. Others that
    are active at its start slow a batch down as in the twin.
    """
    arrivals = planned_ns.tolist()
    n = len(arrivals)
    free = [0.0] * instances
    latency = np.empty(n)
    first = 0
    while first < n:
        k = min(range(instances), key=free.__getitem__)
        full = arrivals[first + max_batch - 1] if first + max_batch - 1 < n else float("inf")
        ready = min(arrivals[first] + delay_ns, full) if delay_ns else arrivals[first]
        start = max(free[k], ready)
        last = first
        while last < n and last - first < max_batch and arrivals[last] <= start:
            last += 1
        others = sum(end > start for end in free)
        free[k] = start + service_ns[last - first] * (1 + contention * others)
        latency[first:last] = free[k] + overhead_ns - planned_ns[first:last]
        first = last
    return latency


def inoue_mean_ns(rate_per_s: float, service_ns: Sequence[float], overhead_ns: float) -> float:
    """Inoue's bound on the mean latency (2021, arXiv 1912.06322): one server, Poisson, no delay, no limit.

    S(b) = alpha b + tau0 is the straight line through the given times. Infinite at or above its capacity.
    """
    sizes = range(1, len(service_ns))
    tau, alpha = line(list(sizes), [service_ns[size] for size in sizes], [1] * len(sizes))
    rate = rate_per_s / 1e9
    if rate * alpha >= 1:
        return float("inf")
    a, t, la = alpha, tau, rate
    phi0 = (a + t) / (2 * (1 - la * a)) * (1 + 2 * la * t + (1 - la * t) / (1 + la * a))
    phi1 = 1.5 * t / (1 - la * a) + (a / 2) * (la * a + 2) / (1 - la**2 * a**2)
    return min(phi0, phi1) + overhead_ns
