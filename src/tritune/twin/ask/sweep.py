"""Many settings against the same load: how much is played for each, and what is drawn once for all."""

from __future__ import annotations

from functools import lru_cache

import msgspec
import numpy as np

from tritune.errors import UsageError
from tritune.twin.ask.traffic import Traffic, requests_of
from tritune.twin.engine.simulate import Load, Requests
from tritune.twin.engine.timing import Draws, Timing, draw

REPLICATIONS, REQUESTS = 8, 20_000
# From so many predictions on, five replications each: 100,000 requests still give p99 within some percent.
MANY, REPLICATIONS_OF_MANY = 200, 5
# Arrivals and noise of so many (rate, seed) are kept; predictions are made rate by rate.
KEPT = 64


class Effort(msgspec.Struct, frozen=True):
    """What is played for each prediction: `replications` of `requests` requests."""

    requests: int = REQUESTS
    replications: int = REPLICATIONS


def effort_for(predictions: int, requests: int = 0, replications: int = 0) -> Effort:
    """As asked; 0 = 20,000 requests, and 8 replications, or 5 from MANY predictions on."""
    usual = REPLICATIONS if predictions < MANY else REPLICATIONS_OF_MANY
    return Effort(requests or REQUESTS, replications or usual)


class Drawn:
    """Arrivals and noise, drawn once and shared by all settings (common random numbers)."""

    def __init__(self) -> None:
        self._loads = lru_cache(KEPT)(load_of_one)
        self._draws = lru_cache(KEPT)(draw)

    def load(self, traffic: Traffic, replicas: int, seed: int, count: int) -> Load:
        """As `load_of_one`."""
        return self._loads(traffic, replicas, seed, count)

    def draws(self, timing: Timing, count: int, seed: int) -> Draws:
        """The noise of `count` batches; it depends on no service time."""
        return self._draws(msgspec.structs.replace(timing, service_ns=(), contention=()), count, seed)


def load_of_one(traffic: Traffic, replicas: int, seed: int, count: int) -> Load:
    """About `count` requests as one of `replicas` sees them, where a balancer sends each one at random.

    A Poisson process split at random is one of rate / replicas, and so are on-off arrivals, whose bursts
    all replicas see together. Other arrivals are drawn for all replicas and thinned. (A balancer that takes
    turns makes arrivals more even and tails shorter.) A closed loop has one replica (UsageError).
    """
    if replicas == 1:
        return requests_of(traffic, seed, count)
    if traffic.concurrency is not None:
        raise UsageError(
            "how a closed loop spreads over replicas is not simulated",
            slug="bad-plan",
            hint="Give a rate: --rate 200.",
        )
    if traffic.process in ("poisson", "on-off") and traffic.items:
        share = msgspec.structs.replace(traffic, rate_per_s=traffic.rate_per_s / replicas)
        return requests_of(share, seed, count)
    every = requests_of(traffic, seed, count * replicas)
    assert isinstance(every, Requests)  # noqa: S101 - only a closed loop is anything else
    chance = np.random.Generator(np.random.PCG64([seed, replicas]))
    ours = chance.random(count * replicas) < 1 / replicas
    items = np.broadcast_to(np.asarray(every.items, np.int64), ours.shape)[ours]
    return Requests(np.asarray(every.planned_ns)[ours], items=items, client=traffic.client)
