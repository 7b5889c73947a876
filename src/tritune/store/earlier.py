"""Batch statistics from before a run's window: the executions of its warm-up, from server.parquet."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tritune.model.server import BatchStat
from tritune.store.parquet import Column


def batches_before(rows: Mapping[str, Column], model: str, version: str) -> dict[int, BatchStat]:
    """The counters of the first statistics read, by batch size; empty where there are none.

    They count from the last full load of the model, so they hold only executions under its present setting.
    """
    if not rows or not len(rows["t_ns"]):
        return {}
    ours = (rows["source"] == "statistics") & (rows["model"] == model) & (rows["version"] == version)
    if not ours.any():
        return {}
    first = ours & (rows["t_ns"] == np.min(rows["t_ns"][ours]))
    found: dict[int, dict[str, int]] = {}
    for field, value in zip(rows["field"][first], rows["value"][first], strict=True):
        kind, _, rest = str(field).partition(".")
        size, _, part = rest.partition(".")
        if kind == "batch_stats" and size.isdecimal() and part in BatchStat.__struct_fields__:
            found.setdefault(int(size), {})[part] = round(float(value))
    return {size: BatchStat(**parts) for size, parts in sorted(found.items()) if parts.get("count")}
