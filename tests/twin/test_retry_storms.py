"""Loads that a server can bear, and cannot leave once they have overrun it (research.md 6).

Clients give up after 50 ms; a batch of 8 takes 7.8 ms, so that the server manages 1026 requests/s. For three
seconds four times as many requests come as before and after.
"""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest
from twin_play import MS

from tritune.model.client import ClientPolicy
from tritune.model.requests import Int64
from tritune.twin.engine.setting import Setting
from tritune.twin.engine.simulate import Requests, Simulated, simulate
from tritune.twin.engine.timing import Timing

BATCHED = Setting(1, 8, True, (8,))
TIMING = Timing((0.0, *((3.4 + 0.55 * b) * MS for b in range(1, 9))))
HIGHEST = 8 / 7.8e-3
BEFORE_S, TRIGGER_S, FACTOR = 5, 3, 4


@cache
def arrivals(load: float, after_s: float, seed: int) -> Int64:
    rng = np.random.default_rng(seed)
    parts, begin = [], 0.0
    for rate, seconds in ((1, BEFORE_S), (FACTOR, TRIGGER_S), (1, after_s)):
        count = rng.poisson(rate * load * HIGHEST * seconds)
        parts.append(begin + np.sort(rng.uniform(0, seconds, count)))
        begin += seconds
    return (np.concatenate(parts) * 1e9).astype(np.int64)


def played(load: float, after_s: float, seed: int = 1, **policy: object) -> Simulated:
    client = ClientPolicy(timeout_ns=50 * MS, **policy)  # type: ignore[arg-type]
    return simulate(BATCHED, Requests(arrivals(load, after_s, seed), client=client), TIMING, seed=seed)


def goodput_at_the_end(load: float, after_s: float, seed: int = 1, **policy: object) -> float:
    """Of the last five seconds, as a share of what was asked for."""
    end_ns = round((BEFORE_S + TRIGGER_S + after_s) * 1e9)
    done = played(load, after_s, seed, **policy)
    return done.goodput_per_s(end_ns - 5 * 10**9, end_ns) / (load * HIGHEST)


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(
    ("load", "after_s", "policy"),
    [
        (0.85, 60, {}),
        (0.42, 150, {"retries": 1}),
        (0.20, 30, {"retries": 3}),
        (0.70, 60, {"retries": 3, "retry_budget": 0.1}),
    ],
)
def test_recovers(load: float, after_s: float, policy: dict[str, object], seed: int) -> None:
    assert goodput_at_the_end(load, after_s, seed, **policy) > 0.9


@pytest.mark.parametrize("seed", [1, 2, 3])
@pytest.mark.parametrize(("load", "retries"), [(0.58, 1), (0.30, 3), (0.70, 3)])
def test_never_recovers(load: float, retries: int, seed: int) -> None:
    assert goodput_at_the_end(load, 60, seed, retries=retries) < 0.05
    # Not for lack of room: the same load without the retries comes back, and the server never rests.
    assert goodput_at_the_end(load, 60, seed) > 0.9
    stuck = played(load, 60, seed, retries=retries)
    assert stuck.attempts_per_request()[-5000:-200].mean() > 0.99 * (1 + retries)
    assert stuck.wasted().mean() > 0.8


@pytest.mark.parametrize(("retries", "load"), [(1, 0.44), (2, 0.29), (3, 0.20)])
def test_load_times_attempts_below_the_capacity_is_enough(retries: int, load: float) -> None:
    """The certificate: load x (1 + retries) < 1, however full the server was."""
    flood = np.zeros(3000, np.int64)
    after = np.sort(np.random.default_rng(4).uniform(0, 100e9, round(load * HIGHEST * 100))).astype(np.int64)
    client = ClientPolicy(timeout_ns=50 * MS, retries=retries)
    done = simulate(BATCHED, Requests(np.concatenate([flood, after]), client=client), TIMING)
    assert done.goodput_per_s(90 * 10**9, 100 * 10**9) > 0.9 * load * HIGHEST
