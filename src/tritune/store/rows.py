"""Snapshots of a server as the rows of server.parquet: (t_ns, source, model, version, field, value)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import msgspec
import numpy as np

from tritune.model.server import COUNTS, TALLIES, BatchStat, ModelCounters, ModelKey, Snapshot, Tally
from tritune.store.parquet import Column

Row = tuple[int, str, str, str, str, float]
NAMES = ("t_ns", "source", "model", "version", "field", "value")


def server_columns(snapshots: Sequence[Snapshot]) -> dict[str, Column]:
    """One row per figure. Fields are `queue.ns`, `batch_stats.4.infer_ns`, `failure_reasons.OTHER`,
    `pending`, `summaries.NAME.0.99`; gauges have no model. Values are float64: exact below 2^53.
    """
    rows = [row for snapshot in snapshots for row in _rows(snapshot)]
    columns = list(zip(*rows, strict=True)) if rows else [()] * len(NAMES)
    types = (np.int64, object, object, object, object, np.float64)
    return {
        name: np.array(column, dtype=kind) for name, column, kind in zip(NAMES, columns, types, strict=True)
    }


def statistics_of(rows: Mapping[str, Column]) -> tuple[Snapshot, ...]:
    """The statistics among the rows of server.parquet as snapshots, in order of time; counters only.

    Fields that are not known here are left out; empty where there are no statistics.
    """
    if not rows or not len(rows["t_ns"]):
        return ()
    ours = np.flatnonzero(rows["source"] == "statistics")
    found: dict[int, dict[ModelKey, dict[str, float]]] = {}
    columns = (rows[name][ours].tolist() for name in ("t_ns", "model", "version", "field", "value"))
    for t_ns, model, version, field, value in zip(*columns, strict=True):
        found.setdefault(t_ns, {}).setdefault(ModelKey(model, version), {})[field] = value
    return tuple(
        Snapshot(t_ns, "statistics", {key: _counters(figures) for key, figures in models.items()})
        for t_ns, models in sorted(found.items())
    )


def _counters(figures: Mapping[str, float]) -> ModelCounters:
    """The inverse of `_figures`. Statistics always have batch statistics, if only empty ones."""
    tallies = {n: Tally(_whole(figures, f"{n}.count"), _whole(figures, f"{n}.ns")) for n in TALLIES}
    batches: dict[int, dict[str, int]] = {}
    for field, value in figures.items():
        kind, _, rest = field.partition(".")
        size, _, part = rest.partition(".")
        if kind == "batch_stats" and size.isdecimal() and part in BatchStat.__struct_fields__:
            batches.setdefault(int(size), {})[part] = round(value)
    stats = {size: BatchStat(**parts) for size, parts in sorted(batches.items())}
    counts = {name: _whole(figures, name) for name in COUNTS}
    return msgspec.structs.replace(ModelCounters(batch_stats=stats), **tallies, **counts)


def _whole(figures: Mapping[str, float], field: str) -> int:
    return round(figures.get(field, 0.0))


def _rows(snapshot: Snapshot) -> Iterator[Row]:
    def row(key: ModelKey | None, field: str, value: float) -> Row:
        model, version = ("", "") if key is None else (key.model, key.version)
        return (snapshot.t_ns, snapshot.source, model, version, field, float(value))

    for key, counters in snapshot.models.items():
        for field, value in _figures(counters):
            yield row(key, field, value)
    for key, pending in snapshot.pending.items():
        yield row(key, "pending", pending)
    for name, value in snapshot.gauges.items():
        yield row(None, name, value)
    for key, summaries in (snapshot.summaries or {}).items():
        for name, quantiles in summaries.items():
            for quantile, value in quantiles.items():
                yield row(key, f"summaries.{name}.{quantile}", value)


def _figures(counters: ModelCounters) -> Iterator[tuple[str, float]]:
    for name in TALLIES:
        tally = getattr(counters, name)
        yield f"{name}.count", tally.count
        yield f"{name}.ns", tally.ns
    for name in COUNTS:
        yield name, getattr(counters, name)
    for size, stat in sorted((counters.batch_stats or {}).items()):
        for part in ("count", "input_ns", "infer_ns", "output_ns"):
            yield f"batch_stats.{size}.{part}", getattr(stat, part)
    for reason, count in counters.failure_reasons.items():
        yield f"failure_reasons.{reason}", count
