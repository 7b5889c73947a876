"""A tuning, a load run and diagnoses that never happened: plausible figures for tests of the report.

Everything is drawn from a seeded generator, so that golden texts stay equal. The model is called
`sample_prices`, the server `sample.invalid`: nothing here may be quoted as a measurement.
"""

from __future__ import annotations

import numpy as np

from tritune.diagnose.result import BatchRow, Breakdown, Capacity, Diagnosis, Finding, Part, Remedy
from tritune.model.config import Change, DynamicBatching, InstanceGroup, ServingConfig, Setting
from tritune.model.measurement import Comparison, Estimate, Measurement, Sender
from tritune.model.requests import Kind, RequestLog
from tritune.model.run import Manifest
from tritune.model.server import BatchStat, ModelCounters, ServerWindow, Tally
from tritune.model.slo import parse_slo
from tritune.model.workload import Workload
from tritune.tune.result import StepResult, TuneResult, View
from tritune.units import NS_PER_MS, NS_PER_S

MODEL = "sample_prices"
URL = "http://sample.invalid:8000"
WORKLOAD = Workload(MODEL, version="1", rate_per_s=200.0, duration_ns=30 * NS_PER_S, seed=7)
REQUESTS = 6000
DELAY = "dynamic_batching.max_queue_delay_microseconds"
PREFERRED = "dynamic_batching.preferred_batch_size"


def config(delay: int, preferred: tuple[int, ...] = (8, 16), count: int = 1) -> ServingConfig:
    return ServingConfig(
        MODEL,
        backend="python",
        max_batch_size=16,
        dynamic_batching=DynamicBatching(preferred, delay),
        instance_group=(InstanceGroup(kind="KIND_CPU", count=count),),
    )


def latency(p50: float, p90: float, p95: float, p99: float, p999: float) -> dict[str, Estimate]:
    """Intervals as 6000 requests give them; none for p99.9."""
    spread = {"p50": 0.015, "p90": 0.02, "p95": 0.025, "p99": 0.04}
    known = {"p50": p50, "p90": p90, "p95": p95, "p99": p99}
    told = {
        name: Estimate(
            ms * NS_PER_MS, ms * (1 - spread[name]) * NS_PER_MS, ms * (1 + spread[name]) * NS_PER_MS
        )
        for name, ms in known.items()
    }
    mean = 0.55 * p50 + 0.45 * p90
    told["mean"] = Estimate(mean * NS_PER_MS, mean * 0.98 * NS_PER_MS, mean * 1.02 * NS_PER_MS)
    told["p99.9"] = Estimate(p999 * NS_PER_MS)
    return told


def service_ms(size: int, contention: float = 1.0) -> float:
    return (4.35 + 0.53 * size) * contention


def counters_window(sizes: dict[int, int], total_ms: float, contention: float = 1.0) -> ServerWindow:
    """Counters of `sizes` {batch size: executions}; what is not execution was spent in the queue."""
    stats = {
        size: BatchStat(
            n,
            round(n * 0.12 * NS_PER_MS),
            round(n * (service_ms(size, contention) - 0.2) * NS_PER_MS),
            round(n * 0.08 * NS_PER_MS),
        )
        for size, n in sizes.items()
    }
    items = sum(size * n for size, n in sizes.items())

    def charged(name: str) -> int:
        return sum(size * getattr(stat, name) for size, stat in stats.items())

    parts = charged("input_ns") + charged("infer_ns") + charged("output_ns")
    total = round(items * (total_ms - 0.6) * NS_PER_MS)
    queue = max(0, total - parts - round(items * 0.15 * NS_PER_MS))
    return ServerWindow(
        MODEL,
        "1",
        "statistics",
        0,
        30 * NS_PER_S,
        ModelCounters(
            success=Tally(items, total),
            queue=Tally(items, queue),
            compute_input=Tally(items, charged("input_ns")),
            compute_infer=Tally(items, charged("infer_ns")),
            compute_output=Tally(items, charged("output_ns")),
            inference_count=items,
            execution_count=sum(sizes.values()),
            batch_stats=stats,
        ),
    )


def measurement(
    setting: str,
    told: dict[str, Estimate],
    sizes: dict[int, int],
    *,
    errors: dict[str, int] | None = None,
    requests: int = REQUESTS,
    cut: str = "",
    contention: float = 1.0,
) -> Measurement:
    mean = told["mean"].value or 0.0
    return Measurement(
        setting=setting,
        workload=WORKLOAD,
        requests=requests,
        seconds=30.0,
        errors=errors or {},
        latency=told,
        window=counters_window(sizes, mean / NS_PER_MS, contention),
        sender=Sender(84_000, 312_000, 2_100_000, 0.11, 40),
        cut=cut,
    )


# Every size often enough to be trusted; both add up to 6000 items.
SLOW = {8: 512, 9: 31, 10: 40, 11: 35, 12: 30, 16: 30}
FAST = {1: 2710, 2: 930, 3: 270, 4: 60, 5: 40, 6: 30}
BASELINE = (
    measurement("baseline 1", latency(41.2, 92.0, 101.4, 112.3, 118.0), SLOW),
    measurement("baseline 2", latency(40.6, 93.5, 103.0, 114.8, 121.5), SLOW),
)
FINAL = (
    measurement("plain batching", latency(6.1, 9.9, 11.3, 14.3, 19.8), FAST),
    measurement("confirmation", latency(6.0, 9.8, 11.1, 14.1, 18.9), FAST),
)


def change(*settings: tuple[str, int | tuple[int, ...] | None]) -> Change:
    return Change(tuple(Setting(path, value) for path, value in settings))


STEPS = (
    StepResult(
        stage="delay",
        change=change((DELAY, 500)),
        edits=(f"{DELAY}: 100000 -> 500",),
        reason="a request may wait up to 100000 us for others to join its batch",
        outcome="kept",
        why="better: p99 -85% (-86% to -84%)",
        comparison=Comparison(0.151, 0.143, 0.160, "better", "10 paired slices of the same plan"),
        measurements=(measurement("delay 500 us", latency(6.9, 11.8, 13.6, 16.9, 24.1), {**FAST, 8: 30}),),
    ),
    StepResult(
        stage="delay",
        change=change((DELAY, 100)),
        edits=(f"{DELAY}: 500 -> 100",),
        reason="the lower end of the article's range",
        outcome="undone",
        why="no difference: p99 -2% (-7% to +4%); the smaller change stays",
        comparison=Comparison(0.98, 0.93, 1.04, "equivalent", "10 paired slices of the same plan"),
        measurements=(measurement("delay 100 us", latency(6.8, 11.5, 13.4, 16.6, 23.9), FAST),),
    ),
    StepResult(
        stage="plain batching",
        change=change((PREFERRED, None), (DELAY, None)),
        edits=(f"{PREFERRED}: [ 8, 16 ] -> (none)", f"{DELAY}: 500 -> (none)"),
        reason="requests that arrive while an instance is busy merge anyway; preferred sizes and a delay "
        "only add waiting on top of that",
        outcome="kept",
        why="better: p99 -15% (-19% to -11%)",
        comparison=Comparison(0.85, 0.81, 0.89, "better", "10 paired slices of the same plan"),
        measurements=(FINAL[0],),
    ),
    StepResult(
        stage="instances",
        change=change(("instance_group.count", 2)),
        edits=("instance_group.count: 1 -> 2",),
        reason="a second instance helps where one does not fill the device, and splits batches where it does",
        outcome="undone",
        why="worse: p99 +31% (+22% to +40%)",
        comparison=Comparison(1.31, 1.22, 1.40, "worse", "10 paired slices of the same plan"),
        measurements=(
            measurement(
                "2 instances", latency(7.9, 13.1, 15.2, 18.7, 27.3), {1: 4600, 2: 610, 3: 55}, contention=1.45
            ),
        ),
    ),
    StepResult(
        stage="instances",
        change=change(("instance_group.count", 4)),
        edits=("instance_group.count: 1 -> 4",),
        reason="the operator asked for it",
        outcome="aborted",
        why="64 of 2100 requests failed, more than 1 %",
        measurements=(
            measurement(
                "4 instances",
                latency(22.0, 180.0, 420.0, 910.0, 1500.0),
                {1: 1900, 2: 70},
                errors={"timeout": 61, "connection": 3},
                requests=2100,
                cut="64 of 2100 requests failed, more than 1 %",
                contention=2.4,
            ),
        ),
    ),
    StepResult(
        stage="max batch size",
        change=Change(()),
        edits=(),
        reason="",
        outcome="not tried",
        why="every batch size seen, up to 6, still gains: S(b)/b falls with b, no cap is called for",
    ),
)

DIFF = """--- models/sample_prices/config.pbtxt
+++ models/sample_prices/config.pbtxt
@@ -7,9 +7,6 @@
 # Agreed with the data team in March.
-dynamic_batching {
-  preferred_batch_size: [ 8, 16 ]
-  max_queue_delay_microseconds: 100000
-}
+dynamic_batching { }
 instance_group [ { kind: KIND_CPU count: 1 } ]
"""


def diagnosis(model: str = MODEL) -> Diagnosis:
    window = BASELINE[0].window
    assert window is not None
    rows = tuple(
        BatchRow(size, n, n / sum(SLOW.values()), size * n / REQUESTS, service_ms(size) * NS_PER_MS)
        for size, n in SLOW.items()
    )
    parts = (("queue", 53.4), ("compute_input", 0.12), ("compute_infer", 8.6), ("compute_output", 0.08))
    return Diagnosis(
        model=model,
        version="1",
        config=config(100_000),
        window=window,
        breakdown=Breakdown(
            REQUESTS, tuple(Part(n, ms * NS_PER_MS) for n, ms in (*parts, ("rest", 0.15), ("client", 0.6)))
        ),
        batches=rows,
        mean_batch=8.85,
        capacity=Capacity(1245.0, 16, 200.0, 0.16, 0.21, bound=False),
        findings=(
            Finding(
                slug="delay-too-long",
                title="Requests wait for a batch that does not fill: the queue delay is far longer than a "
                "batch takes to run",
                confidence="high",
                evidence=(
                    "85 % of the mean request is spent in the queue; the instance executes 21 % of the time",
                    "max_queue_delay_microseconds is 100000; a batch of 8 takes 8.59 ms (512 executions)",
                ),
                remedies=(
                    Remedy("cut the delay to 100-1000 us", change((DELAY, 500))),
                    Remedy("or drop preferred sizes and delay together"),
                ),
                check="the mean queue time falls with the delay at the same rate",
            ),
        ),
        not_seen=("GPU utilisation: this server exports no nv_gpu_utilization",),
    )


def tune_result() -> TuneResult:
    return TuneResult(
        status="met",
        url=URL,
        server_version="2.51.0",
        model=MODEL,
        version="1",
        workload=WORKLOAD,
        slo=parse_slo("p99=30ms"),
        before=BASELINE,
        after=FINAL,
        before_whole=BASELINE[0],
        after_whole=FINAL[0],
        config_before=config(100_000),
        config_after=config(0, ()),
        change=change((PREFERRED, None), (DELAY, None)),
        diff=DIFF,
        diagnosis=diagnosis(),
        steps=STEPS,
        reloads=8,
        next_commands=(
            "tritune restore http://sample.invalid:8000 --model sample_prices    # undo now",
            "patch -p0 < config.pbtxt.diff    # keep it: edit the file, then touch it and load the model",
        ),
        notes=("these figures are test data and were never measured",),
        views=(
            View(
                "Triton's latency summary",
                "request duration inside the server, quantile 0.99",
                111.2e6,
                13.4e6,
            ),
            View(
                "hey 0.1.4, closed loop", "20 workers, 2000 requests, seen by another client", 108.0e6, None
            ),
        ),
    )


def request_log(requests: int = REQUESTS, *, failures: int = 25, seed: int = 11) -> RequestLog:
    """Poisson arrivals at 200/s with a slow spell in the middle and some timeouts inside it."""
    rng = np.random.default_rng(seed)
    planned = np.cumsum(rng.exponential(NS_PER_S / 200, requests)).astype(np.int64)
    sent = planned + rng.gamma(2.0, 45_000, requests).astype(np.int64)
    taken = rng.gamma(4.0, 1.6e6, requests)
    spell = (planned > planned[-1] * 0.45) & (planned < planned[-1] * 0.55)
    taken[spell] *= 9
    done = sent + taken.astype(np.int64)
    kind = np.zeros(requests, np.int64)
    kind[np.flatnonzero(spell)[:failures]] = Kind.TIMEOUT
    done[kind != 0] = -1
    zeros = np.zeros(requests, np.int64)
    return RequestLog(
        request=np.arange(requests, dtype=np.int64),
        attempt=zeros,
        planned_ns=planned,
        sent_ns=sent,
        first_byte_ns=done,
        done_ns=done,
        kind=kind,
        status=np.where(kind == 0, 200, 0),
        items=zeros + 1,
        model=zeros,
        shape=zeros,
        worker=zeros,
        new_connection=zeros,
    )


def load_run() -> tuple[Manifest, Measurement, RequestLog]:
    told = latency(6.1, 9.9, 14.0, 61.0, 88.0)
    cell = measurement("as served", told, FAST, errors={"timeout": 25})
    manifest = Manifest(
        kind="load",
        status="complete",
        created="2026-11-30T12:00:00Z",
        tool_version="0",
        server_version="2.51.0",
        url=URL,
        model=MODEL,
        slo=parse_slo("p99=30ms"),
        measurement=cell,
    )
    return manifest, cell, request_log()
