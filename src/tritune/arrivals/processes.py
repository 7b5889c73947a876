"""Constant and Poisson arrivals as planned instants; the same seed gives the same plan."""

from __future__ import annotations

import math

import numpy as np

from tritune.errors import UsageError
from tritune.model.requests import Int64
from tritune.model.workload import Arrivals
from tritune.units import NS_PER_S, format_duration

# Beyond this the columns of a run no longer fit an ordinary machine's memory (about 100 B per request).
MAX_REQUESTS = 50_000_000
# One request per day up to ten per microsecond: outside, a unit was mistaken.
MIN_RATE_PER_S = 1 / 86_400
MAX_RATE_PER_S = 10_000_000.0


def plan(
    rate_per_s: float,
    arrivals: Arrivals,
    seed: int,
    *,
    count: int | None = None,
    duration_ns: int | None = None,
) -> Int64:
    """Planned instants, ns from 0, in order; requests may share an instant.

    constant: request i at i / rate. poisson: exponential gaps of mean 1 / rate, the first gap before the
    first request, drawn from numpy's PCG64(seed). With `count` there are exactly that many (count wins
    where both are given); with `duration_ns` those that fall before it, for Poisson a random number with
    mean rate x duration, possibly none. Either way the first instants of a longer plan are the shorter plan.

    Raises UsageError for a rate, count or duration that is not positive, a rate no machine can send, more
    than MAX_REQUESTS requests, a negative seed, or neither count nor duration.
    """
    _check(rate_per_s, arrivals, seed, count, duration_ns)
    gap_ns = NS_PER_S / rate_per_s
    if count is not None:
        return _instants(arrivals, gap_ns, seed, count)
    assert duration_ns is not None  # noqa: S101 - _check refused a plan without an end
    expected = duration_ns / gap_ns
    # Ten standard deviations above the mean: a Poisson process longer than this has probability < 1e-20.
    instants = _instants(arrivals, gap_ns, seed, math.ceil(expected + 10 * math.sqrt(expected) + 20))
    return instants[: int(np.searchsorted(instants, duration_ns))]


def _instants(arrivals: Arrivals, gap_ns: float, seed: int, count: int) -> Int64:
    if arrivals == "constant":
        exact = np.arange(count, dtype=np.float64) * gap_ns
    else:
        exact = np.cumsum(np.random.Generator(np.random.PCG64(seed)).exponential(gap_ns, count))
    instants: Int64 = np.rint(exact).astype(np.int64)
    return instants


def _check(rate_per_s: float, arrivals: str, seed: int, count: int | None, duration_ns: int | None) -> None:
    if not MIN_RATE_PER_S <= rate_per_s <= MAX_RATE_PER_S:  # also refuses NaN
        raise UsageError(
            f"a rate of {rate_per_s:g} requests per second cannot be sent",
            slug="bad-rate",
            hint="Give a positive number of requests per second, for example --rate 200.",
        )
    if arrivals not in ("poisson", "constant"):
        raise UsageError(
            f"'{arrivals}' is not a pattern of arrivals",
            slug="bad-arrivals",
            hint="Use poisson or constant.",
        )
    if seed < 0:
        raise UsageError(f"the seed {seed} is negative", slug="bad-seed", hint="Use 0, 1, 2, ...")
    if count is None and duration_ns is None:
        raise UsageError(
            "the load has no end", slug="no-end", hint="Say how long (--for 30s) or how many (-n 2000)."
        )
    if count is not None and count <= 0:
        raise UsageError(
            f"{count} requests are no load", slug="bad-count", hint="Ask for at least one request, -n 2000."
        )
    if count is None and duration_ns is not None and duration_ns <= 0:
        raise UsageError(
            "the load's duration is not positive",
            slug="bad-load-duration",
            hint="Give a time such as --for 30s.",
        )
    expected = count if count is not None else rate_per_s * (duration_ns or 0) / NS_PER_S
    if expected > MAX_REQUESTS:
        length = f"{count} requests" if count is not None else format_duration(duration_ns or 0)
        raise UsageError(
            f"{length} at {rate_per_s:g}/s is more than the {MAX_REQUESTS:,} requests that one run may hold",
            slug="load-too-long",
            hint="Use a shorter time or a lower rate.",
        )
    if expected < 1 and count is None:
        raise UsageError(
            f"at {rate_per_s:g}/s no request falls into {format_duration(duration_ns or 0)}",
            slug="load-too-short",
            hint="Use a longer time or a higher rate.",
        )
