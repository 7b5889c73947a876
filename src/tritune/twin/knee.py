"""How far it is to the edge: the highest rate at which the SLO holds, and the tail on the way there."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import Protocol

import msgspec
import numpy as np

from tritune.errors import TrituneError
from tritune.model.config import ServingConfig
from tritune.model.measurement import Estimate
from tritune.model.profile import TwinProfile
from tritune.model.slo import Slo
from tritune.stats.quantiles import quantile
from tritune.twin.figures import timing_of
from tritune.twin.predict import Timed, capacity, counted, half_width, play, predict, settles
from tritune.twin.setting import Setting, setting_of
from tritune.twin.sweep import REPLICATIONS, REQUESTS, Drawn
from tritune.twin.timing import Timing
from tritune.twin.traffic import Traffic
from tritune.twin.validate import MAX_RATE_FACTOR, outside, unknown_sizes
from tritune.units import NEVER_NS

STEPS, BISECTIONS = 12, 8
FACTORS = (1.0, 1.3, 1.6)


class Spread(Protocol):
    """Does the same work for each of several things, in their order: `map`, or something faster."""

    def __call__(self, function: Callable[[int], float], items: Iterable[int], /) -> Iterable[float]:
        """`function` of each."""


class Knee(msgspec.Struct, frozen=True):
    """The highest rate at which the SLO holds, requests/s, with the interval of the simulation.

    `up_to`: the highest rate that was tried. `beyond`: it holds even there. Rate 0: at none of them.
    """

    rate_per_s: float
    low: float
    high: float
    up_to: float
    beyond: bool = False


class Headroom(msgspec.Struct, frozen=True):
    """The setting as it is: load as a share of capacity, knee (None: no SLO, or refused), p99 by factor.

    `rate_per_s`: the rate that the factors multiply.
    """

    load: float | None
    knee: Knee | None
    p99_ns: dict[str, Estimate]
    rate_per_s: float = 0.0


def knee(
    profile: TwinProfile,
    config: ServingConfig,
    traffic: Traffic,
    slo: Slo,
    *,
    contention: float | None = None,
    replications: int = REPLICATIONS,
    requests: int = REQUESTS,
    replicas: int = 1,
    drawn: Drawn | None = None,
    spread: Spread = map,
) -> Knee | None:
    """The highest rate that meets the SLO, by bisection in each replication; None where that is refused.

    The search ends at the capacity, and for an observed profile at 1.6 times the observed rate per replica.
    A closed loop has no rate to look for: None.
    """
    if traffic.concurrency is not None:
        return None
    drawn = drawn or Drawn()
    try:
        played = setting_of(config, profile.triton_version)
        timing = timing_of(profile, played.largest, contention=contention)
        top = capacity(played, timing, traffic.mean_items) / traffic.mean_items
        if profile.observed is not None:
            top = min(top, MAX_RATE_FACTOR * max(profile.observed.rates_per_s))
        if any(outside(profile, config, top, items, contention) for items in traffic.request_items):
            return None
        top *= replicas
        search = partial(_search, played, timing, traffic, slo, top, requests, replicas, drawn)
        found = list(spread(search, range(1, replications + 1)))
        rate, half = float(np.mean(found)), half_width(found)
        last = msgspec.structs.replace(traffic, rate_per_s=max(rate, top / STEPS))
        if unknown_sizes(profile, [play(played, timing, last, 1, requests, replicas=replicas, drawn=drawn)]):
            return None
    except TrituneError:
        return None
    return Knee(rate, max(0.0, rate - half), rate + half, top, beyond=all(value == top for value in found))


def headroom(
    profile: TwinProfile,
    config: ServingConfig,
    traffic: Traffic,
    slo: Slo | None = None,
    *,
    contention: float | None = None,
    replications: int = REPLICATIONS,
    requests: int = REQUESTS,
    drawn: Drawn | None = None,
    spread: Spread = map,
) -> Headroom:
    """Load, p99 at 1.0, 1.3 and 1.6 times the rate, and the knee where there is an SLO.

    A p99 that is refused is empty; one that never settles is NEVER_NS.
    """
    load = None
    p99 = {}
    drawn = drawn or Drawn()
    for factor in FACTORS if traffic.concurrency is None else FACTORS[:1]:
        rate = msgspec.structs.replace(traffic, rate_per_s=traffic.rate_per_s * factor)
        found = predict(
            profile,
            config,
            rate,
            contention=contention,
            replications=replications,
            requests=requests,
            drawn=drawn,
        )
        load = found.load if factor == 1.0 else load
        p99[f"{factor:g}"] = found.latency.get("p99", Estimate()) if found.settles else Estimate(NEVER_NS)
    limit = None
    if slo is not None:
        limit = knee(
            profile,
            config,
            traffic,
            slo,
            contention=contention,
            replications=replications,
            requests=requests,
            drawn=drawn,
            spread=spread,
        )
    return Headroom(load, limit, p99, traffic.rate_per_s)


def _search(
    setting: Setting,
    timing: Timing,
    traffic: Traffic,
    slo: Slo,
    top: float,
    requests: int,
    replicas: int,
    drawn: Drawn,
    seed: int,
) -> float:
    """The knee in one replication."""

    def holds(rate_per_s: float) -> bool:
        at = msgspec.structs.replace(traffic, rate_per_s=rate_per_s)
        return holds_slo(slo, play(setting, timing, at, seed, requests, replicas=replicas, drawn=drawn))

    return highest(holds, top)


def highest(holds: Callable[[float], bool], top: float) -> float:
    """The highest rate up to `top` that holds, 0 for none; found from above, because a long delay makes
    low rates fail where higher ones hold.
    """
    step = next((k for k in range(STEPS, 0, -1) if holds(top * k / STEPS)), 0)
    low, high = top * step / STEPS, top * (step + 1) / STEPS
    if step == STEPS:
        return top
    for _ in range(BISECTIONS):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    # Nothing held at any step: what bisection then finds is below the first one, and no more than chance.
    return low if step else 0.0


def holds_slo(slo: Slo, one: Timed) -> bool:
    """Whether one simulation meets it, and its queue does not grow."""
    latency = counted(one)
    failed = float((~np.isfinite(latency)).mean())
    return all(
        failed <= clause.limit
        if clause.quantile is None
        else quantile(latency, clause.quantile) <= clause.limit
        for clause in slo.clauses
    ) and settles([latency])
