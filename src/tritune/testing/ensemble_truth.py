"""A load run of an ensemble whose every figure is known: a chain was played, and counted as Triton counts."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

from tritune.arrivals.processes import plan
from tritune.model.measurement import Measurement, Sender
from tritune.model.requests import Int64, Kind, RequestLog
from tritune.model.run import Manifest
from tritune.model.server import BatchStat, ModelCounters, ModelKey, Snapshot, Tally, window
from tritune.model.workload import Workload
from tritune.pbtxt.message import view_json
from tritune.stats.quantiles import percentiles
from tritune.store.runs import Runs
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import Requests
from tritune.twin.engine.timing import Timing
from tritune.twin.ensemble.chain import ChainPlay, HandOver, Served, simulate_chain
from tritune.twin.ensemble.wiring import wiring
from tritune.verbs.load import step_file

ENSEMBLE = "pipeline"
CLIENT_NS = 300_000
# As the fit assumes it: the wake-up and the spread are priors of it.
HAND_OVER = HandOver(ns=8_000, spacing_ns=50_000, spread=0.5)
WAKE_NS = 125_000
T0_NS = 1_000_000_000


def model_json(name: str, *, largest: int = 8, count: int = 1, **batching: Any) -> dict[str, Any]:
    """A step's configuration; `batching` as in the dynamic_batching block."""
    return {
        "name": name,
        "backend": "python",
        "max_batch_size": largest,
        "input": [{"name": "x", "data_type": "TYPE_FP32", "dims": [4]}],
        "output": [{"name": "y", "data_type": "TYPE_FP32", "dims": [4]}],
        "dynamic_batching": batching,
        "instance_group": [{"kind": "KIND_CPU", "count": count}],
    }


def ensemble_json(*steps: tuple[str, tuple[str, ...], str], makes: str = "out") -> dict[str, Any]:
    """An ensemble that takes "in"; steps as (model, tensors it takes, tensor it makes)."""
    return {
        "name": ENSEMBLE,
        "platform": "ensemble",
        "max_batch_size": 4,
        "input": [{"name": "in", "data_type": "TYPE_FP32", "dims": [4]}],
        "output": [{"name": makes, "data_type": "TYPE_FP32", "dims": [4]}],
        "ensemble_scheduling": {
            "step": [
                {
                    "model_name": model,
                    "model_version": -1,
                    "input_map": {f"x{k}": tensor for k, tensor in enumerate(taken)},
                    "output_map": {"y": made},
                }
                for model, taken, made in steps
            ]
        },
    }


TANDEM = ensemble_json(("detector", ("in",), "mid"), ("classifier", ("mid",), "out"))
DETECTOR = model_json("detector", max_queue_delay_microseconds=8000)
CLASSIFIER = model_json("classifier", largest=4, count=2)
# Base and per item, ms.
COSTS = {"detector": (5.0, 1.0), "classifier": (4.0, 2.0)}


@dataclass(frozen=True)
class EnsembleTruth:
    """Configurations as JSON, and what each model costs (base and per item, ms)."""

    ensemble: Mapping[str, Any]
    models: Mapping[str, Mapping[str, Any]]
    costs: Mapping[str, tuple[float, float]]

    def play(self, rate_per_s: float, count: int, *, seed: int = 1, items: int = 1) -> ChainPlay:
        """What the machine does under Poisson arrivals."""
        config = view_json(json.dumps(self.ensemble))
        served = {model: self._served(model) for model in self.models}
        load = Requests(plan(rate_per_s, "poisson", seed, count=count), items=items)
        half = CLIENT_NS // 2
        return simulate_chain(
            config.name,
            wiring(config),
            served,
            load,
            hand_over=HAND_OVER,
            send_ns=half,
            reply_ns=half,
            seed=seed + 1000,
        )

    def _served(self, model: str) -> Served:
        setting = setting_of(view_json(json.dumps(self.models[model])))
        base, item = self.costs[model]
        times = tuple((base + item * b) * 1e6 for b in range(setting.largest + 1))
        return Served(setting, Timing(times, cv=0.03, wake_ns=WAKE_NS))

    def keep(
        self,
        folder: Path,
        *,
        rate_per_s: float = 130.0,
        count: int = 2600,
        seed: int = 1,
        items: int = 1,
        foreign: Mapping[str, int] | None = None,
    ) -> str:
        """A run folder as `tritune load` writes it. `foreign`: requests of others, by model."""
        play = self.play(rate_per_s, count, seed=seed, items=items)
        log = _log(play, items)
        counters = {model: _counters(play, model, items) for model in self.models}
        for model, number in (foreign or {}).items():
            counters[model] = _with_foreign(counters[model], number)
        counters[ENSEMBLE] = _whole(play, items)
        end = T0_NS + int(play.done_ns.max()) + 100_000_000
        before = {ModelKey(model, "1"): ModelCounters(batch_stats={}) for model in counters}
        after = {ModelKey(model, "1"): one for model, one in counters.items()}
        shots = (Snapshot(T0_NS, "statistics", before), Snapshot(end, "statistics", after))
        measurement = Measurement(
            setting="as served",
            workload=Workload(ENSEMBLE, rate_per_s=rate_per_s, count=count, items=items),
            requests=count,
            seconds=count / rate_per_s,
            errors={},
            latency=percentiles(log.latency_ns()),
            window=window(shots[0], shots[1], ModelKey(ENSEMBLE, "1")),
            sender=Sender(),
        )
        run = Runs(folder).create(ENSEMBLE)
        run.add_file("config/effective.json", json.dumps(self.ensemble))
        for model, config in self.models.items():
            run.add_file(step_file(model), json.dumps(config))
        run.add_requests(log)
        run.add_server(shots)
        return run.finish(
            Manifest(
                kind="load",
                status="complete",
                created="2026-11-30T17:00:00+00:00",
                tool_version="0",
                server_version="2.51.0",
                url="http://127.0.0.1:8000",
                model=ENSEMBLE,
                measurement=measurement,
            )
        )


def _log(play: ChainPlay, items: int) -> RequestLog:
    n = len(play.planned_ns)
    zeros = np.zeros(n, np.int64)
    return RequestLog(
        request=np.arange(n),
        attempt=zeros,
        planned_ns=play.planned_ns,
        sent_ns=play.planned_ns,
        first_byte_ns=play.done_ns,
        done_ns=play.done_ns,
        kind=np.full(n, int(Kind.OK), np.int64),
        status=np.full(n, 200, np.int64),
        items=np.full(n, items, np.int64),
        model=zeros,
        shape=zeros,
        worker=zeros,
        new_connection=zeros,
    )


def _counters(play: ChainPlay, model: str, items: int) -> ModelCounters:
    one = play.models[model]
    ran: Int64 = one.batch_done_ns - one.batch_start_ns
    stats = {
        int(b): BatchStat(int((one.batch_items == b).sum()), 0, int(ran[one.batch_items == b].sum()), 0)
        for b in np.unique(one.batch_items)
    }
    n, queue, run = (
        len(one.start_ns),
        int(one.queue_ns().sum()),
        int((one.server_done_ns - one.start_ns).sum()),
    )
    return ModelCounters(
        success=Tally(n, queue + run),
        queue=Tally(n, queue),
        compute_infer=Tally(n, run),
        inference_count=n * items,
        execution_count=len(one.batch_items),
        batch_stats=stats,
    )


def _with_foreign(counters: ModelCounters, number: int) -> ModelCounters:
    return msgspec.structs.replace(
        counters,
        success=counters.success + Tally(number, number),
        inference_count=counters.inference_count + number,
    )


def _whole(play: ChainPlay, items: int) -> ModelCounters:
    """An ensemble counts requests from end to end, and no batches."""
    n = len(play.planned_ns)
    total = int((play.done_ns - play.planned_ns).sum()) - n * CLIENT_NS
    return ModelCounters(
        success=Tally(n, total), inference_count=n * items, execution_count=n, batch_stats={}
    )
