"""What counter windows say of a queue, as a few numbers that a simulation can be held against."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tritune.model.requests import Floats
from tritune.model.server import ServerWindow
from tritune.twin.engine.simulate import Simulated

# How far a simulation may be from the counters before that counts as one unit of distance (research.md 3).
TOLERANCES = {
    "mean queue": 0.03,
    "queue spread": 0.10,
    "batch sizes, lower": 0.015,
    "batch sizes, middle": 0.015,
    "batch sizes, upper": 0.015,
    "dispersion": 0.15,
    "dispersion over five": 0.20,
    "correlation": 0.08,
}
COUNTS = slice(5, 8)
_LONG = 5
# Queues below this part of an execution are the same to us: overheads that are not modelled are as long.
_FLOOR = 0.02
_LEAST = 0.05


@dataclass(frozen=True)
class WindowSeries:
    """Equal, neighbouring windows: requests answered in each, their queue time; all executions by size."""

    seconds: float
    requests: Floats
    queue_ns: Floats
    batches: Floats

    @property
    def rate_per_s(self) -> float:
        """Answers per second."""
        return float(self.requests.sum()) / (self.seconds * len(self.requests))


def observed(windows: Sequence[ServerWindow]) -> WindowSeries:
    """Of windows of one model one after the other; counts are scaled to the mean length of a window."""
    lengths = np.array([window.seconds for window in windows])
    scale = lengths.mean() / lengths
    requests = np.array([window.counters.success.count for window in windows], float)
    queue = np.array([window.counters.queue.ns for window in windows], float)
    stats = [window.counters.batch_stats or {} for window in windows]
    batches = np.zeros(1 + max((size for stat in stats for size in stat), default=0))
    for stat in stats:
        for size, executed in stat.items():
            batches[size] += executed.count
    return WindowSeries(float(lengths.mean()), requests * scale, queue * scale, batches)


def simulated(play: Simulated, seconds: float) -> WindowSeries:
    """Of whole windows of a simulation, counted at the end of the execution as a server does."""
    executed = play.start_ns >= 0
    number = (play.server_done_ns[executed] // round(seconds * 1e9)).astype(np.int64)
    windows = max(1, int(number.max(initial=0)))
    inside = number < windows
    queue = (play.start_ns - play.arrived_ns)[executed].astype(np.float64)
    return WindowSeries(
        seconds,
        np.bincount(number[inside], minlength=windows).astype(np.float64),
        np.bincount(number[inside], queue[inside], minlength=windows).astype(np.float64),
        np.bincount(play.batch_items).astype(np.float64),
    )


def landmarks(series: WindowSeries) -> tuple[int, int, int]:
    """The batch sizes at which the distributions are compared: quartile, median, nine tenths."""
    share = np.cumsum(series.batches) / series.batches.sum()
    lower, middle, upper = (int(np.searchsorted(share, level)) for level in (0.25, 0.5, 0.9))
    # Where everything lies in one size, the shares at its neighbours still tell.
    return max(1, lower - (lower == middle)), middle, upper


def moments(series: WindowSeries, at: tuple[int, int, int], execution_ns: float) -> Floats:
    """In the order of TOLERANCES: logarithms, but shares (of batches up to a size) and correlation."""
    weight = series.requests.sum()
    floor = _FLOOR * execution_ns
    mean = series.queue_ns.sum() / weight + floor
    busy = series.requests > 0
    each = series.queue_ns[busy] / series.requests[busy] + floor
    second = float((series.requests[busy] * each**2).sum()) / weight
    share = np.cumsum(series.batches) / max(1.0, series.batches.sum())
    return np.array(
        [
            np.log(mean),
            np.log(second / mean**2),
            *(float(share[min(size, len(share) - 1)]) for size in at),
            *count_moments(series.requests),
        ]
    )


def count_moments(requests: Floats) -> Floats:
    """ln variance / mean of the counts, the same over five windows, correlation of neighbours."""
    long = requests[: len(requests) // _LONG * _LONG].reshape(-1, _LONG).sum(axis=1)
    centred = requests - requests.mean()
    square = float((centred**2).sum())
    neighbours = float((centred[1:] * centred[:-1]).sum()) / square if square else 0.0
    return np.array([_log_dispersion(requests), _log_dispersion(long), neighbours])


def _log_dispersion(counts: Floats) -> float:
    """Bounded below: no arrivals that anybody sends are more regular than that and differ in it."""
    if len(counts) < 2 or counts.mean() <= 0:
        return 0.0
    return float(np.log(max(_LEAST, counts.var(ddof=1) / counts.mean())))
