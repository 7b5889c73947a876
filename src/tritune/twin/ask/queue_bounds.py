"""What the counters alone say of the time in the queue: bounds, and who is left waiting."""

from __future__ import annotations

from typing import Literal

import msgspec

from tritune.model.config import ServingConfig
from tritune.model.server import ServerWindow
from tritune.units import NS_PER_S, NS_PER_US

Backlog = Literal["none", "some", "clumped"]
# A backlog below this many requests, or within what chance does to the mean queue time, is none. The
# overheads of a queue (waking threads up) are no backlog either, and they are below it at 1000 requests/s.
NO_BACKLOG = 0.1


class QueueBounds(msgspec.Struct, frozen=True):
    """What the counters alone say. `queue_ns`: mean time in the queue.

    `most_batch_wait_ns`: the batch wait is not longer than this. `backlog`: requests that were left waiting
    when a batch started, on average over the requests of that batch; None where it cannot be told (no batch
    statistics, or requests of several items). `backlog_kind`: none; some: the largest batch or the capacity
    was too small; clumped: below none, which arrivals at random cannot bring about.
    """

    queue_ns: float
    most_batch_wait_ns: float
    backlog: float | None = None
    backlog_kind: Backlog | None = None


def queue_bounds(config: ServingConfig, window: ServerWindow) -> QueueBounds:
    """What the counters of a window that answered requests say of its queue (research.md 3).

    Batch wait W_b: no request waits longer for the delay than the delay D, and none longer than it was in
    the queue. While an instance idles, fewer requests than fill a batch wait for it, and one idles for at
    most the share c (1 - U) of the time: by Little, W_b <= (B - 1) min(1, c (1 - U)) / lambda.

    Backlog: with Poisson arrivals, first in first out, lambda W = E[b(b-1)] / 2E[b] + E[b R] / E[b], where R
    are the requests left waiting when a batch of b starts. The first term is in the batch statistics.
    """
    counters = window.counters
    queue = counters.queue.mean_ns
    rate = counters.success.count / (window.seconds * NS_PER_S) if window.seconds > 0 else 0.0
    stats = counters.batch_stats
    idle = 1.0
    if stats:
        busy = sum(stat.ns for stat in stats.values()) / (window.seconds * NS_PER_S) if rate else 0.0
        idle = min(1.0, max(0.0, config.instances - busy))
    block = config.dynamic_batching
    delay = block.max_queue_delay_microseconds * NS_PER_US if block else 0
    # No delay is waited for where no batch can grow.
    others = max(0, config.max_batch_size - 1)
    most = min(float(delay), queue, others * idle / rate if rate else queue)
    backlog = _backlog(window, rate * queue)
    return QueueBounds(queue, max(0.0, most), backlog, _kind(backlog, rate * queue, counters.success.count))


def _backlog(window: ServerWindow, waiting: float) -> float | None:
    """`waiting`: how many requests waited on average, lambda W."""
    counters = window.counters
    stats = counters.batch_stats
    if not stats or counters.inference_count != counters.success.count:
        return None
    requests = sum(size * stat.count for size, stat in stats.items())
    pairs = sum(size * (size - 1) * stat.count for size, stat in stats.items())
    return waiting - pairs / (2 * requests)


def _kind(backlog: float | None, waiting: float, requests: int) -> Backlog | None:
    if backlog is None:
        return None
    # How many wait on average is known to about 3 / sqrt(requests) of it.
    if abs(backlog) <= max(NO_BACKLOG, 3 * waiting / requests**0.5):
        return "none"
    return "some" if backlog > 0 else "clumped"
