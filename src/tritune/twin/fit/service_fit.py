"""S(b) for every batch size from the executions of some: isotonic where measured, a straight line beyond."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tritune.errors import ExitCode, TrituneError
from tritune.model.profile import ServiceSource, ServiceTime
from tritune.model.server import BatchStat
from tritune.twin.fit.service import MIN_EXECUTIONS

# Beyond this multiple of the largest size that ran (or this part of the smallest) nothing is predicted.
FARTHEST = 2.0
# A warm-up begins with the smallest sizes, and its first executions are slow; as many of them hide that.
FIRM = 20
_Z95 = 1.959963984540054


def isotonic(values: Sequence[float], weights: Sequence[float]) -> list[float]:
    """The nearest non-decreasing sequence in weighted least squares (pool adjacent violators)."""
    blocks: list[tuple[float, float, int]] = []  # value, weight, length
    for value, weight in zip(values, weights, strict=True):
        blocks.append((value, weight, 1))
        while len(blocks) > 1 and blocks[-2][0] > blocks[-1][0]:
            (v1, w1, n1), (v2, w2, n2) = blocks[-2], blocks[-1]
            blocks[-2:] = [((v1 * w1 + v2 * w2) / (w1 + w2), w1 + w2, n1 + n2)]
    return [value for value, _, length in blocks for _ in range(length)]


def fit_service(
    measured: Mapping[int, BatchStat],
    warm_up: Mapping[int, BatchStat],
    *,
    largest: int,
    cv: float,
) -> dict[int, ServiceTime]:
    """S(b) for b = 1 .. largest, never falling with b (research.md 3).

    Sizes with at least MIN_EXECUTIONS in the window count as measured; for others the executions of the
    warm-up before it stand in, then whatever there is. Sizes between known ones are interpolated, sizes
    outside lie on the weighted straight line through the known ones and are marked so. One known size alone
    gives no line: only that size gets a service time. A few warm-up executions of a size below all others
    count only where they are quicker than that line: the first ones of a model are slow.

    Raises TrituneError (twin-no-batches) where nothing was executed.
    """
    known = _known(measured, warm_up, largest)
    if not known:
        raise TrituneError(
            "the run has no batch statistics, so the time that a batch takes is not known",
            slug="twin-no-batches",
            hint="Measure with tritune load against the server's HTTP endpoint; its metrics page has none.",
            exit_code=ExitCode.NOT_TRUSTWORTHY,
        )
    cold = _cold(known)
    sizes = [size for size in sorted(known) if size not in cold]
    stats = [known[size][0] for size in sizes]
    fitted = isotonic([stat.ns / stat.count for stat in stats], [float(stat.count) for stat in stats])
    times = {
        size: _time(ns, stat.count, cv, known[size][1])
        for size, ns, stat in zip(sizes, fitted, stats, strict=True)
    }
    if len(sizes) > 1:
        base, slope = line(sizes, fitted, [stat.count for stat in stats])
        for size in range(1, largest + 1):
            if size not in times:
                ran = known[size][0].count if size in cold else 0
                times[size] = _between(size, sizes, fitted, base, slope, ran)
    return dict(sorted(times.items()))


def line(sizes: Sequence[int], ns: Sequence[float], weights: Sequence[int]) -> tuple[float, float]:
    """base and slope of the weighted least-squares line; neither is negative."""
    w = np.asarray(weights, float)
    x, y = np.asarray(sizes, float), np.asarray(ns, float)
    mean_x, mean_y = float(np.average(x, weights=w)), float(np.average(y, weights=w))
    slope = float((w * (x - mean_x) * (y - mean_y)).sum() / (w * (x - mean_x) ** 2).sum())
    slope = min(max(0.0, slope), mean_y / mean_x)
    return mean_y - slope * mean_x, slope


def reach(times: Mapping[int, ServiceTime]) -> tuple[float, float]:
    """The smallest and the largest batch size that may be predicted: a factor of FARTHEST around what ran."""
    ran = ran_sizes(times)
    return (min(ran) / FARTHEST, max(ran) * FARTHEST) if ran else (math.inf, 0.0)


def ran_sizes(times: Mapping[int, ServiceTime]) -> tuple[int, ...]:
    """The sizes that really ran, or for which a person gave a time."""
    return tuple(size for size, time in times.items() if time.executions or time.source == "given")


def _cold(known: Mapping[int, tuple[BatchStat, ServiceSource]]) -> set[int]:
    """Sizes whose few executions are the first ones of the model, slower than all others let expect."""
    firm = [s for s, (stat, source) in known.items() if source == "measured" or stat.count >= FIRM]
    if len(firm) < 2:
        return set()
    means = {size: stat.ns / stat.count for size, (stat, _) in known.items()}
    base, slope = line(firm, [means[s] for s in firm], [known[s][0].count for s in firm])
    return {size for size in known if size < min(firm) and means[size] > base + slope * size}


def _known(
    measured: Mapping[int, BatchStat], warm_up: Mapping[int, BatchStat], largest: int
) -> dict[int, tuple[BatchStat, ServiceSource]]:
    known: dict[int, tuple[BatchStat, ServiceSource]] = {}
    for size in sorted(measured.keys() | warm_up.keys()):
        here, before = measured.get(size, BatchStat()), warm_up.get(size, BatchStat())
        if not 1 <= size <= largest:
            continue
        if here.count >= MIN_EXECUTIONS or (here.count > 0 and not before.count):
            known[size] = (here, "measured")
        elif before.count:
            known[size] = (here + before, "warm-up")
    return {size: entry for size, entry in known.items() if entry[0].ns > 0}


def _time(ns: float, executions: int, cv: float, source: ServiceSource) -> ServiceTime:
    half = _Z95 * cv / math.sqrt(executions)
    return ServiceTime(ns, ns * max(0.0, 1 - half), ns * (1 + half), executions, source)


def _between(
    size: int, sizes: list[int], ns: list[float], base: float, slope: float, ran: int
) -> ServiceTime:
    if sizes[0] < size < sizes[-1]:
        return ServiceTime(float(np.interp(size, sizes, ns)), source="interpolated")
    straight = base + slope * size
    # Never below a smaller size that ran, nor above a larger one.
    bounded = max(straight, ns[-1]) if size > sizes[-1] else min(straight, ns[0])
    return ServiceTime(bounded, executions=ran, source="extrapolated")
