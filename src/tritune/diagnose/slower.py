"""Whether larger batches cost more per item, in this window."""

from __future__ import annotations

from dataclasses import dataclass

from tritune.diagnose.context import Context
from tritune.twin.service import peak

# 10 executions give a mean within about 10 % for a service time that varies by a third.
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
    curve = {size: p for size, p in context.curve.items() if p.executions >= MIN_EXECUTIONS}
    top = peak(context.curve, 1)
    if top is None:
        return None
    best, best_rate = top.best_size, top.items_per_s / 1e9
    slower = tuple(s for s, p in curve.items() if s > best and s / p.ns <= (1 - LOSS) * best_rate)
    if not slower:
        return None
    busy = {size: p.ns * p.executions for size, p in context.curve.items()}
    rate = sum(s * curve[s].executions for s in slower) / sum(busy[s] for s in slower)
    return Slower(
        best=best,
        slower=slower,
        loss=1 - rate / best_rate,
        busy_share=sum(busy[s] for s in slower) / sum(busy.values()),
        executions=sum(curve[s].executions for s in slower),
    )
