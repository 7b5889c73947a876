"""How far it is to the edge: the highest rate at which the SLO holds, and the tail on the way there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from typing import Protocol

import msgspec

from tritune.errors import TrituneError
from tritune.model.config import ServingConfig
from tritune.model.measurement import Estimate
from tritune.model.profile import TwinProfile
from tritune.model.requests import Floats
from tritune.model.slo import Slo
from tritune.twin.ask.predict import Judged, Meets, capacity, counted, judged, play, predict
from tritune.twin.ask.sweep import REPLICATIONS, REQUESTS, Drawn
from tritune.twin.ask.traffic import Traffic
from tritune.twin.ask.validate import MAX_RATE_FACTOR, outside, unknown_sizes
from tritune.twin.engine.setting import Setting, setting_of
from tritune.twin.engine.timing import Timing
from tritune.twin.fit.figures import timing_of
from tritune.units import NEVER_NS

STEPS, BISECTIONS = 12, 8
FACTORS = (1.0, 1.3, 1.6)


class Spread(Protocol):
    """Does the same work for each of several things, in their order: `map`, or something faster."""

    def __call__(self, function: Callable[[int], Floats], items: Iterable[int], /) -> Iterable[Floats]:
        """`function` of each."""


class Knee(msgspec.Struct, frozen=True):
    """The highest rate at which the SLO holds, requests/s, over all replications together.

    `low`: the highest at which it surely holds (the interval of the simulation is below the limit); `high`:
    the highest at which it does not surely fail. `up_to`: the highest rate that was tried. `beyond`: it
    holds even there. Rate 0: at none of them.
    """

    rate_per_s: float
    low: float
    high: float
    up_to: float
    beyond: bool = False


class Headroom(msgspec.Struct, frozen=True):
    """The setting as it is: load as a share of capacity, knee (None: no SLO, or refused), p99 by factor.

    `rate_per_s`: the rate that the factors multiply; `meets`: whether the SLO holds there.
    """

    load: float | None
    knee: Knee | None
    p99_ns: dict[str, Estimate]
    rate_per_s: float = 0.0
    meets: Meets | None = None


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
    """The highest rate that meets the SLO, as `find_knee`; None where that is refused.

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

        def latencies_at(rate_per_s: float) -> list[Floats]:
            at = msgspec.structs.replace(traffic, rate_per_s=rate_per_s)
            one = partial(_latencies, played, timing, at, requests, replicas, drawn)
            return list(spread(one, range(1, replications + 1)))

        found = find_knee(slo, top, latencies_at)
        last = msgspec.structs.replace(traffic, rate_per_s=max(found.rate_per_s, top / STEPS))
        if unknown_sizes(profile, [play(played, timing, last, 1, requests, replicas=replicas, drawn=drawn)]):
            return None
    except TrituneError:
        return None
    return found


def find_knee(slo: Slo, top: float, latencies_at: Callable[[float], Sequence[Floats]]) -> Knee:
    """The knee up to the rate `top`, by bisection; `latencies_at`: of each replication at a rate."""
    tried: dict[float, Judged] = {}

    def judge(rate_per_s: float) -> Judged:
        if rate_per_s not in tried:
            tried[rate_per_s] = judged(slo, latencies_at(rate_per_s))
        return tried[rate_per_s]

    rate = highest(lambda at: judge(at).holds, top)
    low = highest(lambda at: judge(at).meets == "yes", top)
    high = highest(lambda at: judge(at).meets != "no", top)
    return Knee(rate, min(low, rate), max(high, rate), top, beyond=rate == top)


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
    load, meets = None, None
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
            slo=slo,
        )
        if factor == 1.0:
            load, meets = found.load, found.meets
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
    return Headroom(load, limit, p99, traffic.rate_per_s, meets)


def _latencies(
    setting: Setting,
    timing: Timing,
    traffic: Traffic,
    requests: int,
    replicas: int,
    drawn: Drawn,
    seed: int,
) -> Floats:
    return counted(play(setting, timing, traffic, seed, requests, replicas=replicas, drawn=drawn))


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
