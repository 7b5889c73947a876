"""Service times from Prometheus counters alone: a line through several loads, corrected for size bias.

The metrics page has no batch statistics. It has the compute time per request, and each request is charged
the whole execution of its batch, so that full batches count more often:

    compute per request = E[b S(b)] / E[b] = tau0 + alpha E[b^2] / E[b]    for S(b) = tau0 + alpha b

E[b] is the items over the executions. E[b^2] / E[b]^2 is not exposed; the twin plays the same rates with the
(tau0, alpha) found so far and says it, until nothing changes any more (a fixed point).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import msgspec
import numpy as np

from tritune.arrivals.processes import plan
from tritune.model.config import ServingConfig
from tritune.model.profile import ArrivalFit, Figure, ObservedRanges, ServiceSource, ServiceTime, TwinProfile
from tritune.model.requests import Floats
from tritune.model.server import ServerWindow
from tritune.stats.student import t_quantile
from tritune.twin.engine.setting import Setting, setting_of
from tritune.twin.engine.simulate import Requests, simulate
from tritune.twin.engine.timing import Timing
from tritune.twin.fit.agreement import queue_off
from tritune.twin.fit.calibrate import PRIOR_CV
from tritune.twin.fit.metric_levels import (
    compute_ns,
    items_of,
    load_levels,
    mean_batch,
    missing,
    outside_ns,
    rate_of,
)
from tritune.twin.fit.service_fit import FARTHEST
from tritune.units import format_duration

# S(1) and S of the largest batch must be known as well as this (half of the 95 % interval).
MAX_UNSURE = 0.2
_REQUESTS = 40_000
_ROUNDS, _STILL = 20, 0.002
_NOTE = (
    "from Prometheus alone: a straight line stands for the service times, which batch statistics would show; "
    "arrivals are taken to be Poisson"
)


class Level(msgspec.Struct, frozen=True):
    """One load: what was counted, and what the twin makes of it with the line that was found."""

    rate_per_s: float
    requests: int
    mean_batch: float
    mean_batch_played: float
    compute_ns: float
    queue_ns: float
    queue_played_ns: float


class MetricsProfile(msgspec.Struct, frozen=True):
    """S(b) = base_ns + slope_ns b with 95 % intervals, the profile that it makes, and the loads behind it."""

    profile: TwinProfile
    base_ns: Figure
    slope_ns: Figure
    levels: tuple[Level, ...]


def from_metrics(
    config: ServingConfig,
    windows: Sequence[ServerWindow],
    *,
    contention: float | None = None,
    triton_version: str = "",
    source: str = "",
) -> MetricsProfile:
    """The profile that windows at different loads show; arrivals are taken to be Poisson, and checked.

    `contention`: how much each other active instance slows one down; needed with several instances, because
    their number at work rises with the load as the batch does.

    Raises TrituneError (exit 4): twin-bad-run (nothing answered, a reset, failures), twin-no-batches (what
    the counters lack to tell how long a batch takes), twin-unsupported.
    """
    levels = load_levels(config, windows, contention)
    played = _Played(config, levels, contention, triton_version)
    base, slope = _fixed_point(played)
    shown = tuple(played.level(k) for k in range(len(levels)))
    _refuse_unexplained(shown, [level.counters.success.mean_ns for level in levels])
    sure = _sure(played, base, slope)
    largest = max(1, config.max_batch_size)
    farthest = min(largest, math.floor(FARTHEST * played.largest))
    _refuse_unsure(base, slope, sure, farthest)
    profile = TwinProfile(
        model=config.name,
        source=source,
        triton_version=triton_version,
        service_ns={b: _time(b, base, slope, sure, farthest) for b in range(1, largest + 1)},
        cv=Figure(PRIOR_CV, source="prior"),
        contention=Figure(contention, source="given") if contention is not None else None,
        server_overhead_ns=Figure(max(0.0, float(np.mean([outside_ns(level) for level in levels])))),
        arrival=ArrivalFit(rate_of(levels[-1]), 1.0, "poisson"),
        observed=ObservedRanges(
            rates_per_s=tuple(rate_of(level) for level in levels),
            batch_sizes=(),
            request_items=(played.items,),
            instances=(config.instances,),
            delays_us=(
                config.dynamic_batching.max_queue_delay_microseconds if config.dynamic_batching else 0,
            ),
        ),
        notes=(_NOTE,),
    )
    half = np.sqrt(np.diag(sure))
    return MetricsProfile(
        profile,
        Figure(base, base - float(half[0]), base + float(half[0])),
        Figure(slope, slope - float(half[1]), slope + float(half[1])),
        shown,
    )


class _Played:
    """The twin at each level. `update` plays all of them with a line; the regressors are then its own."""

    def __init__(
        self,
        config: ServingConfig,
        levels: Sequence[ServerWindow],
        contention: float | None,
        triton_version: str,
    ) -> None:
        self.setting: Setting = setting_of(config, triton_version)
        self.levels = levels
        self.contention = (contention,) if contention else ()
        self.items = round(items_of(levels[0]))
        self.compute = np.array([compute_ns(level) for level in levels])
        self.weights = np.array([level.counters.execution_count for level in levels], float)
        self.mean_batch = np.array([mean_batch(level) for level in levels])
        # Before anything is played: no size bias, no company.
        self.design = np.column_stack([np.ones(len(levels)), self.mean_batch])
        self.played = np.zeros((len(levels), 2))
        self.largest = 1

    def update(self, base: float, slope: float) -> None:
        """Per level, as requests see it: how much longer executions got by company, and that times b."""
        service = base + slope * np.arange(self.setting.largest + 1)
        timing = Timing(tuple(service.tolist()), contention=self.contention)
        for k, level in enumerate(self.levels):
            planned = plan(rate_of(level), "poisson", 1, count=_REQUESTS)
            play = simulate(self.setting, Requests(planned, items=self.items), timing, seed=1)
            slower = (play.batch_done_ns - play.batch_start_ns) / service[play.batch_items]
            requests = play.batch_requests / play.batch_requests.sum()
            mean = float(play.batch_items.mean())
            bias = self.mean_batch[k] / mean
            self.design[k] = (requests @ slower, requests @ (slower * play.batch_items) * bias)
            self.played[k] = (mean, float(play.queue_ns().mean()))
            self.largest = max(self.largest, int(np.quantile(play.batch_items, 0.99)))

    def line(self) -> tuple[float, float]:
        """Weighted least squares; neither is negative."""
        root = np.sqrt(self.weights)
        base, slope = np.linalg.lstsq(self.design * root[:, None], self.compute * root, rcond=None)[0]
        if slope < 0:
            return float(np.average(self.compute / self.design[:, 0], weights=self.weights)), 0.0
        if base < 0:
            return 0.0, float(np.average(self.compute / self.design[:, 1], weights=self.weights))
        return float(base), float(slope)

    def level(self, k: int) -> Level:
        """As shown."""
        counters = self.levels[k].counters
        return Level(
            rate_of(self.levels[k]),
            counters.success.count,
            float(self.mean_batch[k]),
            float(self.played[k, 0]),
            float(self.compute[k]),
            counters.queue.mean_ns,
            float(self.played[k, 1]),
        )


def _fixed_point(played: _Played) -> tuple[float, float]:
    base, slope = played.line()
    for _ in range(_ROUNDS):
        played.update(base, slope)
        again = played.line()
        moved = max(abs(again[0] - base), played.mean_batch.max() * abs(again[1] - slope))
        base, slope = again
        if moved < _STILL * played.compute.min():
            break
    return base, slope


def _sure(played: _Played, base: float, slope: float) -> Floats:
    """Covariance of (base, slope) times the square of the t-quantile, from the residuals: what is no straight
    line is in them as well.
    """
    residual = played.compute - played.design @ np.array([base, slope])
    freedom = len(residual) - 2
    variance = float((played.weights * residual**2).sum()) / freedom
    normal = (played.design * played.weights[:, None]).T @ played.design
    covariance: Floats = t_quantile(freedom) ** 2 * variance * np.linalg.inv(normal)
    return covariance


def _time(b: int, base: float, slope: float, sure: Floats, farthest: int) -> ServiceTime:
    ns, half = base + slope * b, _half(b, sure)
    source: ServiceSource = "regression" if b <= farthest else "extrapolated"
    return ServiceTime(ns, max(0.0, ns - half), ns + half, source=source)


def _half(b: int, sure: Floats) -> float:
    """`sure`: the covariance times the square of the t-quantile."""
    x = np.array([1.0, b])
    return float(np.sqrt(x @ sure @ x))


def _refuse_unsure(base: float, slope: float, sure: Floats, farthest: int) -> None:
    for b in (1, farthest):
        ns = base + slope * b
        if not _half(b, sure) <= MAX_UNSURE * ns:
            raise missing(
                f"the loads leave the time of a batch of {b} between "
                f"{format_duration(max(0.0, ns - _half(b, sure)))} and {format_duration(ns + _half(b, sure))}"
            )


def _refuse_unexplained(levels: Sequence[Level], requests_ns: Sequence[float]) -> None:
    for level, request_ns in zip(levels, requests_ns, strict=True):
        if queue_off(level.queue_ns, level.queue_played_ns, request_ns):
            raise missing(
                f"at {level.rate_per_s:.4g} requests/s Poisson arrivals would wait "
                f"{format_duration(level.queue_played_ns)} on average, and {format_duration(level.queue_ns)} "
                "were counted: the traffic is of another kind, or the time of a batch does not rise in a "
                "straight line"
            )
