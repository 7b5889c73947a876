"""Small exact queues for oracle tests: correlated latencies with a known law. Not a test file."""

from __future__ import annotations

import numba
import numpy as np

from tritune.model.requests import Floats


def batching_queue(rng: np.random.Generator, n: int, load: float, *, largest: int = 16) -> Floats:
    """Latency (ms) where all that wait are taken, up to `largest`; S(b) = 4.35 + 0.53 b ms, 5 % noise."""
    rate = load * largest / (4.35 + 0.53 * largest)
    noise = np.maximum(0.5, 1 + 0.05 * rng.standard_normal(n))
    return _batched(np.cumsum(rng.exponential(1 / rate, n)), noise, largest)


@numba.njit(cache=True)  # type: ignore[untyped-decorator]
def _batched(at: Floats, noise: Floats, largest: int) -> Floats:
    n = len(at)
    latency = np.empty(n)
    free, head, batch = 0.0, 0, 0
    while head < n:
        start = max(free, at[head])
        end = head + 1
        while end < n and end - head < largest and at[end] <= start:
            end += 1
        free = start + (4.35 + 0.53 * (end - head)) * noise[batch]
        for i in range(head, end):
            latency[i] = free - at[i]
        head, batch = end, batch + 1
    return latency


def single_queue(rng: np.random.Generator, n: int, load: float) -> Floats:
    """Latency of M/G/1 with gamma(4) service of mean 1 (Lindley's recursion, summed up)."""
    service = rng.gamma(4, 0.25, n)
    gap = rng.exponential(1 / load, n)
    # The work brought so far less the time that went by: the queue is how far that is above its lowest.
    net = np.cumsum(np.concatenate(([0.0], service[:-1])) - gap)
    return net - np.minimum.accumulate(np.minimum(net, 0.0)) + service
