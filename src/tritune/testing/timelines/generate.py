"""Random timelines: what comes when, and how long it takes."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tritune.model.config import ServingConfig
from tritune.model.timeline import PlannedRequest, Timeline
from tritune.testing.timelines.families import GRID_MS
from tritune.units import NS_PER_MS

REQUESTS = 36
# So long that most of what waits meanwhile has timed out when the queue is next scanned.
_LONG_MS = (560, 700)


def free_timeline(random: np.random.Generator, config: ServingConfig, *, shapes: int = 1) -> Timeline:
    """Poisson arrivals from a first, long request on; executions of 5 to 30 ms for each instance there is.

    The mean gap is drawn between 3 and 30 ms and the first request takes 50 to 250 ms, so that a timeline
    goes through filling, full and emptying queues. The same state of `random` gives the same timeline.
    """
    gap_ms = np.exp(random.uniform(np.log(3), np.log(30)))
    at_ms = np.concatenate([[0], np.cumsum(random.exponential(gap_ms, REQUESTS - 1))])
    service_ms = random.uniform(5, 30, REQUESTS) * config.instances
    service_ms[0] = random.uniform(50, 250)
    return Timeline(_requests(random, config, shapes, at_ms.tolist(), service_ms.tolist()))


def grid_timeline(
    random: np.random.Generator, config: ServingConfig, *, shapes: int = 1, first_ms: float = 0
) -> Timeline:
    """Arrivals on a grid of GRID_MS, in half of the timelines some in pairs, over more than `first_ms`.

    How long executions take is left to `steer`.
    """
    least = max(1.0, 1.3 * first_ms / (GRID_MS * REQUESTS))
    steps = random.geometric(1 / random.uniform(least, least + 2), REQUESTS - 1)
    pair = random.random(REQUESTS - 1) < random.choice((0, 0.15))
    at_ms = np.concatenate([[0.0], np.cumsum(np.where(pair, 0, steps)) * GRID_MS])
    # Of a pair the second comes 0.4 ms later, well after the batcher has seen the first.
    at_ms[1:] += 0.4 * pair
    at_ms.sort()
    return Timeline(_requests(random, config, shapes, at_ms.tolist(), [10.0] * REQUESTS))


def first_ms(random: np.random.Generator, config: ServingConfig) -> float:
    """How long the first execution of a steered timeline takes; now and then past all timeouts."""
    if _expires(config) and random.random() < 0.15:
        return float(random.uniform(*_LONG_MS))
    return float(random.uniform(20, 150))


def _expires(config: ServingConfig) -> bool:
    block = config.dynamic_batching
    policies = [block.default_queue_policy, *dict(block.priority_queue_policy).values()] if block else []
    return any(policy.default_timeout_microseconds for policy in policies)


def _requests(
    random: np.random.Generator,
    config: ServingConfig,
    shapes: int,
    at_ms: Sequence[float],
    service_ms: Sequence[float],
) -> tuple[PlannedRequest, ...]:
    n = len(at_ms)
    largest = max(1, config.max_batch_size)
    items = np.minimum(random.choice((1, 2, 3), n, p=(0.6, 0.25, 0.15)), largest)
    # A shape stays for some requests, otherwise no two would share a batch.
    changes = np.cumsum(random.random(n) < 0.3)
    shape = random.integers(1, shapes + 1, n)[changes]
    block = config.dynamic_batching
    levels = block.priority_levels if block else 0
    # 0 and one too many mean the default level.
    level = random.integers(0, levels + 2, n) if levels else np.zeros(n)
    timeout_us = _own_timeouts_us(random, config, n)
    columns = zip(at_ms, service_ms, items, shape, level, timeout_us, strict=True)
    return tuple(
        PlannedRequest(
            round(at * NS_PER_MS), round(ms * NS_PER_MS), int(many), int(width), int(prio), int(limit) * 1000
        )
        for at, ms, many, width, prio, limit in columns
    )


def _own_timeouts_us(random: np.random.Generator, config: ServingConfig, n: int) -> Sequence[int]:
    """Half of the requests bring a timeout of their own, where the model has timeouts at all."""
    if not _expires(config):
        return [0] * n
    own_ms = random.choice((8, 14, 32, 50, 200), n)
    mine: list[int] = np.where(random.random(n) < 0.5, own_ms * 1000, 0).tolist()
    return mine
