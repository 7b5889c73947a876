"""Whether instances slow each other down: the evidence that counters can give, and its limits.

An execution at equal batch size is slower the more other instances run: S_n(b) = S_1(b) (1 + delta x
others). One window in which all instances are always busy cannot show it: S_1 is not in it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import numpy as np

from tritune.model.server import ServerWindow
from tritune.twin.fit.service import ServicePoint, service_curve

# Slower than this at equal batch sizes, and fewer instances have the better p99 (research.md 9).
BREAK_EVEN = 0.25
MIN_EXECUTIONS = 10


@dataclass(frozen=True)
class Inflation:
    """How much slower executions of equal batch size are on one side: `ratio` with its 95 % interval."""

    ratio: float
    low: float
    high: float
    sizes: tuple[int, ...]
    executions: int

    @property
    def contend(self) -> bool:
        """Above the break-even beyond doubt."""
        return self.low > 1 and self.ratio >= 1 + BREAK_EVEN


def compare_instances(more: ServerWindow, fewer: ServerWindow) -> Inflation | None:
    """S(b) at equal b with more instances against fewer: the test that confirms contention.

    None where no size has MIN_EXECUTIONS on both sides, or a side has no batch statistics.
    """
    return _inflation(service_curve(more), service_curve(fewer))


def by_load(parts: Sequence[ServerWindow]) -> Inflation | None:
    """S(b) at equal b in the parts with the most traffic against those with the least.

    The parts are split by their item rate, which the clients decide; splitting by busy time would find
    slow moments because they are slow. None where the busy half has not at least 0.3 more instances at
    work on average than the quiet half: then nothing can be told.
    """
    usable = sorted((p for p in parts if p.seconds > 0 and service_curve(p)), key=_rate)
    if len(usable) < 2:
        return None
    half = len(usable) // 2
    quiet, busy = usable[:half], usable[-half:]
    if _active(busy) - _active(quiet) < 0.3:
        return None
    return _inflation(service_curve(reduce(add, busy)), service_curve(reduce(add, quiet)))


def kink(curve: Mapping[int, ServicePoint]) -> float | None:
    """How much more a batch of 1 would take, were it as the larger ones say: S_line(1) / S(1) - 1.

    With delay 0 a batch above 1 forms only while all instances are busy, so its execution always meets all
    the others; a batch of 1 also starts beside idle ones. Where instances contend, S(1) therefore lies below
    the line through S(2), S(3), ... A model that is specially fast at 1 looks the same: a hint, no proof.
    None with fewer than two larger sizes of MIN_EXECUTIONS.
    """
    often = {size: p for size, p in curve.items() if p.executions >= MIN_EXECUTIONS}
    larger = {size: p for size, p in often.items() if size > 1}
    if 1 not in often or len(larger) < 2:
        return None
    sizes = np.array(list(larger), np.float64)
    times = np.array([p.ns for p in larger.values()])
    weights = np.sqrt([p.executions for p in larger.values()])
    slope, base = np.polyfit(sizes, times, 1, w=weights)
    return float(base + slope) / often[1].ns - 1


def _rate(part: ServerWindow) -> float:
    return part.counters.inference_count / part.seconds


def _active(parts: Sequence[ServerWindow]) -> float:
    busy = sum(s.ns for p in parts for s in (p.counters.batch_stats or {}).values())
    return busy / sum(p.t1_ns - p.t0_ns for p in parts)


def _inflation(slow: Mapping[int, ServicePoint], fast: Mapping[int, ServicePoint]) -> Inflation | None:
    sizes = tuple(
        size
        for size in slow.keys() & fast.keys()
        if min(slow[size].executions, fast[size].executions) >= MIN_EXECUTIONS
    )
    if not sizes:
        return None
    weights = {s: 1 / (1 / slow[s].executions + 1 / fast[s].executions) for s in sizes}
    total = sum(weights.values())
    log_ratio = sum(w * math.log(slow[s].ns / fast[s].ns) for s, w in weights.items()) / total
    # Counters hold no spread. 0.5 is more than the coefficient of variation that executions of one size
    # have by contention itself, so the interval is wide rather than wrong.
    half = 1.96 * 0.5 / math.sqrt(total)
    executions = sum(min(slow[s].executions, fast[s].executions) for s in sizes)
    return Inflation(
        math.exp(log_ratio),
        math.exp(log_ratio - half),
        math.exp(log_ratio + half),
        tuple(sorted(sizes)),
        executions,
    )
