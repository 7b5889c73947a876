"""One cell: warm up, read the counters, send the plan, read the counters again, fold it into figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass
from functools import reduce
from operator import add

import msgspec
import numpy as np

from tritune.arrivals.processes import plan
from tritune.errors import ExitCode, TrituneError
from tritune.model.config import ServingConfig
from tritune.model.load import BY_HAND, INTERRUPTED, TERMINATED, LoadOutcome, Shot
from tritune.model.measurement import Measurement
from tritune.model.requests import RequestLog
from tritune.model.server import ModelKey, Snapshot, window
from tritune.model.workload import Workload
from tritune.stats.quantiles import block_p99, percentiles
from tritune.stats.trust import doubt
from tritune.verbs.parts import PartReader
from tritune.verbs.ports import Clock, LoadEngine, OnTick, Progress, Server, StopRule, WarmUp

WARM_UP_REQUESTS = 200
WARM_UP_BUDGET_S = 20.0
# The python backend reports statistics after its responses were sent; give the last batch time to count.
SETTLE_S = 0.1
# How often one cell is tried on a machine that is busy with something else.
TRIES = 3
_CODES = {INTERRUPTED: ExitCode.INTERRUPTED, TERMINATED: ExitCode.TERMINATED}


@dataclass(frozen=True)
class Instruments:
    """What a measurement is made with."""

    server: Server
    engine: LoadEngine
    warm_up: WarmUp
    clock: Clock
    progress: Progress
    max_in_flight: int


@dataclass(frozen=True)
class Cell:
    """A measurement with the material it was folded from.

    `snapshots`: the statistics before and after, then the metrics. `parts`: statistics read in between.
    """

    measurement: Measurement
    log: RequestLog
    snapshots: tuple[Snapshot, ...]
    parts: tuple[Snapshot, ...] = ()


def warm_up(
    kit: Instruments, workload: Workload, version: str, config: ServingConfig, data: bytes | None
) -> None:
    """Send at least 200 requests that reach every batch size on every instance; nothing is recorded.

    Fails when every one of them failed: measuring would only repeat that.
    """

    def shots(items: int) -> Sequence[Shot]:
        return kit.server.shots(workload.model, version, items, data)

    kit.progress.step(f"warming up {workload.model}")
    done = kit.warm_up(
        kit.server.target,
        shots,
        max_batch_size=config.max_batch_size,
        instances=config.instances,
        minimum=WARM_UP_REQUESTS,
        budget_s=WARM_UP_BUDGET_S,
        timeout_ns=workload.timeout_ns,
    )
    if done.cut:
        raise cut_short("the warm-up", done.cut)
    if done.errors and done.errors == done.requests:
        raise TrituneError(
            f"all {done.requests} warm-up requests to '{workload.model}' failed",
            slug="warm-up-failed",
            hint="Send one request by hand, or pass a real one with --data request.json, and read the "
            "server's log.",
        )


def cut_short(what: str, cut: str) -> TrituneError:
    """The sentence for a load that is not kept and ended early; its slug is the word for a signal."""
    return TrituneError(
        f"{what} was cut short: {cut}",
        slug=cut if cut in BY_HAND else "server-gone",
        exit_code=_CODES.get(cut, ExitCode.FAILED),
    )


def measure(
    kit: Instruments,
    workload: Workload,
    version: str,
    *,
    setting: str,
    data: bytes | None,
    stop: StopRule | None = None,
    also: Collection[str] = (),
) -> Cell:
    """Load the model once as `workload` says and return the cell; cut short, it keeps what it has.

    The counters of the models in `also`, an ensemble's steps, are read in between as well.
    """
    shots = kit.server.shots(workload.model, version, workload.items, data)
    before = kit.server.statistics()
    key = ModelKey(workload.model, version)
    reader = PartReader(kit.server, kit.progress, key, workload, also)
    outcome = _send(kit, workload, shots, reader, stop)
    kit.clock.sleep(SETTLE_S)
    snapshots = (before, *_after(kit.server, outcome))
    metrics = kit.server.metrics() if len(snapshots) == 2 else None
    return Cell(
        fold(outcome, workload, version, setting, snapshots, metrics),
        outcome.log,
        snapshots if metrics is None else (*snapshots, metrics),
        reader.parts,
    )


def believable(attempt: Callable[[], Cell], progress: Progress) -> Cell:
    """A cell that can be believed, from up to TRIES attempts; the last one where the machine stays busy.

    Whether that one can be believed is for `stats.trust.doubt` to say. A cell that was ended by hand is kept.
    """
    for left in reversed(range(TRIES)):
        cell = attempt()
        why = doubt(cell.measurement)
        if not why or cell.measurement.cut in BY_HAND or not left:
            break
        progress.note(f"measuring again: {why}")
    return cell


def _send(
    kit: Instruments, workload: Workload, shots: Sequence[Shot], on_tick: OnTick, stop: StopRule | None
) -> LoadOutcome:
    if workload.rate_per_s is not None:
        planned = plan(
            workload.rate_per_s,
            workload.arrivals,
            workload.seed,
            count=workload.count,
            duration_ns=workload.duration_ns,
            bursts=workload.bursts,
        )
        return kit.engine.open_loop(
            kit.server.target,
            planned,
            shots,
            timeout_ns=workload.timeout_ns,
            max_in_flight=kit.max_in_flight,
            on_tick=on_tick,
            stop=stop,
        )
    if workload.concurrency is None:
        raise ValueError("a workload has a rate or a concurrency")
    return kit.engine.closed_loop(
        kit.server.target,
        workload.concurrency,
        shots,
        timeout_ns=workload.timeout_ns,
        count=workload.count,
        duration_ns=workload.duration_ns,
        on_tick=on_tick,
        stop=stop,
    )


def _after(server: Server, outcome: LoadOutcome) -> tuple[Snapshot, ...]:
    """The statistics after the load; none where the server went away, which the cut then says."""
    try:
        return (server.statistics(),)
    except TrituneError:
        if outcome.cut:
            return ()
        raise


def fold(
    outcome: LoadOutcome,
    workload: Workload,
    version: str,
    setting: str,
    snapshots: Sequence[Snapshot],
    metrics: Snapshot | None,
) -> Measurement:
    """The figures of one load; the window is None where the server could not be read afterwards."""
    latency = outcome.log.latency_ns()
    planned = np.sort(outcome.log.last_attempts().planned_ns)
    key = ModelKey(workload.model, version)
    server_window = window(snapshots[0], snapshots[1], key) if len(snapshots) > 1 else None
    summaries = None
    if metrics is not None:
        if server_window is not None:
            server_window = msgspec.structs.replace(
                server_window, gauges=metrics.gauges, pending=metrics.pending.get(key)
            )
        summaries = (metrics.summaries or {}).get(key, {}).get("nv_inference_request_summary_us")
    return Measurement(
        setting=setting,
        workload=workload,
        requests=len(latency),
        seconds=outcome.seconds,
        errors=outcome.log.errors_by_kind(),
        latency=percentiles(latency),
        block_p99_ns=block_p99(latency, planned),
        window=server_window,
        sender=outcome.sender,
        summaries_us=summaries,
        cut=outcome.cut,
    )


def figures(cells: Sequence[Cell]) -> tuple[Measurement, ...]:
    """The measurements of some cells."""
    return tuple(cell.measurement for cell in cells)


def pool(cells: Sequence[Cell]) -> Measurement:
    """All cells of one setting as one measurement: their requests together, never averages of percentiles.

    The cells follow each other in time, so their latencies do; `sender` is that of the latest sender, `cut`
    the first reason there is. No slices: those pair only cell by cell.
    """
    first = cells[0].measurement
    if len(cells) == 1:
        return first
    parts = figures(cells)
    latency = np.concatenate([cell.log.latency_ns() for cell in cells])
    windows = [part.window for part in parts if part.window is not None]
    errors: Counter[str] = Counter()
    for part in parts:
        errors.update(part.errors)
    return msgspec.structs.replace(
        first,
        requests=len(latency),
        seconds=sum(part.seconds for part in parts),
        errors=dict(errors),
        latency=percentiles(latency),
        block_p99_ns=(),
        window=reduce(add, windows) if windows else None,
        sender=max((part.sender for part in parts), key=lambda sender: sender.lateness_p99_ns),
        summaries_us=parts[-1].summaries_us,
        cut=next((part.cut for part in parts if part.cut), ""),
        run="",
    )
