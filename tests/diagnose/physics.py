"""A small deterministic Triton for tests: Poisson arrivals, one queue, the dispatch rules that matter here.

Late binding without payload slots (research.md 2): good enough for means and batch sizes, not a twin.
Not a test file.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tritune.model.config import DynamicBatching, InstanceGroup, ServingConfig
from tritune.model.server import BatchStat, ModelCounters, ServerWindow, Tally

MS = 1_000_000


def config(
    *,
    largest: int = 8,
    count: int = 1,
    preferred: tuple[int, ...] = (),
    delay_us: int = 0,
    batching: bool = True,
    groups: int = 1,
) -> ServingConfig:
    return ServingConfig(
        name="m",
        backend="python",
        max_batch_size=largest,
        dynamic_batching=DynamicBatching(preferred, delay_us) if batching else None,
        instance_group=tuple(InstanceGroup(kind="KIND_CPU", count=count) for _ in range(groups)),
    )


def serve(
    conf: ServingConfig,
    rate_per_s: float,
    service_ms: Callable[[int], float],
    *,
    contention: float = 0.0,
    seconds: float = 20.0,
    seed: int = 1,
    metrics: bool = False,
    start_s: float = 0.0,
) -> ServerWindow:
    """The window of `seconds` of Poisson traffic; an execution is stretched by 1 + contention x others."""
    rng = np.random.default_rng(seed)
    at = np.cumsum(rng.exponential(1e9 / rate_per_s, round(rate_per_s * seconds * 1.2) + 50))
    at = at[at < seconds * 1e9]
    free = [0.0] * conf.instances
    batching = conf.dynamic_batching
    delay = batching.max_queue_delay_microseconds * 1000 if batching else 0
    preferred = sorted(conf.preferred) or [1]
    cap = 1 if batching is None else conf.max_batch_size
    if batching is not None and delay == 0:
        cap = min(cap, preferred[-1])
    queue = busy_per_request = 0.0
    stats: dict[int, BatchStat] = {}
    head = 0
    while head < len(at):
        k = min(range(len(free)), key=free.__getitem__)
        ready = at[head]
        if delay:  # the first preferred size that fills within the delay, else the delay
            ready = at[head] + delay
            for size in preferred:
                if head + size - 1 < len(at) and at[head + size - 1] < ready:
                    ready = at[head + size - 1]
                    break
        start = max(free[k], ready)
        size = 1
        while size < cap and head + size < len(at) and at[head + size] <= start:
            size += 1
        others = sum(f > start for f in free)
        took = service_ms(size) * (1 + contention * others) * MS
        queue += float((start - at[head : head + size]).sum())
        busy_per_request += size * took
        stats[size] = stats.get(size, BatchStat()) + BatchStat(1, 0, round(took), 0)
        free[k] = start + took
        head += size
    n = len(at)
    counters = ModelCounters(
        success=Tally(n, round(queue + busy_per_request)),
        queue=Tally(n, round(queue)),
        compute_input=Tally(n, 0),
        compute_infer=Tally(n, round(busy_per_request)),
        compute_output=Tally(n, 0),
        inference_count=n,
        execution_count=sum(s.count for s in stats.values()),
        batch_stats=None if metrics else stats,
    )
    t0 = round(start_s * 1e9)
    end = max(seconds * 1e9, max(free))
    source = "metrics" if metrics else "statistics"
    return ServerWindow("m", "1", source, t0, t0 + math.ceil(end), counters)


def affine(base: float, per_item: float) -> Callable[[int], float]:
    return lambda b: base + per_item * b


def steady(
    counts: dict[int, int], service_ms: Callable[[int], float], *, queue_ms: float, seconds: float
) -> ServerWindow:
    """A window with exactly these executions per size and this mean queue."""
    stats = {b: BatchStat(n, 0, round(n * service_ms(b) * MS), 0) for b, n in counts.items()}
    n = sum(b * c for b, c in counts.items())
    busy = round(sum(b * s.infer_ns for b, s in stats.items()))
    queue = round(n * queue_ms * MS)
    counters = ModelCounters(
        success=Tally(n, queue + busy),
        queue=Tally(n, queue),
        compute_input=Tally(n, 0),
        compute_infer=Tally(n, busy),
        compute_output=Tally(n, 0),
        inference_count=n,
        execution_count=sum(counts.values()),
        batch_stats=stats,
    )
    return ServerWindow("m", "1", "statistics", 0, round(seconds * 1e9), counters)
