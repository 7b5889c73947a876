"""How long a batch takes, from batch statistics, and what throughput follows from it.

S(b) is the mean of all three stages (input, infer, output) of an execution of b items. It is what the
instances showed in this window: where several run at once it holds their mutual slowing-down at the
concurrency of the window, so it serves for this instance count and about this load only.
"""

from __future__ import annotations

from collections.abc import Mapping

import msgspec

from tritune.model.server import ServerWindow

# A mean of fewer executions says more about chance than about the batch size.
MIN_EXECUTIONS = 5


class ServicePoint(msgspec.Struct, frozen=True):
    """S(b) of one batch size: mean ns of an execution, and how many there were."""

    ns: float
    executions: int


class Peak(msgspec.Struct, frozen=True):
    """The best throughput over the measured sizes: `items_per_s` with every execution at `best_size`."""

    items_per_s: float
    best_size: int


def service_curve(window: ServerWindow) -> dict[int, ServicePoint]:
    """S(b) by batch size in items, ascending; sizes that took no time are left out.

    Empty where the source has no batch statistics (metrics) or nothing ran.
    """
    stats = window.counters.batch_stats or {}
    return {
        size: ServicePoint(stat.ns / stat.count, stat.count)
        for size, stat in sorted(stats.items())
        if stat.count > 0 and stat.ns > 0
    }


def trusted(curve: Mapping[int, ServicePoint]) -> dict[int, ServicePoint]:
    """The sizes with at least MIN_EXECUTIONS executions; where none has, those executed most often."""
    often = {size: point for size, point in curve.items() if point.executions >= MIN_EXECUTIONS}
    if often or not curve:
        return often
    most = max(point.executions for point in curve.values())
    return {size: point for size, point in curve.items() if point.executions == most}


def peak(curve: Mapping[int, ServicePoint], instances: int, *, at_most: int | None = None) -> Peak | None:
    """max over b of instances x b / S(b) (research.md 1), items/s; None for an empty curve.

    Sizes above `at_most` are left out, rarely executed ones too (see `trusted`). Only measured sizes
    count: larger ones may do more.
    """
    rates = {
        size: instances * size / point.ns * 1e9
        for size, point in trusted(curve).items()
        if at_most is None or size <= at_most
    }
    if not rates:
        return None
    best = max(rates, key=lambda size: rates[size])
    return Peak(rates[best], best)
