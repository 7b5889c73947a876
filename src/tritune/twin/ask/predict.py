"""What a setting would do under a load: percentiles with Monte-Carlo intervals, batches, load.

Every setting meets the same arrivals and the same noise (common random numbers), so that differences
between rows are the settings' own. Rates scale the same arrivals.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal, NamedTuple, Protocol

import msgspec
import numpy as np

from tritune.errors import TrituneError
from tritune.model.config import ServingConfig
from tritune.model.measurement import Estimate
from tritune.model.profile import TwinProfile
from tritune.model.requests import Floats
from tritune.model.slo import Clause, Slo
from tritune.stats.quantiles import quantile
from tritune.stats.student import t_quantile
from tritune.twin.ask.loadable import unloadable
from tritune.twin.ask.sweep import REPLICATIONS, REQUESTS, Drawn
from tritune.twin.ask.traffic import Traffic
from tritune.twin.ask.validate import outside, unknown_sizes
from tritune.twin.engine.setting import Setting, setting_of
from tritune.twin.engine.simulate import Simulated, simulate
from tritune.twin.engine.timing import Timing
from tritune.twin.fit.figures import timing_of
from tritune.twin.fit.replay import executed_sizes
from tritune.units import NEVER_NS

# The first requests of a replication meet an empty queue; they are played and not counted.
WARM_UP_SHARE = 0.1
# The mean latency of the last third against that of the third before: more is a queue that grows.
GROWS = 1.5
SHOWN = {"p50": 0.50, "p95": 0.95, "p99": 0.99}

# Whether an SLO holds; close: its limit lies within the interval of the simulation.
Meets = Literal["yes", "close", "no"]


class Timed(Protocol):
    """One simulation, of a model or of a chain of them."""

    def latency_ns(self) -> Floats:
        """Per request in order of arrival, infinite where it failed."""


class Judged(NamedTuple):
    """An SLO against a simulation: surely or not, and (`holds`) by the values alone."""

    meets: Meets
    holds: bool


class Prediction(msgspec.Struct, frozen=True):
    """One setting at one rate. `latency` is keyed mean, p50, p95, p99; intervals are those of the simulation.

    `rate_per_s` comes to all `replicas` together (0: a closed loop); the other figures are those of each
    replica. `load`: items that come as a share of the capacity; None in a closed loop, whose load follows the
    answers. `settles` false: the queue grows for as long as one watches, and no percentile means anything.
    `refusal`: why this is not predicted; figures are then empty. `meets`: the SLO, None without one.
    `goodput_per_s`: requests answered in time, of all replicas; `attempts_per_request`: where clients have
    a policy, else None. `fields`: what was set, by Triton's names.
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
    replicas: int = 1
    meets: Meets | None = None
    goodput_per_s: float | None = None
    attempts_per_request: float | None = None
    rank: int = 0
    pareto: bool = False
    fields: dict[str, str] = {}

    @property
    def cost(self) -> int:
        """Instances of all replicas."""
        return self.instances * self.replicas


def predict(
    profile: TwinProfile,
    config: ServingConfig,
    traffic: Traffic,
    *,
    setting: str = "as it is",
    contention: float | None = None,
    replications: int = REPLICATIONS,
    requests: int = REQUESTS,
    replicas: int = 1,
    slo: Slo | None = None,
    drawn: Drawn | None = None,
) -> Prediction:
    """`replications` simulations of `requests` requests each, or a refusal; nothing is raised for a setting.

    A percentile is that of all replications together; its interval comes from the spread between them.
    `drawn` shares arrivals and noise with other predictions; the result is the same without it.
    """
    asked = Prediction(setting, traffic.rate_per_s, config.instances, replicas=replicas)
    drawn = drawn or Drawn()
    try:
        if why := unloadable(config) or _outside(profile, config, traffic, replicas, contention):
            return msgspec.structs.replace(asked, refusal=why)
        played = setting_of(config, profile.triton_version)
        timing = timing_of(profile, played.largest, contention=contention)
        plays = [
            play(played, timing, traffic, seed, requests, replicas=replicas, drawn=drawn)
            for seed in range(1, replications + 1)
        ]
    except TrituneError as error:
        return msgspec.structs.replace(asked, refusal=error.message)
    if why := unknown_sizes(profile, plays):
        return msgspec.structs.replace(asked, refusal=why)
    sizes = executed_sizes(plays)
    executions = sum(sizes.values())
    load = None
    if traffic.concurrency is None:
        items = traffic.mean_items
        load = traffic.rate_per_s / replicas * items / capacity(played, timing, items)
    found = with_latencies(asked, [counted(one) for one in plays], load, slo)
    return msgspec.structs.replace(
        found,
        mean_batch=sum(size * count for size, count in sizes.items()) / executions if executions else None,
        batches={size: count / executions for size, count in sizes.items()},
        goodput_per_s=replicas * float(np.mean([_goodput(one) for one in plays])),
        attempts_per_request=float(np.mean([one.attempts_per_request().mean() for one in plays]))
        if traffic.client is not None
        else None,
    )


def with_latencies(
    asked: Prediction, counted_ns: Sequence[Floats], load: float | None, slo: Slo | None
) -> Prediction:
    """The prediction with what the latencies of its replications show, each in order of arrival."""
    latencies = [np.sort(one) for one in counted_ns]
    failed = float(np.mean([np.isinf(one).mean() for one in latencies]))
    steady = settles(counted_ns) and (load is None or load < 1 or failed > 0)
    return msgspec.structs.replace(
        asked,
        latency=_percentiles(latencies),
        failed_share=failed,
        load=load,
        settles=steady,
        meets=judged(slo, counted_ns, steady=steady).meets if slo else None,
    )


def play(
    setting: Setting,
    timing: Timing,
    traffic: Traffic,
    seed: int,
    requests: int,
    *,
    replicas: int = 1,
    drawn: Drawn,
) -> Simulated:
    """One replication, as one of the replicas sees it."""
    load = drawn.load(traffic, replicas, seed, requests)
    # Retries need more draws than there are requests: simulate knows how many.
    draws = drawn.draws(timing, requests, seed) if traffic.client is None else None
    return simulate(setting, load, timing, seed=seed, draws=draws)


def capacity(setting: Setting, timing: Timing, items: float = 1) -> float:
    """Items/s with every instance busy: max over attainable b of instances x b / S(b) (research.md 1).

    Without dynamic batching a batch is one request; with delay 0 a batch stops at the largest preferred size.
    """
    service, contention = timing.table(setting.largest)
    least = max(1, math.ceil(items))
    most = least if not setting.dynamic else setting.largest
    if setting.dynamic and setting.delay_ns == 0 and setting.preferred:
        most = max(least, min(most, max(setting.preferred)))
    sizes = np.arange(1, most + 1) if setting.dynamic else np.array([least])
    busy = service[sizes] * (1 + contention[sizes] * (setting.instances - 1)) + timing.turnaround_ns
    return float((setting.instances * sizes / busy).max() * 1e9)


def counted(one: Timed) -> Floats:
    """Latencies without the first requests, ns, in order of arrival; infinite where a request failed."""
    latency = one.latency_ns()
    return latency[round(WARM_UP_SHARE * len(latency)) :]


def settles(latencies: Sequence[Floats]) -> bool:
    """Whether the mean latency stopped growing, over all replications."""
    thirds = [[part[np.isfinite(part)] for part in np.array_split(one, 3)] for one in latencies]
    means = [np.concatenate([third[i] for third in thirds]) for i in (1, 2)]
    if not all(len(mean) for mean in means):
        return True
    return bool(means[1].mean() < GROWS * means[0].mean())


def half_width(each: Sequence[float]) -> float:
    """Half of the 95 % interval of the mean of independent replications."""
    if len(each) < 2:
        return math.inf
    return t_quantile(len(each) - 1) * float(np.std(each, ddof=1)) / math.sqrt(len(each))


def _outside(
    profile: TwinProfile, config: ServingConfig, traffic: Traffic, replicas: int, contention: float | None
) -> str:
    found = (
        outside(profile, config, traffic.rate_per_s / replicas, items, contention)
        for items in traffic.request_items
    )
    return next(filter(None, found), "")


def _goodput(one: Simulated) -> float:
    """Answered in time per second, from when the first counted request was sent until the last was."""
    planned = np.sort(one.planned_ns[one.attempt == 0])
    return one.goodput_per_s(int(planned[round(WARM_UP_SHARE * len(planned))]), int(planned[-1]))


def _percentiles(latencies: Sequence[Floats]) -> dict[str, Estimate]:
    """`latencies`: sorted, one array per replication."""
    together = np.sort(np.concatenate(latencies))
    answered = [one[np.isfinite(one)].mean() for one in latencies if np.isfinite(one[:1]).any()]
    found = {"mean": _estimate(float(np.mean(answered)), answered)} if answered else {}
    for name, q in SHOWN.items():
        found[name] = _estimate(quantile(together, q), [quantile(one, q) for one in latencies])
    return found


def judged(slo: Slo, latencies: Sequence[Floats], *, steady: bool | None = None) -> Judged:
    """All replications together against the SLO; a queue that keeps growing holds nothing."""
    if not (settles(latencies) if steady is None else steady):
        return Judged("no", False)
    together = np.concatenate(latencies)
    found = [_clause(clause, together, latencies) for clause in slo.clauses]
    worst = max(found, key=lambda one: ("yes", "close", "no").index(one.meets))
    return Judged(worst.meets, all(one.holds for one in found))


def _clause(clause: Clause, together: Floats, latencies: Sequence[Floats]) -> Judged:
    q = clause.quantile
    if q is None:
        failed = float(np.isinf(together).mean())
        return Judged("yes" if failed <= clause.limit else "no", failed <= clause.limit)
    found = _estimate(quantile(together, q), [quantile(one, q) for one in latencies])
    value = found.value or 0.0
    low, high = (value, value) if found.low is None or found.high is None else (found.low, found.high)
    meets: Meets = "yes" if high <= clause.limit else "close" if low <= clause.limit else "no"
    return Judged(meets, value <= clause.limit)


def _estimate(value: float, each: Sequence[float]) -> Estimate:
    if not math.isfinite(value) or not np.isfinite(each).all():
        return Estimate(NEVER_NS if not math.isfinite(value) else float(value))
    half = half_width(each)
    if not math.isfinite(half):
        return Estimate(float(value))
    return Estimate(float(value), float(value - half), float(value + half))
