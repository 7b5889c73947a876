"""Batch statistics from before a run's window: the executions of its warm-up, from server.parquet."""

from __future__ import annotations

from collections.abc import Mapping

from tritune.model.server import BatchStat, ModelKey
from tritune.store.parquet import Column
from tritune.store.rows import statistics_of


def batches_before(rows: Mapping[str, Column], model: str, version: str) -> dict[int, BatchStat]:
    """The counters of the first statistics read, by batch size; empty where there are none.

    They count from the last full load of the model, so they hold only executions under its present setting.
    """
    key = ModelKey(model, version)
    first = next((shot.models[key] for shot in statistics_of(rows) if key in shot.models), None)
    return {} if first is None else {s: stat for s, stat in (first.batch_stats or {}).items() if stat.count}
