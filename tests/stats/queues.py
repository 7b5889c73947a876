"""Small exact queues for oracle tests: correlated latencies with a known law. Not a test file."""

from __future__ import annotations

import numpy as np

from tritune.model.requests import Floats


def batching_queue(rng: np.random.Generator, n: int, load: float, *, largest: int = 16) -> Floats:
    """Latency (ms) where all that wait are taken, up to `largest`; S(b) = 4.35 + 0.53 b ms, 5 % noise."""
    rate = load * largest / (4.35 + 0.53 * largest)
    at = np.cumsum(rng.exponential(1 / rate, n)).tolist()
    latency = np.empty(n)
    free, head = 0.0, 0
    while head < n:
        start = max(free, at[head])
        end = head + 1
        while end < n and end - head < largest and at[end] <= start:
            end += 1
        free = start + (4.35 + 0.53 * (end - head)) * max(0.5, 1 + 0.05 * rng.standard_normal())
        latency[head:end] = free - np.array(at[head:end])
        head = end
    return latency


def single_queue(rng: np.random.Generator, n: int, load: float) -> Floats:
    """Latency of M/G/1 with gamma(4) service of mean 1 (Lindley's recursion)."""
    service = rng.gamma(4, 0.25, n)
    gap = rng.exponential(1 / load, n)
    latency = np.empty(n)
    before = 0.0
    for i in range(n):
        before = max(0.0, before - gap[i]) + service[i]
        latency[i] = before
    return latency
