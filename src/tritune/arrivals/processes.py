"""Constant, Poisson and on/off arrivals as planned instants; the same seed gives the same plan."""

from __future__ import annotations

import math

import numpy as np

from tritune.errors import UsageError
from tritune.model.requests import Floats, Int64
from tritune.model.workload import Arrivals, Bursts
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
    bursts: Bursts | None = None,
) -> Int64:
    """Planned instants, ns from 0, in order; requests may share an instant.

    constant: request i at i / rate. poisson: exponential gaps of mean 1 / rate, the first gap before the
    first request, drawn from numpy's PCG64(seed). on-off: the same unit gaps, stretched by the rate of the
    state that holds (`bursts`), whose changes come at the same instants whatever the rate.

    With `count` there are exactly that many (count wins where both are given); with `duration_ns` those that
    fall before it: not a fixed number (except for constant), rate x duration on average. The first instants
    of a longer plan are the shorter plan.

    Raises UsageError for a rate, count or duration that is not positive, a rate no machine can send, more
    than MAX_REQUESTS requests, a negative seed, neither count nor duration, on-off arrivals without bursts,
    and bursts that are none.
    """
    _check(rate_per_s, arrivals, seed, count, duration_ns)
    if (bursts is not None) != (arrivals == "on-off") or (bursts is not None and not _possible(bursts)):
        raise UsageError(
            "on-off arrivals need a ratio of at least 1, a dwell time above 0 and a duty between 0 and 1",
            slug="bad-bursts",
            hint="For example ratio 8, dwell 200 ms, duty 0.2; other arrivals take none of them.",
        )
    gap_ns = NS_PER_S / rate_per_s
    if bursts is not None:
        return _on_off(rate_per_s, bursts, seed, count, duration_ns)
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


def _on_off(
    rate_per_s: float, bursts: Bursts, seed: int, count: int | None, duration_ns: int | None
) -> Int64:
    """Poisson arrivals of unit rate through the inverse of the cumulated rate of the two states."""
    calm = rate_per_s / NS_PER_S / (1 + bursts.duty * (bursts.ratio - 1))
    ends, expected = _states(bursts, calm, seed, count, duration_ns)
    unit = np.random.Generator(np.random.PCG64(seed))
    if count is not None:
        exact = np.interp(np.cumsum(unit.exponential(1.0, count)), expected, ends)
        return np.rint(exact).astype(np.int64)
    assert duration_ns is not None  # noqa: S101 - _check refused a plan without an end
    most = float(np.interp(duration_ns, ends, expected))
    places = np.cumsum(unit.exponential(1.0, math.ceil(most + 10 * math.sqrt(most) + 20)))
    exact = np.interp(places[places < most], expected, ends)
    instants: Int64 = np.rint(exact).astype(np.int64)
    return instants[: int(np.searchsorted(instants, duration_ns))]


def _states(
    bursts: Bursts, calm: float, seed: int, count: int | None, duration_ns: int | None
) -> tuple[Floats, Floats]:
    """Ends of the states, ns, and the requests expected until then; both begin with 0 and reach the end."""
    draws = np.random.Generator(np.random.PCG64([seed, 1]))
    first = draws.random() < bursts.duty
    calm_ns = bursts.dwell_ns * (1 - bursts.duty) / bursts.duty
    ends, expected = [np.zeros(1)], [np.zeros(1)]
    needed = None if count is None else count + 10 * math.sqrt(count) + 20
    while (expected[-1][-1] < needed) if needed is not None else (ends[-1][-1] < (duration_ns or 0)):
        pairs = draws.exponential(1.0, (512, 2))
        on_first = np.array([bursts.dwell_ns, calm_ns]) if first else np.array([calm_ns, bursts.dwell_ns])
        rates = np.array([bursts.ratio, 1.0] if first else [1.0, bursts.ratio]) * calm
        lengths = pairs * on_first
        ends.append(ends[-1][-1] + np.cumsum(lengths.ravel()))
        expected.append(expected[-1][-1] + np.cumsum((lengths * rates).ravel()))
    return np.concatenate(ends), np.concatenate(expected)


def _possible(bursts: Bursts) -> bool:
    return 1 <= bursts.ratio < math.inf and bursts.dwell_ns > 0 and 0 < bursts.duty < 1


def _check(rate_per_s: float, arrivals: str, seed: int, count: int | None, duration_ns: int | None) -> None:
    if not MIN_RATE_PER_S <= rate_per_s <= MAX_RATE_PER_S:  # also refuses NaN
        raise UsageError(
            f"a rate of {rate_per_s:g} requests per second cannot be sent",
            slug="bad-rate",
            hint="Give a positive number of requests per second, for example --rate 200.",
        )
    if arrivals not in ("poisson", "constant", "on-off"):
        raise UsageError(
            f"'{arrivals}' is not a pattern of arrivals",
            slug="bad-arrivals",
            hint="Use poisson, constant or on-off.",
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
