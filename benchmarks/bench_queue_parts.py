"""Where the time in the queue goes, as a run's counters say it, and as the traces of the same run prove it.

    python benchmarks/bench_queue_parts.py [--only 0,3,7]

Fifteen settings of the synthetic device on a real Triton, 8 s each; leave the machine alone for the four
minutes that it takes. Every request is traced. Writes benchmarks/results/queue-parts.json (not with --only).
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import msgspec

from queue_parts_settings import MAX_BATCH, SETTINGS, Setting, config_json
from tritune.arrivals.processes import plan
from tritune.embedded.environment import ensure_environment
from tritune.embedded.server import RunningServer, start, stop
from tritune.errors import TrituneError
from tritune.load.engine import HttpLoadEngine
from tritune.load.warmup import warm_up
from tritune.model.server import ModelKey, window
from tritune.model.timeline import NEVER, ExecutedTimeline
from tritune.pbtxt.message import view_json
from tritune.scenarios.loader import load_scenario, materialise
from tritune.store.environment import environment
from tritune.testing.parts_truth import TURNAROUND_NS, parts_truth
from tritune.testing.timelines.undisturbed import undisturb
from tritune.triton import connect
from tritune.triton.address import parse_url
from tritune.triton.grpc import Grpc
from tritune.triton.server import TritonServer
from tritune.triton.traces import RequestTrace, TraceFile, Tracing
from tritune.twin.ask.parts import QueueParts, queue_parts
from tritune.twin.fit.calibrate import calibrate
from tritune.units import NS_PER_S

RESULT = Path(__file__).parent / "results" / "queue-parts.json"
TARGET_PP = 5.0
SECONDS = 8
TIMEOUT_NS = 10 * NS_PER_S
# The old version of the model goes about a second after a load.
SETTLE_S = 1.2
SHOWN_S = 0.2
WRITTEN_S = 5.0
INSTANTS = ("QUEUE_START", "COMPUTE_START", "COMPUTE_END", "REQUEST_END")
MOST_DEATHS = 6
# The server to start from; every configuration is loaded over it.
SCENARIO = "delay-too-long"


class Row(msgspec.Struct, frozen=True):
    """One setting, ms and shares. `proven_batch_wait_ms`: what waited beside an idle instance no longer than
    the delay, which is at least the batch wait and must lie within its bound.
    """

    setting: Setting
    rate_per_s: float
    requests: int
    queue_ms: float
    traced_queue_ms: float
    true_idle_share: float
    idle_share: float | None
    error_pp: float | None
    most_batch_wait_ms: float
    proven_batch_wait_ms: float
    within_bounds: bool
    backlog: float | None
    backlog_kind: str | None
    parts: dict[str, float]
    queue_error: float
    batch_distance: float
    cannot_tell: str
    server_at_real_time_priority: bool


class Bench:
    """A server with one model, of which every request is traced."""

    def __init__(self, running: RunningServer, model: str) -> None:
        self.running, self.model = running, model
        self.server: TritonServer = connect(running.url, grpc=running.grpc, metrics=running.metrics)
        self.tracing = Tracing(Grpc(parse_url(f"http://{running.grpc}"), timeout_s=5), running.url, model)
        self.engine = HttpLoadEngine()

    def measure(self, number: int, setting: Setting) -> Row:
        undisturbed = self._configure(setting)
        key = ModelKey(self.model, "1")
        file, before_tracing = TraceFile(self.tracing.file()), self.tracing.start()
        try:
            before = self.server.statistics()
            outcome = self.engine.open_loop(
                self.server.target,
                plan(setting.rate_per_s, "poisson", 100 + number, duration_ns=SECONDS * NS_PER_S),
                self.server.shots(self.model, "1", 1, None),
                timeout_ns=TIMEOUT_NS,
                max_in_flight=5000,
            )
            time.sleep(SHOWN_S)
            after = self.server.statistics()
        finally:
            self.tracing.restore(before_tracing)
        traces = _written(file, len(outcome.log))
        seen = window(before, after, key)
        if seen is None:
            raise TrituneError(f"{self.model} has no statistics", slug="trace-incomplete")
        config = view_json(self.server.effective_config(self.model))
        profile = calibrate(
            config,
            seen,
            outcome.log,
            outcome.sender,
            warm_up=before.models[key].batch_stats,
            triton_version=self.running.version,
        )
        executed = ExecutedTimeline.of(
            tuple(trace.at_ns.get(name, NEVER) for name in INSTANTS)  # type: ignore[misc]
            for trace in traces
        )
        truth = parts_truth(executed, setting.instances, delay_ns=setting.delay_us * 1000)
        return _row(setting, queue_parts(config, profile, seen, outcome.log), truth, len(traces), undisturbed)

    def _configure(self, setting: Setting) -> bool:
        self.server.load(self.model, config_json(self.model, setting), deadline_s=30)
        self.server.wait_ready(self.model, "1", deadline_s=30)
        time.sleep(SETTLE_S)
        undisturbed = undisturb(self.running.pid)
        warm_up(
            self.engine,
            self.server.target,
            lambda items: self.server.shots(self.model, "1", items, None),
            max_batch_size=MAX_BATCH,
            instances=setting.instances,
            minimum=200,
            budget_s=5,
            timeout_ns=TIMEOUT_NS,
        )
        return undisturbed


def _written(file: TraceFile, requests: int) -> list[RequestTrace]:
    """What the server writes of all requests, which takes it a moment."""
    traces: list[RequestTrace] = []
    end = time.monotonic() + WRITTEN_S
    while len(traces) < requests and time.monotonic() < end:
        time.sleep(SHOWN_S)
        traces += file.new()
    if len(traces) != requests:
        raise TrituneError(f"{len(traces)} traces of {requests} requests", slug="trace-incomplete")
    return traces


def _row(setting: Setting, found: QueueParts, truth: Any, requests: int, undisturbed: bool) -> Row:
    bounds = found.bounds
    proven = float(truth.young_idle_ns.mean())
    idle = found.idle.share if found.idle else None
    parts = {name: getattr(found, name) for name in ("batch_wait", "stall", "busy_wait", "formed_wait")}
    return Row(
        setting=setting,
        rate_per_s=setting.rate_per_s,
        requests=requests,
        queue_ms=bounds.queue_ns / 1e6,
        traced_queue_ms=truth.queue_ns / 1e6,
        true_idle_share=truth.idle_share,
        idle_share=idle,
        error_pp=None if idle is None else 100 * (idle - truth.idle_share),
        most_batch_wait_ms=bounds.most_batch_wait_ns / 1e6,
        proven_batch_wait_ms=proven / 1e6,
        within_bounds=proven <= bounds.most_batch_wait_ns
        and (found.batch_wait is None or 0 <= found.batch_wait.ns <= bounds.most_batch_wait_ns + 1),
        backlog=bounds.backlog,
        backlog_kind=bounds.backlog_kind,
        parts={name: part.ns / 1e6 for name, part in parts.items() if part},
        queue_error=found.queue_error,
        batch_distance=found.batch_distance,
        cannot_tell=found.refusal,
        server_at_real_time_priority=undisturbed,
    )


def measured(numbers: list[int]) -> tuple[list[Row], str, int]:
    """The rows, the server's version, and how often the server was started again because it had died."""
    rows: list[Row] = []
    deaths = 0
    while True:
        with tempfile.TemporaryDirectory() as folder:
            scenario = load_scenario(SCENARIO)
            repository = materialise(scenario, Path(folder))
            running = start(repository, environment=ensure_environment(print), folder=Path(folder))
            try:
                bench = Bench(running, scenario.workload.model)
                for number in numbers[len(rows) :]:
                    rows.append(bench.measure(number, SETTINGS[number]))
                    show(rows[-1])
                return rows, running.version, deaths
            except TrituneError as error:
                # 24.10 now and then dies of a damaged heap while it traces every request.
                if deaths == MOST_DEATHS:
                    raise
                deaths += 1
                died = [line for line in Path(running.log).read_text().splitlines() if "Signal (" in line]
                print(f"started again: {error.message} {' '.join(died)}", flush=True)
            finally:
                stop(running)


def show(row: Row) -> None:
    said = row.cannot_tell or f"{row.idle_share:6.1%} ({row.error_pp:+.1f} pp)"
    print(f"{row.setting!s:50} queue {row.queue_ms:5.2f} ms, idle {row.true_idle_share:6.1%}: {said}")
    print(
        f"{'':50} batch wait at most {row.most_batch_wait_ms:.2f} ms, proven at most "
        f"{row.proven_batch_wait_ms:.2f} ms{'' if row.within_bounds else ': OUT OF BOUNDS'}",
        flush=True,
    )


def results(rows: list[Row]) -> list[dict[str, Any]]:
    errors = [abs(row.error_pp) for row in rows if row.error_pp is not None]
    outside = sum(not row.within_bounds for row in rows)
    return [
        {
            "name": "largest error of the idle-instance wait's share where it is told",
            "measured": max(errors, default=None),
            "target": f"<= {TARGET_PP:g}",
            "unit": "percentage points",
            "holds": bool(errors) and max(errors) <= TARGET_PP,
        },
        {
            "name": "batch wait out of its bounds",
            "measured": outside,
            "target": "0",
            "unit": "settings",
            "holds": not outside,
        },
        {
            "name": "settings",
            "measured": len(rows),
            "target": ">= 12",
            "unit": "settings",
            "holds": len(rows) >= 12,
        },
        {
            "name": "cannot tell",
            "measured": len(rows) - len(errors),
            "target": None,
            "unit": "settings",
            "holds": None,
        },
    ]


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--only", default="", help="numbers of settings, e.g. 0,3,7")
    only = [int(word) for word in parser.parse_args().only.split(",") if word]
    rows, version, deaths = measured(only or list(range(len(SETTINGS))))
    figures = [figure for figure in results(rows) if not only or figure["name"] != "settings"]
    for figure in figures:
        held = {True: "holds", False: "DOES NOT HOLD", None: ""}[figure["holds"]]
        print(f"{figure['name']:66} {figure['measured']!s:>8.8}  target {figure['target'] or '-'!s:6} {held}")
    if not only:
        report = {
            "schema": 1,
            "environment": msgspec.to_builtins(environment()) | {"triton": version},
            "results": figures,
            "data": {
                "turnaround_counted_as_busy_ns": TURNAROUND_NS,
                "server_started_again": deaths,
                "settings": rows,
            },
        }
        RESULT.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
        print(f"written to {RESULT}")
    return 0 if all(figure["holds"] is not False for figure in figures) else 1


if __name__ == "__main__":
    sys.exit(main())
