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


class Group(msgspec.Struct, frozen=True):
    """Neighbouring sizes taken together: `ns_per_item` over all their executions; `size` = the commonest."""

    sizes: tuple[int, ...]
    size: int
    executions: int
    ns_per_item: float


def groups(curve: Mapping[int, ServicePoint], *, at_least: int = MIN_EXECUTIONS) -> tuple[Group, ...]:
    """Sizes in ascending order, neighbours put together until a group has `at_least` executions.

    Rare sizes thus count together instead of being dropped or believed singly; what is left at the end
    joins the last group. Fewer executions in all: one group.
    """
    gathered: list[list[int]] = [[]]
    for size in sorted(curve):
        gathered[-1].append(size)
        if sum(curve[s].executions for s in gathered[-1]) >= at_least:
            gathered.append([])
    rest = gathered.pop()
    if rest and gathered:
        gathered[-1].extend(rest)
    elif rest:
        gathered.append(rest)
    return tuple(_group(curve, sizes) for sizes in gathered)


def peak(curve: Mapping[int, ServicePoint], instances: int, *, at_most: int | None = None) -> Peak | None:
    """max over b of instances x b / S(b) (research.md 1), items/s; None for an empty curve.

    Sizes above `at_most` are left out, rare neighbours are taken together (see `groups`). Only measured
    sizes count: larger ones may do more.
    """
    allowed = {size: point for size, point in curve.items() if at_most is None or size <= at_most}
    found = groups(allowed)
    if not found:
        return None
    best = min(found, key=lambda group: group.ns_per_item)
    return Peak(instances / best.ns_per_item * 1e9, best.size)


def _group(curve: Mapping[int, ServicePoint], sizes: list[int]) -> Group:
    busy = sum(curve[s].ns * curve[s].executions for s in sizes)
    items = sum(s * curve[s].executions for s in sizes)
    commonest = max(sizes, key=lambda s: curve[s].executions)
    return Group(tuple(sizes), commonest, sum(curve[s].executions for s in sizes), busy / items)
