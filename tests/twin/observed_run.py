"""A run as `tritune load` would have kept it, made by playing a load whose every figure is known."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from twin_play import MS, config

from tritune.arrivals.processes import plan
from tritune.model.config import ServingConfig
from tritune.model.measurement import Measurement, Sender
from tritune.model.requests import Kind, RequestLog
from tritune.model.server import BatchStat, ModelCounters, ServerWindow, Tally
from tritune.model.workload import Workload
from tritune.stats.quantiles import percentiles
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import Requests, Simulated, simulate
from tritune.twin.engine.timing import Timing
from tritune.twin.fit.calibrate import calibrate
from tritune.twin.fit.calibration_run import CalibrationRun

CLIENT_NS, SERVER_NS = 200_000, 60_000


def true_service(b: float) -> float:
    return 4.35 * MS + 0.53 * MS * b


def truth(largest: int = 16, **more: Any) -> Timing:
    """What the machine really does: S(b) a straight line, 3 % noise, 0.26 ms outside the batch."""
    figures: dict[str, Any] = {"cv": 0.03, "send_ns": CLIENT_NS // 2, "reply_ns": CLIENT_NS // 2 + SERVER_NS}
    return Timing(tuple(true_service(b) if b else 0.0 for b in range(largest + 1)), **(figures | more))


@dataclass(frozen=True)
class Observed:
    config: ServingConfig
    window: ServerWindow
    log: RequestLog
    play: Simulated

    def profile(self, **more: Any) -> Any:
        more = {"triton_version": "2.51.0", "source": "a test"} | more
        return calibrate(self.config, self.window, self.log, Sender(), **more)

    def run(self, parts: int = 12, **more: Any) -> CalibrationRun:
        """As `store.calibration` reads it, with so many parts."""
        more = {"triton_version": "2.51.0", "source": "a test"} | more
        return CalibrationRun(
            self.config, "", self.window, self.log, Sender(), parts=parts_of(self.play, parts), **more
        )

    def measurement(self, rate: float) -> Measurement:
        return Measurement(
            setting="as served",
            workload=Workload("m", rate_per_s=rate, count=len(self.log)),
            requests=len(self.log),
            seconds=self.window.seconds,
            errors={},
            latency=percentiles(self.log.latency_ns()),
            window=self.window,
        )


def observe(
    rate: float = 200,
    count: int = 6000,
    *,
    timing: Timing | None = None,
    seed: int = 5,
    late_ns: int = 0,
    **setting: Any,
) -> Observed:
    """`setting` as for `twin_play.config`; every request is sent `late_ns` after its plan."""
    served = config(**({"largest": 16} | setting))
    planned = plan(rate, "poisson", seed, count=count)
    sent = planned + late_ns
    timing = timing or truth(max(1, served.max_batch_size))
    play = simulate(setting_of(served), Requests(sent), timing, seed=99)
    stats = stats_of(play, np.full(len(play.batch_items), True))
    queue, executed = int(play.queue_ns().sum()), (play.server_done_ns - play.start_ns).sum()
    counters = ModelCounters(
        success=Tally(count, queue + int(executed) + SERVER_NS * count),
        queue=Tally(count, queue),
        compute_infer=Tally(count, int(executed)),
        inference_count=count,
        execution_count=len(play.batch_items),
        batch_stats=stats,
    )
    span = int(play.done_ns.max())
    return Observed(
        served, ServerWindow("m", "1", "statistics", 0, span, counters), log_of(planned, sent, play), play
    )


def stats_of(play: Simulated, which: Any) -> dict[int, BatchStat]:
    """Batch statistics of some of the batches."""
    sizes, took = play.batch_items[which], (play.batch_done_ns - play.batch_start_ns)[which]
    return {
        int(b): BatchStat(int((sizes == b).sum()), 0, int(took[sizes == b].sum()), 0)
        for b in np.unique(sizes)
    }


def parts_of(play: Simulated, parts: int) -> tuple[ServerWindow, ...]:
    """The counters read so often in equal steps."""
    edges = np.linspace(0, int(play.done_ns.max()), parts + 1).astype(np.int64)
    ended = play.batch_done_ns
    return tuple(
        ServerWindow(
            "m",
            "1",
            "statistics",
            int(begin),
            int(end),
            ModelCounters(batch_stats=stats_of(play, (ended > begin) & (ended <= end))),
        )
        for begin, end in pairwise(edges)
    )


def log_of(planned: Any, sent: Any, play: Simulated) -> RequestLog:
    n = len(planned)
    zeros = np.zeros(n, np.int64)
    return RequestLog(
        request=np.arange(n),
        attempt=zeros,
        planned_ns=planned,
        sent_ns=sent,
        first_byte_ns=play.done_ns,
        done_ns=play.done_ns,
        kind=np.full(n, int(Kind.OK), np.int64),
        status=np.full(n, 200, np.int64),
        items=np.ones(n, np.int64),
        model=zeros,
        shape=zeros,
        worker=zeros,
        new_connection=zeros,
    )
