"""Which batch sizes ran, and how large the mean batch was."""

from __future__ import annotations

from tritune.diagnose.result import BatchRow
from tritune.model.server import ServerWindow


def batch_rows(window: ServerWindow) -> tuple[BatchRow, ...]:
    """One row per executed size in items, ascending; empty without batch statistics (metrics)."""
    stats = {size: s for size, s in (window.counters.batch_stats or {}).items() if s.count > 0}
    executions = sum(s.count for s in stats.values())
    items = sum(size * s.count for size, s in stats.items())
    return tuple(
        BatchRow(
            size=size,
            executions=stat.count,
            execution_share=stat.count / executions,
            item_share=size * stat.count / items,
            service_ns=stat.ns / stat.count,
        )
        for size, stat in sorted(stats.items())
    )


def mean_batch(window: ServerWindow) -> float | None:
    """Items per execution, from batch statistics or else from the counters; None where nothing ran."""
    rows = batch_rows(window)
    if rows:
        return sum(r.size * r.executions for r in rows) / sum(r.executions for r in rows)
    counters = window.counters
    return counters.inference_count / counters.execution_count if counters.execution_count > 0 else None
