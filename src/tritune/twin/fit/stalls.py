"""Rare executions that take far longer than their size explains, from the parts of a run.

Counters hold sums, so one stall shows as a part in which one size took much longer than ever else. It counts
only where the client saw a request that took as long, and where the other sizes of the part did not slow
down with it: a machine that is slow for a second has no stall.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
from scipy.special import betaincinv

from tritune.model.profile import Figure
from tritune.model.requests import Kind, RequestLog
from tritune.model.server import BatchStat, ServerWindow
from tritune.stats.student import t_quantile
from tritune.twin.fit.variation import MIN_WINDOWS, Cells, Stats, batch_stats
from tritune.units import NS_PER_S

# So many standard deviations (by the median absolute deviation) above the median of the size is no noise.
FAR = 6.0
# A stall of less than this part of an execution is noise for the tail as well.
SMALLEST = 0.5
# What stands out in more parts than that does not stand out from a median.
MOST_PARTS = 0.4
# The client must have seen a request that took at least this share of the stall.
SEEN = 0.7
# How far our clock's zero may lie from the first read of the counters.
_CLOCK_NS = NS_PER_S
_TO_SIGMA = 1.4826


@dataclass(frozen=True)
class Stalls:
    """`p` per execution and mean `ns`, None where the run cannot show them. `excess_ns`: by size, the time of
    the stalls, which S(b) must not hold a second time; `parts`: batch statistics without that time.
    """

    p: Figure | None = None
    ns: Figure | None = None
    excess_ns: Mapping[int, int] = field(default_factory=dict)
    parts: Sequence[Stats] = ()


def find_stalls(parts: Sequence[ServerWindow], start_ns: int, log: RequestLog) -> Stalls:
    """The stalls in the parts of a run that began about `start_ns` on the clock of the parts.

    Fewer than MIN_WINDOWS parts: nothing. None seen in n executions: p = 0, at most 3 / n.
    """
    used = [part for part in parts if batch_stats([part])]
    stats = batch_stats(used)
    if len(stats) < MIN_WINDOWS:
        return Stalls(parts=stats)
    cells = Cells.of(stats)
    executions = int(cells.count.sum())
    found = [(k, j, ns) for k, j, ns in _outliers(cells, stats) if _seen(used[k], start_ns, log, ns)]
    if len({k for k, _, _ in found}) > MOST_PARTS * len(stats):
        return Stalls(parts=stats)
    if not found:
        return Stalls(Figure(0.0, 0.0, 3 / executions), parts=stats)
    cleaned, excess = [dict(stat) for stat in stats], dict.fromkeys(cells.sizes, 0)
    for k, j, ns in found:
        size = cells.sizes[j]
        cleaned[k][size] = without(cleaned[k][size], round(ns))
        excess[size] += round(ns)
    lengths = [ns for _, _, ns in found]
    return Stalls(
        binomial(len(found), executions), _mean(lengths), {s: ns for s, ns in excess.items() if ns}, cleaned
    )


def binomial(hits: int, tries: int) -> Figure:
    """hits / tries with the exact (Clopper-Pearson) 95 % interval; for none the one-sided bound 3 / n."""
    if not hits:
        return Figure(0.0, 0.0, min(1.0, 3 / tries))
    low = float(betaincinv(hits, tries - hits + 1, 0.025))
    high = 1.0 if hits == tries else float(betaincinv(hits + 1, tries - hits, 0.975))
    return Figure(hits / tries, low, high)


def without(stat: BatchStat, ns: int) -> BatchStat:
    """The same executions in so much less time."""
    return BatchStat(stat.count, stat.input_ns, max(0, stat.infer_ns - ns), stat.output_ns)


def _outliers(cells: Cells, stats: Sequence[Stats]) -> list[tuple[int, int, float]]:
    """(part, column of the size, ns too many) of what stands out alone in its part."""
    ran = cells.count > 0
    middle = np.array([np.median(cells.relative[ran[:, j], j]) for j in range(len(cells.sizes))])
    z = np.where(ran, (cells.relative - middle) * np.sqrt(cells.count), 0.0)
    scale = max(_TO_SIGMA * float(np.median(np.abs(z[ran]))), 1e-3)
    found = []
    for k, j in zip(*np.nonzero(z > FAR * scale), strict=True):
        others = ran[k].copy()
        others[j] = False
        # All other sizes of the part together, weighed by their executions.
        slow = float((z[k, others] * np.sqrt(cells.count[k, others])).sum())
        many = math.sqrt(float(cells.count[k, others].sum()))
        if many and slow / many > FAR * scale:
            continue
        stat = stats[k][cells.sizes[j]]
        mean = stat.ns / stat.count / cells.relative[k, j] * middle[j]
        if (too_much := stat.ns - stat.count * mean) > SMALLEST * mean:
            found.append((int(k), int(j), too_much))
    return found


def _seen(part: ServerWindow, start_ns: int, log: RequestLog, ns: float) -> bool:
    """Whether a request that ended about then took that long."""
    ended = log.done_ns + start_ns
    near = (log.kind == Kind.OK) & (ended >= part.t0_ns - _CLOCK_NS) & (ended <= part.t1_ns + _CLOCK_NS)
    return bool(near.any()) and int((log.done_ns - log.planned_ns)[near].max()) >= SEEN * ns


def _mean(lengths: Sequence[float]) -> Figure:
    mean = float(np.mean(lengths))
    if len(lengths) < 2:
        return Figure(mean)
    half = t_quantile(len(lengths) - 1) * float(np.std(lengths, ddof=1)) / math.sqrt(len(lengths))
    return Figure(mean, max(0.0, mean - half), mean + half)
