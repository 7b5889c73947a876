"""Arrivals that were recorded, played again in blocks: as bursty as they were, in another order.

The stationary bootstrap (Politis and Romano 1994): blocks begin anywhere in the record, have geometric
lengths, and run over its end into its beginning. Within a block gaps and sizes stay as they came, so bursts
shorter than a block survive; independent gaps would lose them. The mean block is the one of Politis and White
(2004, corrected by Patton, Politis and White 2009), which is chosen for the variance of sums of gaps: that is
what a queue feels.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from tritune.errors import UsageError
from tritune.model.requests import Floats, Int64
from tritune.units import NS_PER_S

# Fewer gaps say nothing of how arrivals follow each other.
MIN_GAPS = 50


@dataclass(frozen=True, eq=False)
class Recorded:
    """Gaps between consecutive requests, ns, the items of the later one of both, and the mean block."""

    gaps_ns: Int64
    items: Int64
    block: float

    @property
    def rate_per_s(self) -> float:
        """Requests per second of the record."""
        return NS_PER_S / float(self.gaps_ns.mean())


def recorded(instants_ns: Int64, items: Int64) -> Recorded:
    """The record of instants in order and the items of each request.

    Raises UsageError (record-too-short) for fewer than MIN_GAPS gaps, or instants that are all the same.
    """
    gaps = np.diff(instants_ns)
    if len(gaps) < MIN_GAPS or not gaps.any():
        raise UsageError(
            f"{len(instants_ns)} recorded requests are too few to play their arrivals again",
            slug="record-too-short",
            hint=f"Record at least {MIN_GAPS + 1} requests, for example with tritune load --for 30s.",
        )
    return Recorded(gaps, np.ascontiguousarray(items[1:]), block_length(gaps.astype(np.float64)))


def resample(record: Recorded, rate_per_s: float, seed: int, count: int) -> tuple[Int64, Int64]:
    """`count` instants, ns from 0, and the items of each; the same seed gives the same order of blocks.

    The gaps are those of the record, stretched to the rate: bursts get shorter at higher rates. The first
    instants of a longer plan are the shorter plan. Raises UsageError (bad-rate) for a rate that is not
    positive.
    """
    if not 0 < rate_per_s < math.inf:
        raise UsageError(f"a rate of {rate_per_s:g} requests per second cannot be sent", slug="bad-rate")
    places = _places(len(record.gaps_ns), record.block, seed, count)
    stretch = record.rate_per_s / rate_per_s
    exact = np.cumsum(record.gaps_ns[places].astype(np.float64)) * stretch
    instants: Int64 = np.rint(exact).astype(np.int64)
    return instants, record.items[places]


def block_length(gaps: Floats) -> float:
    """The mean block of the stationary bootstrap, from 1 (no memory) to min(3 sqrt(n), n / 3) requests."""
    n = len(gaps)
    longest = max(1.0, min(3 * math.sqrt(n), n / 3))
    centred = gaps - gaps.mean()
    memory = math.ceil(math.sqrt(n)) + 5
    spectrum = np.fft.rfft(centred, 1 << (2 * n).bit_length())
    covariance = np.fft.irfft(np.abs(spectrum) ** 2)[: 2 * memory + 1] / n
    if covariance[0] <= 0:
        return 1.0  # constant gaps
    # The last lag before five insignificant ones in a row (Politis and White 2004, footnote c).
    small = np.abs(covariance[1:] / covariance[0]) < 2 * math.sqrt(math.log10(n) / n)
    quiet = np.convolve(small, np.ones(5), "valid") >= 5
    last = int(np.argmax(quiet)) if quiet.any() else memory
    lags = np.arange(1, min(2 * last, len(covariance) - 1) + 1)
    if not len(lags):
        return 1.0
    # Flat-top window: 1 up to half of the lags, then down to 0.
    weights = np.clip(2 * (1 - lags / (2 * last)), 0, 1) * covariance[lags]
    variance = covariance[0] + 2 * float(weights.sum())
    slope = 2 * float((weights * lags).sum())
    if variance <= 0:
        return 1.0
    return float(np.clip((slope**2 / variance**2 * n) ** (1 / 3), 1.0, longest))


def _places(n: int, block: float, seed: int, count: int) -> Int64:
    """Positions in the record: each follows the one before, or a new block begins with chance 1 / block."""
    starts, lengths = (np.random.Generator(np.random.PCG64([seed, part])) for part in (2, 3))
    begins = lengths.random(count) < 1 / block
    begins[0] = True
    number = np.cumsum(begins) - 1
    first = np.flatnonzero(begins)
    within = np.arange(count) - first[number]
    places: Int64 = (starts.integers(0, n, int(number[-1]) + 1)[number] + within) % n
    return places
