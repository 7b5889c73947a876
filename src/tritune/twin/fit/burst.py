"""How bursty the traffic is, from counter windows alone: simulated method of moments (research.md 3).

Counts per second show bursts that last for seconds. Shorter ones hide within a second, and the queue shows
them: it is longer than Poisson arrivals would make it. So bursts are looked for whose simulation, with the
calibrated service times, has the counters' own mean and spread of queue time, batch sizes, and scatter of
counts. Every candidate meets the same random numbers, so that they differ by the bursts alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import msgspec
import numpy as np

from tritune.arrivals.dispersion import correlation, ratio_of, sample_variance
from tritune.arrivals.processes import plan
from tritune.model.profile import ArrivalFit, Figure
from tritune.model.requests import Floats
from tritune.model.server import ServerWindow
from tritune.model.workload import Arrivals, Bursts
from tritune.twin.engine.setting import Setting
from tritune.twin.engine.simulate import Requests, Simulated, simulate
from tritune.twin.engine.timing import Timing
from tritune.twin.fit.moments import (
    COUNTS,
    TOLERANCES,
    WindowSeries,
    count_moments,
    landmarks,
    moments,
    observed,
    simulated,
)
from tritune.units import NS_PER_S

# Fewer windows leave the scatter of the counts to chance.
MIN_WINDOWS = 20
# What service times that are a little wrong do to queue and batches, so that it is no sign of bursts.
_SLACK = np.array([0.03, 0.05, 0.015, 0.015, 0.015, 0.0, 0.0, 0.0])
_TOLERANCE = np.array(list(TOLERANCES.values()))
_REPLICATES = 40
# A simulation that candidates are held against may be so far off by its own chance, or is made longer.
_OWN_SCATTER, _MOST_LONGER = 0.03, 10
_SCAN, _REFINE, _REPLICATE = 15_000, 30_000, 20_000
_DWELLS_S = tuple(np.geomspace(0.02, 5, 9))
_DUTIES = (0.05, 0.12, 0.25, 0.45)
_STARTS, _STEPS = 2, 50
# ln(ratio - 1), ln dwell in s, logit duty: what is looked at.
_LOW = np.array([math.log(0.05), math.log(0.005), -4.6])
_HIGH = np.array([math.log(100), math.log(20), 2.2])
_NUDGE = 0.15
# Without anything that tells: a standard deviation as wide as what is looked at.
_VAGUE = 2.0
# An interval wider than this factor names no figure.
IDENTIFIED = 10.0
DRAWS = 16
_Z95 = 1.959963984540054
_LEVEL = 0.05


class BurstFit(msgspec.Struct, frozen=True):
    """How requests came. `arrival.process`: "poisson" (cannot be told from it), "on-off", "constant", or None
    (none of these fits).

    ratio, dwell_ns and duty: of on-off arrivals, with 95 % intervals from the scatter of simulated windows;
    `draws`: bursts that the counters allow as well. `p_poisson`: how likely Poisson arrivals are to differ
    from the expected as much. `notes`: what could not be told, a sentence each.
    """

    arrival: ArrivalFit
    p_poisson: float
    ratio: Figure | None = None
    dwell_ns: Figure | None = None
    duty: Figure | None = None
    draws: tuple[Bursts, ...] = ()
    notes: tuple[str, ...] = ()


def fit_arrivals(
    setting: Setting, timing: Timing, windows: Sequence[ServerWindow], *, items: int = 1
) -> BurstFit:
    """The arrivals that `windows` (neighbours, about equally long, not reset) show under this setting.

    Raises ValueError for fewer than MIN_WINDOWS windows, or windows without requests or batch statistics.
    """
    if len(windows) < MIN_WINDOWS:
        raise ValueError(f"{len(windows)} windows")
    series = observed(windows)
    if not series.requests.sum() or not series.batches.sum():
        raise ValueError("no requests, or no batch statistics")
    match = _Match(setting, timing, series, items)
    p_poisson = match.p_value(None)
    arrival = ArrivalFit(series.rate_per_s, 1.0, "poisson")
    if p_poisson >= _LEVEL:
        note = "the counters cannot tell the arrivals from Poisson ones"
        return BurstFit(arrival, p_poisson, notes=(note,))
    if match.target[COUNTS][0] < math.log(0.5):
        regular = msgspec.structs.replace(arrival, scv=0.0, process="constant")
        if match.distance(None, _REFINE, "constant") <= 9 * len(_TOLERANCE):
            return BurstFit(regular, p_poisson)
        none = msgspec.structs.replace(arrival, scv=math.exp(match.target[COUNTS][0]), process=None)
        note = "the arrivals are more regular than Poisson ones, and not at constant distances either"
        return BurstFit(none, p_poisson, notes=(note,))
    x = _search(match)
    bursts = _bursts(x)
    gaps = np.diff(plan(series.rate_per_s, "on-off", 1, count=_REFINE, bursts=bursts))
    scv = float(gaps.var() / gaps.mean() ** 2)
    return _with_intervals(
        match, x, BurstFit(ArrivalFit(series.rate_per_s, scv, "on-off", bursts), p_poisson)
    )


@dataclass(frozen=True)
class _Match:
    """Simulations held against the observed windows."""

    setting: Setting
    timing: Timing
    series: WindowSeries
    items: int

    @cached_property
    def at(self) -> tuple[int, int, int]:
        return landmarks(self.series)

    @cached_property
    def execution_ns(self) -> float:
        sizes = np.arange(len(self.series.batches))
        service = np.array(self.timing.service_ns)[np.minimum(sizes, len(self.timing.service_ns) - 1)]
        return float((service * self.series.batches).sum() / self.series.batches.sum())

    @cached_property
    def target(self) -> Floats:
        return moments(self.series, self.at, self.execution_ns)

    def play(
        self, bursts: Bursts | None, seed: int, count: int, process: Arrivals | None = None
    ) -> Simulated:
        """At least MIN_WINDOWS windows, so that counts can be compared at high rates too."""
        rate = self.series.rate_per_s
        count = max(count, math.ceil(2 * MIN_WINDOWS * rate * self.series.seconds))
        planned = plan(rate, process or ("on-off" if bursts else "poisson"), seed, count=count, bursts=bursts)
        return simulate(self.setting, Requests(planned, items=self.items), self.timing, seed=seed)

    def expected(self, bursts: Bursts | None, count: int, process: Arrivals | None = None) -> Floats:
        """Simulated moments. Those of the counts are the exact ones of the arrivals, and the simulation adds
        only what the queue does to them on their way to the answers.
        """
        play = self.play(bursts, 1, count, process)
        found = moments(simulated(play, self.series.seconds), self.at, self.execution_ns)
        if process != "constant":
            number = play.arrived_ns // round(self.series.seconds * NS_PER_S)
            came = np.bincount(number)[:-1].astype(np.float64)
            found[COUNTS] += self._counts(bursts) - count_moments(came)
        return found

    def distance(self, bursts: Bursts | None, count: int, process: Arrivals | None = None) -> float:
        """Sum of the squared differences, each as a multiple of its tolerance."""
        return float((((self.expected(bursts, count, process) - self.target) / _TOLERANCE) ** 2).sum())

    def scatter(self, bursts: Bursts | None) -> tuple[Floats, Floats]:
        """Mean and covariance of the moments of windows as long as the observed ones (or scaled to that)."""
        found = []
        for seed in range(1, _REPLICATES + 1):
            wanted = len(self.series.requests) * self.series.rate_per_s * self.series.seconds
            part = simulated(
                self.play(bursts, 100 + seed, min(_REPLICATE, math.ceil(wanted))), self.series.seconds
            )
            found.append((moments(part, self.at, self.execution_ns), len(part.requests)))
        rows = np.array([row for row, _ in found])
        shorter = float(np.mean([n for _, n in found])) / len(self.series.requests)
        return rows.mean(axis=0), np.cov(rows.T) * min(1.0, shorter)

    def own_scatter(self, bursts: Bursts) -> float:
        """Standard deviation of ln mean queue between simulations of _REFINE requests."""
        plays = [self.play(bursts, 200 + seed, _REFINE) for seed in range(8)]
        queues = [play.queue_ns().mean() + 0.02 * self.execution_ns for play in plays]
        return float(np.log(queues).std(ddof=1))

    def p_value(self, bursts: Bursts | None) -> float:
        """Of Hotelling's T^2, with the slack for service times that are not exact."""
        from scipy.stats import f

        mean, covariance = self.scatter(bursts)
        mean[COUNTS] = self._counts(bursts)
        gap = self.target - mean
        n, p = _REPLICATES, len(gap)
        t2 = float(gap @ np.linalg.solve(covariance * (1 + 1 / n) + np.diag(_SLACK**2 + 1e-8), gap))
        return float(f.sf(t2 * (n - p) / (p * (n - 1)), p, n - p))

    def _counts(self, bursts: Bursts | None) -> Floats:
        rate, seconds, windows = self.series.rate_per_s, self.series.seconds, len(self.series.requests)
        one = sample_variance(rate, bursts, seconds, windows) / (rate * seconds)
        five = sample_variance(rate, bursts, 5 * seconds, windows // 5) / (5 * rate * seconds)
        neighbours = correlation(rate, bursts, seconds, windows)
        return np.array([math.log(one), math.log(five), neighbours])


def _search(match: _Match) -> Floats:
    """Bursts that explain the scatter of the counts, refined from the best ones by Nelder-Mead."""
    dispersion = math.exp(match.target[COUNTS][0])
    nodes = []
    for dwell in _DWELLS_S:
        for duty in _DUTIES:
            ratio = ratio_of(
                match.series.rate_per_s, dispersion, round(dwell * NS_PER_S), duty, match.series.seconds
            )
            x = np.array([math.log(max(ratio - 1, 1e-9)), math.log(dwell), math.log(duty / (1 - duty))])
            x = np.clip(x, _LOW, _HIGH)
            nodes.append((match.distance(_bursts(x), _SCAN), x))
    nodes.sort(key=lambda node: node[0])
    found = [_refined(match, start, _REFINE) for _, start in nodes[:_STARTS]]
    _, best = min(found, key=lambda one: one[0])
    # Long, high bursts are few in a short simulation, which then finds the bursts that fit its own chance.
    longer = _REFINE * min(_MOST_LONGER, (match.own_scatter(_bursts(best)) / _OWN_SCATTER) ** 2)
    return best if longer < 1.5 * _REFINE else _refined(match, best, round(longer))[1]


def _refined(match: _Match, start: Floats, count: int) -> tuple[float, Floats]:
    from scipy.optimize import minimize

    def distance(x: Floats) -> float:
        inside = np.clip(x, _LOW, _HIGH)
        return match.distance(_bursts(inside), count) + 100 * float(((x - inside) ** 2).sum())

    simplex = start + np.vstack([np.zeros(3), np.diag([0.4, 0.5, 0.5])])
    options = {"maxfev": _STEPS, "initial_simplex": simplex}
    result = minimize(distance, start, method="Nelder-Mead", options=options)
    return float(result.fun), np.clip(result.x, _LOW, _HIGH)


def _with_intervals(match: _Match, x: Floats, fit: BurstFit) -> BurstFit:
    """A linearised parametric bootstrap: how windows of the fitted bursts scatter, and the fit with them."""
    _, covariance = match.scatter(_bursts(x))
    slopes = np.empty((len(_TOLERANCE), 3))
    for i in range(3):
        up, down = (np.clip(x + sign * _NUDGE * np.eye(3)[i], _LOW, _HIGH) for sign in (1, -1))
        rise = match.expected(_bursts(up), _REFINE) - match.expected(_bursts(down), _REFINE)
        slopes[:, i] = rise / (up[i] - down[i])
    weighted = slopes / _TOLERANCE[:, None] ** 2
    prior = np.eye(3) / _VAGUE**2
    inverse = np.linalg.inv(slopes.T @ weighted + prior)
    gain = inverse @ weighted.T
    spread = gain @ (covariance + np.diag(_SLACK**2)) @ gain.T + inverse @ prior @ inverse
    sd = np.sqrt(np.diag(spread))
    ends = [np.clip(x + sign * _Z95 * sd, _LOW, _HIGH) for sign in (-1, 1)]
    low, high = (_bursts(end) for end in ends)
    here = _bursts(x)
    generator = np.random.Generator(np.random.PCG64(7))
    drawn = np.clip(generator.multivariate_normal(x, spread, DRAWS, method="eigh"), _LOW, _HIGH)
    notes = tuple(
        f"the counters do not tell the {name} of the bursts: {below:.3g} to {above:.3g}{unit} fit"
        for name, below, above, unit in (
            ("ratio", low.ratio, high.ratio, ""),
            ("length", low.dwell_ns / 1e9, high.dwell_ns / 1e9, " s"),
            ("share", low.duty, high.duty, ""),
        )
        if above > IDENTIFIED * below
    )
    return msgspec.structs.replace(
        fit,
        ratio=Figure(here.ratio, low.ratio, high.ratio),
        dwell_ns=Figure(here.dwell_ns, low.dwell_ns, high.dwell_ns),
        duty=Figure(here.duty, low.duty, high.duty),
        draws=tuple(_bursts(row) for row in drawn),
        notes=notes,
    )


def _bursts(x: Floats) -> Bursts:
    return Bursts(1 + math.exp(x[0]), round(math.exp(x[1]) * NS_PER_S), 1 / (1 + math.exp(-x[2])))
