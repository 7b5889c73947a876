"""Counter windows as somebody who only reads statistics once a second would have them."""

from __future__ import annotations

from functools import reduce
from operator import add

import numpy as np
from observed_run import SERVER_NS, truth
from twin_play import config

from tritune.arrivals.processes import plan
from tritune.model.config import ServingConfig
from tritune.model.server import BatchStat, ModelCounters, ServerWindow, Tally
from tritune.model.workload import Arrivals, Bursts
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import Requests, Simulated, simulate
from tritune.twin.engine.timing import Timing
from tritune.units import NS_PER_S


def watched(
    rate: float,
    seconds: int = 60,
    *,
    bursts: Bursts | None = None,
    arrivals: Arrivals | None = None,
    seed: int = 5,
    timing: Timing | None = None,
    served: ServingConfig | None = None,
    items: int = 1,
    batch_stats: bool = True,
) -> tuple[ServerWindow, ...]:
    """Whole seconds of a server under this traffic."""
    served = served or config(5, largest=16)
    planned = plan(
        rate,
        arrivals or ("on-off" if bursts else "poisson"),
        seed,
        duration_ns=(seconds + 1) * NS_PER_S,
        bursts=bursts,
    )
    load = Requests(planned, items=items)
    play = simulate(setting_of(served), load, timing or truth(served.max_batch_size), seed=99 + seed)
    return windows_of(play, seconds, batch_stats=batch_stats)


def windows_of(play: Simulated, seconds: int, *, batch_stats: bool = True) -> tuple[ServerWindow, ...]:
    number = play.server_done_ns // NS_PER_S
    return tuple(_window(play, k, number == k, batch_stats) for k in range(seconds))


def whole(windows: tuple[ServerWindow, ...]) -> ServerWindow:
    return reduce(add, windows)


def _window(play: Simulated, k: int, mine: np.ndarray, batch_stats: bool) -> ServerWindow:
    batches = play.batch_done_ns // NS_PER_S == k
    sizes, took = play.batch_items[batches], (play.batch_done_ns - play.batch_start_ns)[batches]
    stats = {
        int(size): BatchStat(int((sizes == size).sum()), 0, int(took[sizes == size].sum()), 0)
        for size in np.unique(sizes)
    }
    n = int(mine.sum())
    queue = int((play.start_ns - play.arrived_ns)[mine].sum())
    execution = int((play.server_done_ns - play.start_ns)[mine].sum())
    counters = ModelCounters(
        success=Tally(n, queue + execution + SERVER_NS * n),
        queue=Tally(n, queue),
        compute_infer=Tally(n, execution),
        inference_count=int(play.items[mine].sum()),
        execution_count=len(sizes),
        batch_stats=stats if batch_stats else None,
    )
    source = "statistics" if batch_stats else "metrics"
    return ServerWindow("m", "1", source, k * NS_PER_S, (k + 1) * NS_PER_S, counters)
