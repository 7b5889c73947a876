"""How much instances slow each other down, from runs with different instance counts.

S_c(b | k others) = S_1(b) (1 + delta_b k) (research.md 3), k being the others that are active when an
execution starts. Counters give only the mean activity, and small batches meet other company than large ones,
so the twin plays each run's own requests and tells the mean k of every size; that needs delta, which needs k:
both are found together by iteration.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.optimize import minimize_scalar

from tritune.model.profile import Figure
from tritune.model.requests import Floats, Int64
from tritune.model.server import BatchStat
from tritune.stats.student import t_quantile
from tritune.twin.engine.simulate import Simulated
from tritune.twin.engine.timing import Timing
from tritune.twin.fit.calibration_run import CalibrationRun, played
from tritune.twin.fit.service_fit import fit_service
from tritune.twin.fit.variation import Stats

# The mean number of others active must differ by this much between instance counts to show anything.
MIN_DIFFERENCE = 0.15
# Fewer executions of a size tell more about chance than about company.
MIN_COUNT = 5
# Sizes differ where the line through them rises or falls by more than chance, and by this much in all.
MIN_BY_SIZE = 0.1
ROUNDS = 12
SETTLED = 1e-3
# Ten instances that take turns slow each other down by 1; what is far above is no contention.
MOST = 8.0
PLAYS = 2
# Parts are left out in blocks of neighbours; more blocks cost time and tell no more.
BLOCKS = 10
MIN_BLOCKS = 5


@dataclass(frozen=True)
class Contention:
    """`value` over all sizes with its interval; `by_size` at the sizes that ran, where they clearly differ.
    `others[r][b]`: mean others active when size b started in run r. `why`: the reason of a value None.
    """

    value: Figure | None
    by_size: Mapping[int, float] = field(default_factory=dict)
    others: Sequence[Mapping[int, float]] = ()
    why: str = ""

    def slowed(self, run: int, size: int) -> float:
        """By how much executions of a size were longer in a run than alone; 1 where nothing is known."""
        if self.value is None:
            return 1.0
        company = self.others[run].get(size, 0.0)
        return 1.0 + self.of(size) * company

    def of(self, size: int) -> float:
        """delta of one size: between known ones on straight lines, beyond as the nearest."""
        if self.by_size:
            sizes = sorted(self.by_size)
            return float(np.interp(size, sizes, [self.by_size[s] for s in sizes]))
        return self.value.value if self.value is not None else 0.0


def fit_contention(runs: Sequence[CalibrationRun], parts: Sequence[Sequence[Stats]], cv: float) -> Contention:
    """The contention that these runs show; `parts[r]` are the batch statistics of the parts of run r.

    The interval comes from leaving out block after block of parts (jackknife); without parts there is none.
    A value None says why: one instance count only, or counts whose instances had about the same company.
    """
    counts = sorted({run.config.instances for run in runs})
    if len(counts) < 2:
        return Contention(None, why=f"how instances slow each other down: all runs had {counts[0]} of them")
    totals = [_sum(stats) for stats in parts]
    table, others, (delta, _) = _settle(runs, totals, cv, by_size=False)
    if table.spread < MIN_DIFFERENCE:
        return Contention(None, others=others, why=_alike(runs, others))
    blocks = [_blocks(stats) for stats in parts]
    half = _half_width(blocks, totals, lambda left: _Table.of(left, others).fit(by_size=False)[0])
    low, high = (None, None) if half is None else (max(0.0, delta - half), delta + half)
    value = Figure(delta, low, high)
    slope = table.fit(by_size=True)[1]
    doubt = _half_width(blocks, totals, lambda left: _Table.of(left, others).fit(by_size=True)[1])
    wide = int(table.sizes.max() - table.sizes.min())
    if doubt is None or abs(slope) <= doubt or abs(slope) * wide < MIN_BY_SIZE:
        return Contention(value, others=others)
    table, others, (delta, slope) = _settle(runs, totals, cv, by_size=True)
    by_size = {int(b): max(0.0, delta + slope * (b - table.centre)) for b in table.sizes}
    return Contention(value, by_size, others)


def _settle(
    runs: Sequence[CalibrationRun], totals: Sequence[Stats], cv: float, *, by_size: bool
) -> tuple[_Table, list[dict[int, float]], tuple[float, float]]:
    """Play, count the company, fit, until both agree."""
    largest = max(max(1, run.config.max_batch_size) for run in runs)
    delta, slope = 0.0, 0.0
    table = _Table.of(totals, [{} for _ in runs])
    for _ in range(ROUNDS):
        times = fit_service(table.alone(delta, slope), {}, largest=largest, cv=cv)
        known = sorted(times)
        service = np.interp(np.arange(largest + 1), known, [times[b].ns for b in known])
        slows = tuple(max(0.0, delta + slope * (b - table.centre)) for b in range(largest + 1))
        others = [_others(run, Timing(tuple(service.tolist()), contention=slows, cv=cv)) for run in runs]
        table = _Table.of(totals, others)
        before, (delta, slope) = (delta, slope), table.fit(by_size=by_size)
        if abs(delta - before[0]) < SETTLED and abs(slope - before[1]) < SETTLED:
            break
    return table, others, (delta, slope)


def _others(run: CalibrationRun, timing: Timing) -> dict[int, float]:
    """Mean others active at the start of an execution, by its size, over PLAYS plays."""
    plays = [played(run, timing, seed) for seed in range(1, PLAYS + 1)]
    size = np.concatenate([play.batch_items for play in plays])
    company = np.concatenate([others_at_start(play) for play in plays])
    return {int(b): float(company[size == b].mean()) for b in np.unique(size)}


def others_at_start(play: Simulated) -> Int64:
    """Per batch: how many others execute at the instant at which it starts."""
    started = np.arange(len(play.batch_start_ns))
    ended: Int64 = np.searchsorted(np.sort(play.batch_done_ns), play.batch_start_ns, side="right")
    return started - ended


@dataclass(frozen=True)
class _Table:
    """Per run (row) and size (column): executions, their mean ns, others active; count 0 for too few.

    `centre`: the size at which `delta` is meant, the mean over all executions.
    """

    sizes: Int64
    count: Floats
    mean: Floats
    others: Floats
    centre: float

    @classmethod
    def of(cls, totals: Sequence[Stats], others: Sequence[Mapping[int, float]]) -> _Table:
        sizes = sorted({b for stats in totals for b, stat in stats.items() if stat.count >= MIN_COUNT})
        rows = [[stats.get(b, BatchStat()) for b in sizes] for stats in totals]
        count = np.array([[s.count if s.count >= MIN_COUNT else 0 for s in row] for row in rows], float)
        mean = np.array([[s.ns / s.count if s.count else 0.0 for s in row] for row in rows])
        company = np.array([[k.get(b, 0.0) for b in sizes] for k in others])
        centre = float((count * sizes).sum() / max(count.sum(), 1.0))
        return cls(np.array(sizes), count, mean, company, centre)

    @property
    def spread(self) -> float:
        """By how much the company differs between runs, on average over the executions of all sizes."""
        ran = self.count > 0
        both = ran.sum(axis=0) > 1
        if not both.any():
            return 0.0
        most = np.where(ran, self.others, -math.inf).max(axis=0)[both]
        least = np.where(ran, self.others, math.inf).min(axis=0)[both]
        return float(np.average(most - least, weights=self.count.sum(axis=0)[both]))

    def slowed(self, delta: float, slope: float) -> Floats:
        """1 + delta_b k of every cell."""
        found: Floats = 1 + np.maximum(0.0, delta + slope * (self.sizes - self.centre)) * self.others
        return found

    def alone_ns(self, delta: float, slope: float) -> Floats:
        """S_1 of each size: its mean over all runs without what the company cost."""
        total = np.maximum(self.count.sum(axis=0), 1e-9)
        found: Floats = (self.count * self.mean / self.slowed(delta, slope)).sum(axis=0) / total
        return found

    def alone(self, delta: float, slope: float) -> dict[int, BatchStat]:
        """As batch statistics."""
        counts = self.count.sum(axis=0).astype(int).tolist()
        each = zip(self.sizes.tolist(), counts, self.alone_ns(delta, slope).tolist(), strict=True)
        return {b: BatchStat(n, 0, round(n * ns), 0) for b, n, ns in each if n}

    def fit(self, *, by_size: bool) -> tuple[float, float]:
        """(delta, slope over the sizes) of least squares; S_1(b) is whatever fits each size best."""
        if not by_size:
            return self._best(0.0)[0], 0.0
        wide = max(1, int(self.sizes.max() - self.sizes.min()))
        slope = _minimum(lambda s: self._best(s)[1], -MOST / wide, MOST / wide, 1e-3 / wide)[0]
        return self._best(slope)[0], slope

    def _best(self, slope: float) -> tuple[float, float]:
        return _minimum(lambda delta: self._squares(delta, slope), 0.0, MOST, 1e-4)

    def _squares(self, delta: float, slope: float) -> float:
        expected = self.alone_ns(delta, slope) * self.slowed(delta, slope)
        relative = np.divide(self.mean, expected, out=np.ones_like(expected), where=expected > 0)
        return float((self.count * (relative - 1) ** 2).sum())


def _minimum(of: Callable[[float], float], low: float, high: float, within: float) -> tuple[float, float]:
    found = minimize_scalar(of, bounds=(low, high), method="bounded", options={"xatol": within})
    return float(found.x), float(found.fun)


def _half_width(
    blocks: Sequence[Sequence[Stats]], totals: Sequence[Stats], of: Callable[[Sequence[Stats]], float]
) -> float | None:
    """Half the 95 % interval of a figure; None where a run has too few blocks to tell."""
    if min(len(block) for block in blocks) < MIN_BLOCKS:
        return None
    variance = 0.0
    for r, block in enumerate(blocks):
        left = [
            of([_less(totals[r], one) if i == r else total for i, total in enumerate(totals)])
            for one in block
        ]
        variance += (len(left) - 1) * float(np.var(left))
    return t_quantile(min(len(block) for block in blocks) - 1) * math.sqrt(variance)


def _blocks(stats: Sequence[Stats]) -> list[Stats]:
    """Neighbouring parts together, BLOCKS at most."""
    cuts = np.array_split(np.arange(len(stats)), min(BLOCKS, len(stats)))
    return [_sum([stats[i] for i in cut]) for cut in cuts]


def _sum(stats: Sequence[Stats]) -> dict[int, BatchStat]:
    total: dict[int, BatchStat] = {}
    for stat in stats:
        for size, one in stat.items():
            total[size] = total.get(size, BatchStat()) + one
    return total


def _less(total: Stats, block: Stats) -> dict[int, BatchStat]:
    return {size: stat - block.get(size, BatchStat()) for size, stat in total.items()}


def _alike(runs: Sequence[CalibrationRun], others: Sequence[Mapping[int, float]]) -> str:
    company = [
        f"{np.average(list(k.values())):.2f} with {run.config.instances}"
        for run, k in zip(runs, others, strict=True)
    ]
    return (
        "how instances slow each other down: they were hardly ever active together, or as much in every run "
        f"(others active at the start of an execution: {', '.join(company)}); measure at a higher rate"
    )
