"""What a setting would do at a rate: percentiles with Monte-Carlo intervals, batches, load, the knee.

Every setting meets the same arrivals and the same noise (common random numbers), so that differences
between rows are the settings' own. Rates scale the same arrivals.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from tritune.model.config import ServingConfig
from tritune.model.measurement import Estimate
from tritune.model.profile import TwinProfile
from tritune.model.requests import Floats
from tritune.model.slo import Slo
from tritune.stats.quantiles import quantile
from tritune.stats.student import t_quantile
from tritune.twin.calibrate import timing_of
from tritune.twin.setting import Setting, setting_of
from tritune.twin.simulate import Outcome, Simulated, simulate
from tritune.twin.timing import Timing
from tritune.twin.traffic import Traffic, requests_of
from tritune.twin.validate import MAX_RATE_FACTOR, outside, unknown_sizes
from tritune.units import NEVER_NS

REPLICATIONS = 8
REQUESTS = 20_000
# The first requests of a replication meet an empty queue; they are played and not counted.
WARM_UP_SHARE = 0.1
# The mean latency of the last third against that of the third before: more is a queue that grows.
GROWS = 1.5
STEPS, BISECTIONS = 12, 8
FACTORS = (1.0, 1.3, 1.6)
SHOWN = {"p50": 0.50, "p95": 0.95, "p99": 0.99}


class Prediction(msgspec.Struct, frozen=True):
    """One setting at one rate. `latency` is keyed mean, p50, p95, p99; intervals are those of the simulation.

    `load`: items that come as a share of the capacity. `settles` false: the queue grows for as long as one
    watches, and no percentile means anything. `refusal`: why this is not predicted; figures are then empty.
    """

    setting: str
    rate_per_s: float
    instances: int
    latency: dict[str, Estimate] = {}
    failed_share: float = 0.0
    mean_batch: float | None = None
    batches: dict[int, float] = {}
    load: float | None = None
    settles: bool = True
    refusal: str = ""


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
    """The setting as it is: load as a share of capacity, knee (None: no SLO, or refused), p99 by factor."""

    load: float | None
    knee: Knee | None
    p99_ns: dict[str, Estimate]


def predict(
    profile: TwinProfile,
    config: ServingConfig,
    traffic: Traffic,
    *,
    setting: str = "as it is",
    contention: float | None = None,
    replications: int = REPLICATIONS,
    requests: int = REQUESTS,
) -> Prediction:
    """`replications` simulations of `requests` requests each, or a refusal.

    A percentile is that of all replications together; its interval comes from the spread between them.
    """
    asked = Prediction(setting, traffic.rate_per_s, config.instances)
    if why := outside(profile, config, traffic.rate_per_s, traffic.items, contention):
        return msgspec.structs.replace(asked, refusal=why)
    played = setting_of(config, profile.triton_version)
    timing = timing_of(profile, played.largest, contention=contention)
    plays = [_play(played, timing, traffic, seed, requests) for seed in range(1, replications + 1)]
    if why := unknown_sizes(profile, plays):
        return msgspec.structs.replace(asked, refusal=why)
    sizes = np.bincount(np.concatenate([play.batch_items for play in plays]).astype(np.int64))
    executions = int(sizes.sum())
    load = traffic.rate_per_s * traffic.items / capacity(played, timing, traffic.items)
    latencies = [_counted(play) for play in plays]
    return msgspec.structs.replace(
        asked,
        latency=_percentiles(latencies),
        failed_share=float(np.mean([(play.outcome != Outcome.OK).mean() for play in plays])),
        mean_batch=float((sizes * np.arange(len(sizes))).sum() / executions) if executions else None,
        batches={size: count / executions for size, count in enumerate(sizes.tolist()) if count},
        load=load,
        settles=load < 1 and _settles(latencies),
    )


def capacity(setting: Setting, timing: Timing, items: int = 1) -> float:
    """Items/s with every instance busy: max over attainable b of instances x b / S(b) (research.md 1).

    Without dynamic batching a batch is one request; with delay 0 a batch stops at the largest preferred size.
    """
    service, contention = timing.table(setting.largest)
    most = items if not setting.dynamic else setting.largest
    if setting.dynamic and setting.delay_ns == 0 and setting.preferred:
        most = max(items, min(most, max(setting.preferred)))
    sizes = np.arange(1, most + 1) if setting.dynamic else np.array([items])
    busy = service[sizes] * (1 + contention[sizes] * (setting.instances - 1)) + timing.turnaround_ns
    return float((setting.instances * sizes / busy).max() * 1e9)


def knee(
    profile: TwinProfile,
    config: ServingConfig,
    traffic: Traffic,
    slo: Slo,
    *,
    contention: float | None = None,
    replications: int = REPLICATIONS,
    requests: int = REQUESTS,
) -> Knee | None:
    """The highest rate that meets the SLO, by bisection in each replication; None where that is refused.

    The search ends at the capacity, and for an observed profile at 1.6 times the observed rate.
    """
    played = setting_of(config, profile.triton_version)
    timing = timing_of(profile, played.largest, contention=contention)
    top = capacity(played, timing, traffic.items) / traffic.items
    if profile.observed is not None:
        top = min(top, MAX_RATE_FACTOR * max(profile.observed.rates_per_s))
    if outside(profile, config, top, traffic.items, contention):
        return None
    found = []
    for seed in range(1, replications + 1):

        def holds(rate_per_s: float, seed: int = seed) -> bool:
            at = msgspec.structs.replace(traffic, rate_per_s=rate_per_s)
            return _holds(slo, _play(played, timing, at, seed, requests))

        found.append(_highest(holds, top))
    rate, half = float(np.mean(found)), _half_width(found)
    last = msgspec.structs.replace(traffic, rate_per_s=max(rate, top / STEPS))
    if unknown_sizes(profile, [_play(played, timing, last, 1, requests)]):
        return None
    return Knee(rate, max(0.0, rate - half), rate + half, top, beyond=all(value == top for value in found))


def headroom(
    profile: TwinProfile,
    config: ServingConfig,
    traffic: Traffic,
    slo: Slo | None,
    *,
    contention: float | None = None,
    replications: int = REPLICATIONS,
    requests: int = REQUESTS,
) -> Headroom:
    """Load, knee, and the p99 at 1.0, 1.3 and 1.6 x the rate: none if refused, NEVER_NS if unsettled."""
    p99, load = {}, None
    for factor in FACTORS:
        rate = msgspec.structs.replace(traffic, rate_per_s=traffic.rate_per_s * factor)
        found = predict(
            profile, config, rate, contention=contention, replications=replications, requests=requests
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
        )
    return Headroom(load, limit, p99)


def _highest(holds: Callable[[float], bool], top: float) -> float:
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


def _play(setting: Setting, timing: Timing, traffic: Traffic, seed: int, requests: int) -> Simulated:
    return simulate(setting, requests_of(traffic, seed, requests), timing, seed=seed)


def _counted(play: Simulated) -> Floats:
    latency = play.latency_ns()
    return latency[round(WARM_UP_SHARE * len(latency)) :]


def _holds(slo: Slo, play: Simulated) -> bool:
    latency = _counted(play)
    failed = float((~np.isfinite(latency)).mean())
    return all(
        failed <= clause.limit
        if clause.quantile is None
        else quantile(latency, clause.quantile) <= clause.limit
        for clause in slo.clauses
    ) and _settles([latency])


def _settles(latencies: Sequence[Floats]) -> bool:
    """Whether the mean latency stopped growing, over all replications."""
    thirds = [[part[np.isfinite(part)] for part in np.array_split(one, 3)] for one in latencies]
    means = [np.concatenate([third[i] for third in thirds]) for i in (1, 2)]
    if not all(len(mean) for mean in means):
        return True
    return bool(means[1].mean() < GROWS * means[0].mean())


def _percentiles(latencies: Sequence[Floats]) -> dict[str, Estimate]:
    together = np.concatenate(latencies)
    answered = [one[np.isfinite(one)].mean() for one in latencies if np.isfinite(one).any()]
    found = {"mean": _estimate(float(np.mean(answered)), answered)} if answered else {}
    for name, q in SHOWN.items():
        found[name] = _estimate(quantile(together, q), [quantile(one, q) for one in latencies])
    return found


def _estimate(value: float, each: Sequence[float]) -> Estimate:
    if not math.isfinite(value) or not np.isfinite(each).all():
        return Estimate(NEVER_NS if not math.isfinite(value) else float(value))
    half = _half_width(each)
    return Estimate(float(value), float(value - half), float(value + half))


def _half_width(each: Sequence[float]) -> float:
    if len(each) < 2:
        return math.inf
    return t_quantile(len(each) - 1) * float(np.std(each, ddof=1)) / math.sqrt(len(each))
