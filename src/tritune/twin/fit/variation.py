"""How executions vary, from counters that hold sums only: by comparing the parts of a run.

sigma_b^2 = sum_k n_bk (s_bk - S_b)^2 / (K_b - 1) (research.md 3) is unbiased for independent executions. What
slows a whole part down (a busy neighbour, a clock that changes) is multiplied by n_bk there, so a drift of
2 % would read as a variation of 20 %. It is common to all sizes of a part: the mean of each part is therefore
taken out along with the mean of each size (analysis of variance with two factors).
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from scipy.special import chdtri

from tritune.model.profile import Figure
from tritune.model.requests import Floats
from tritune.model.server import BatchStat, ServerWindow

Stats = Mapping[int, BatchStat]
# A variance from fewer parts is mostly chance.
MIN_WINDOWS = 5
MIN_FREEDOM = 4


def batch_stats(parts: Sequence[ServerWindow]) -> list[Stats]:
    """The batch statistics of each part in which anything ran."""
    stats = [part.counters.batch_stats or {} for part in parts if not part.reset]
    return [stat for stat in stats if any(s.count and s.ns > 0 for s in stat.values())]


@dataclass(frozen=True)
class Cells:
    """Means by part and size, relative to the mean of the size over all parts; count 0 where nothing ran."""

    sizes: tuple[int, ...]
    count: Floats
    relative: Floats

    @classmethod
    def of(cls, stats: Sequence[Stats]) -> Cells:
        """Rows are parts in order of time, columns sizes."""
        sizes = tuple(sorted({size for stat in stats for size, s in stat.items() if s.count and s.ns > 0}))
        count = np.array([[_of(stat, size).count for size in sizes] for stat in stats], float)
        ns = np.array([[_of(stat, size).ns for size in sizes] for stat in stats], float)
        count, ns = count.reshape(len(stats), len(sizes)), ns.reshape(len(stats), len(sizes))
        mean = ns.sum(axis=0) / np.maximum(count.sum(axis=0), 1)
        return cls(sizes, count, np.where(count > 0, ns / np.maximum(count, 1) / mean, 0.0))


def variation(parts: Sequence[ServerWindow]) -> Figure | None:
    """Coefficient of variation of one execution, with its interval; None for fewer than MIN_WINDOWS parts.

    Where each part holds one size only, successive parts are compared instead: what changes slowly then
    drops out, what changes quickly does not.
    """
    return variation_of(batch_stats(parts))


def variation_of(stats: Sequence[Stats]) -> Figure | None:
    """As `variation`, from batch statistics."""
    if len(stats) < MIN_WINDOWS:
        return None
    cells = Cells.of(stats)
    squares, freedom = _two_factors(cells)
    if freedom < MIN_FREEDOM:
        squares, freedom = _successive(cells)
    if freedom < MIN_FREEDOM:
        return None
    cv = math.sqrt(squares / freedom)
    low, high = (math.sqrt(squares / float(chdtri(freedom, p))) for p in (0.025, 0.975))
    return Figure(cv, low, high)


def _two_factors(cells: Cells) -> tuple[float, float]:
    """Residual sum of squares and degrees of freedom after the means of sizes and parts are taken out."""
    shared = (cells.count > 0).sum(axis=1) > 1
    count, y = cells.count[shared], cells.relative[shared]
    if not len(count):
        return 0.0, 0.0
    per_part = count.sum(axis=1)
    # Normal equations of the sizes once the parts are eliminated; singular, since only contrasts count.
    share = count / per_part[:, None]
    left = np.diag(count.sum(axis=0)) - count.T @ share
    right = (count * y).sum(axis=0) - share.T @ (count * y).sum(axis=1)
    of_size, _, rank, _ = np.linalg.lstsq(left, right, rcond=1e-9)
    of_part = (count * (y - of_size)).sum(axis=1) / per_part
    squares = float((count * (y - of_size - of_part[:, None]) ** 2).sum())
    return squares, float((count > 0).sum() - len(count) - rank)


def _successive(cells: Cells) -> tuple[float, float]:
    """As `_two_factors` from differences of successive parts of one size (von Neumann).

    They overlap, so they are worth two thirds of as many independent ones.
    """
    squares, pairs = 0.0, 0
    for column in range(len(cells.sizes)):
        ran = cells.count[:, column] > 0
        count, y = cells.count[ran, column], cells.relative[ran, column]
        squares += float((np.diff(y) ** 2 / (1 / count[1:] + 1 / count[:-1])).sum())
        pairs += max(0, len(count) - 1)
    return squares * 2 / 3, pairs * 2 / 3


def _of(stat: Stats, size: int) -> BatchStat:
    return stat.get(size, BatchStat())
