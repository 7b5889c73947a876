"""Percentiles of one run with 95 % intervals that hold although neighbouring latencies are alike.

Under load the slow requests come in episodes (one busy spell delays all that wait in it), so 30 slow
requests may be two events. Intervals for independent samples then cover 13-62 % instead of 95 %
(research.md 4). Here two intervals are made and their hull is given:

- batch quantiles (research.md 4): the percentile of 5 to 10 consecutive blocks, a t-interval on their
  logarithms, centred on the percentile of the whole run because short blocks are biased low;
- episode ranks: the run is cut where the latency returns below its median; the share of slow requests
  gets the standard error of the ratio estimator over these cycles, and the ranks move by it.

Simulated coverage with at least MIN_EPISODES slow episodes: 94-97 % up to a load of 0.7; at 0.8 between
82 and 90 %, more with longer runs (tests/stats/test_quantiles.py). Fewer episodes, or a rank beyond the
slowest request: no interval.
"""

from __future__ import annotations

import numpy as np

from tritune.model.measurement import Estimate
from tritune.model.requests import Floats, Int64
from tritune.stats.student import t_quantile
from tritune.units import NEVER_NS

MIN_EPISODES = 10
# A block needs a few slow episodes of its own, so there are more blocks where there are more episodes.
MIN_BLOCKS, MAX_BLOCKS, EPISODES_PER_BLOCK = 5, 10, 6

PERCENTILES = {"p50": 0.5, "p90": 0.9, "p95": 0.95, "p99": 0.99, "p99.9": 0.999}


def quantile(latency_ns: Floats, q: float) -> float:
    """The smallest latency that at least a share q of the requests does not exceed; may be infinite.

    An order statistic (no interpolation), so infinite entries cannot leak into finite ones.
    Raises ValueError for an empty array or q outside (0, 1].
    """
    if not 0 < q <= 1:
        raise ValueError(f"a quantile lies in (0, 1], got {q}")
    if not len(latency_ns):
        raise ValueError("no latencies")
    rank = _rank(len(latency_ns), q)
    return float(np.partition(latency_ns, rank)[rank])


def estimate(latency_ns: Floats, q: float) -> Estimate:
    """The q-quantile with its 95 % interval, ns; `latency_ns` in planned order, infinite = failed.

    No latencies: an empty Estimate. Failed requests reach q: NEVER_NS. Too few separate slow episodes to
    tell how sure the value is: None bounds.
    """
    if not len(latency_ns):
        return Estimate()
    value = quantile(latency_ns, q)
    bounds = _bounds(latency_ns, q, value)
    if bounds is None:
        return Estimate(_finite(value))
    low, high = bounds
    return Estimate(_finite(value), _finite(min(low, value)), _finite(max(high, value)))


def percentiles(latency_ns: Floats) -> dict[str, Estimate]:
    """The keys of Measurement.latency: mean, p50, p90, p95, p99, p99.9, ns.

    Percentiles are over all planned requests (a failed one is infinitely late). The mean is over the
    answered ones only, because a mean with infinities says nothing; read it beside the error count.
    """
    return {"mean": _mean(latency_ns)} | {name: estimate(latency_ns, q) for name, q in PERCENTILES.items()}


def block_p99(latency_ns: Floats, planned_ns: Int64, blocks: int = 10) -> tuple[float, ...]:
    """p99 of `blocks` consecutive slices of the plan with equally many requests each, ns.

    Row i of both arrays is the same request. The same plan gives the same slices, so slice i of one run
    pairs with slice i of another. A slice that failed requests reach is NEVER_NS. Fewer than two
    requests a slice: no slices.
    """
    if len(latency_ns) != len(planned_ns):
        raise ValueError(f"{len(latency_ns)} latencies for {len(planned_ns)} planned instants")
    if len(latency_ns) < 2 * blocks:
        return ()
    ordered = latency_ns[np.argsort(planned_ns, kind="stable")]
    return tuple(_finite(quantile(block, 0.99)) for block in np.array_split(ordered, blocks))


def _rank(n: int, q: float) -> int:
    # The small subtraction keeps 0.99 * 100 = 99.00000000000001 from becoming rank 100.
    return min(n, max(1, int(np.ceil(q * n - 1e-9)))) - 1


def _finite(value: float) -> float:
    # A plain float: numpy's own is a number to Python and not to JSON.
    return float(value) if np.isfinite(value) else NEVER_NS


def _cycles(latency_ns: Floats) -> Int64:
    """The cycle each request belongs to: a new one starts where the latency returns below its median."""
    below = latency_ns <= quantile(latency_ns, 0.5)
    starts = np.zeros(len(latency_ns), np.int64)
    starts[1:] = below[1:] & ~below[:-1]
    return np.cumsum(starts)


def _bounds(latency_ns: Floats, q: float, value: float) -> tuple[float, float] | None:
    n = len(latency_ns)
    cycle = _cycles(latency_ns)
    # ">=" where the value is infinite or tied at the top: nothing lies above it, yet it is slow.
    slow = (latency_ns > value) if np.isfinite(value) else (latency_ns >= value)
    sizes = np.bincount(cycle).astype(np.float64)
    slow_sizes = np.bincount(cycle, weights=slow, minlength=len(sizes))
    episodes = int((slow_sizes > 0).sum())
    if episodes < MIN_EPISODES:
        return None
    error = float(np.sqrt(((slow_sizes - slow.mean() * sizes) ** 2).sum())) / n
    shift = t_quantile(episodes - 1) * error
    if (q + shift) * n > n - 1 and np.isfinite(value):
        return None  # the upper rank lies beyond the slowest request that was seen
    low = quantile(latency_ns, max(q - shift, 1 / n))
    high = quantile(latency_ns, min(q + shift, 1.0))

    k = min(MAX_BLOCKS, max(MIN_BLOCKS, episodes // EPISODES_PER_BLOCK))
    blocks = np.array([quantile(block, q) for block in np.array_split(latency_ns, k)])
    if not np.isfinite(blocks).all():
        # Logarithms of infinity have no mean: the extremes of the blocks stand in for the t-interval.
        return min(low, float(blocks.min())), max(high, float(blocks.max()))
    if (blocks <= 0).any():
        return None
    half = _half_width(np.log(blocks))
    return min(low, value * np.exp(-half)), max(high, value * np.exp(half))


def _half_width(logs: Floats) -> float:
    return t_quantile(len(logs) - 1) * float(logs.std(ddof=1)) / float(np.sqrt(len(logs)))


def _mean(latency_ns: Floats) -> Estimate:
    answered = latency_ns[np.isfinite(latency_ns)]
    if not len(answered):
        return Estimate()
    value = float(answered.mean())
    cycles = int(_cycles(answered)[-1]) + 1
    if cycles < MIN_EPISODES:
        return Estimate(value)
    k = min(MAX_BLOCKS, max(MIN_BLOCKS, cycles // EPISODES_PER_BLOCK))
    means = np.array([block.mean() for block in np.array_split(answered, k)])
    if (means <= 0).any():
        return Estimate(value)
    half = _half_width(np.log(means))
    return Estimate(value, value * float(np.exp(-half)), value * float(np.exp(half)))
