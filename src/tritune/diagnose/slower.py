"""Whether larger batches cost more per item, in this window."""

from __future__ import annotations

from dataclasses import dataclass

from tritune.diagnose.context import Context
from tritune.twin.fit.service import groups, peak

# Rare neighbours count together. 10 executions give a mean within about 10 % for a service time that varies
# by a third.
MIN_EXECUTIONS = 10
# A size counts as slower when its throughput is at least this much below the best.
LOSS = 0.1


@dataclass(frozen=True)
class Slower:
    """`best` = the size with the highest b / S(b); `slower` = larger sizes that do clearly less.

    `loss` = 1 - (throughput of the slower sizes / that of the best); `busy_share` = the share of the
    instances' busy time that the slower sizes took.
    """

    best: int
    slower: tuple[int, ...]
    loss: float
    busy_share: float
    executions: int


def slower_sizes(context: Context) -> Slower | None:
    """None where throughput b / S(b) rises (or stays) up to the largest size with enough executions."""
    curve = context.curve
    top = peak(curve, 1)
    if top is None:
        return None
    ns_per_item = 1e9 / top.items_per_s
    worse = [
        group
        for group in groups(curve, at_least=MIN_EXECUTIONS)
        if min(group.sizes) > top.best_size
        and group.executions >= MIN_EXECUTIONS
        and ns_per_item <= (1 - LOSS) * group.ns_per_item
    ]
    if not worse:
        return None
    slower = tuple(size for group in worse for size in group.sizes)
    busy = {size: p.ns * p.executions for size, p in curve.items()}
    busy_slower = sum(busy[s] for s in slower)
    items_slower = sum(s * curve[s].executions for s in slower)
    return Slower(
        best=top.best_size,
        slower=slower,
        loss=1 - ns_per_item * items_slower / busy_slower,
        busy_share=busy_slower / sum(busy.values()),
        executions=sum(group.executions for group in worse),
    )
