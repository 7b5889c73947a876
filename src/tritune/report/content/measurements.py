"""One table for every measured cell: the client's side, the server's side, and the sender's own error."""

from __future__ import annotations

from collections.abc import Sequence

from tritune.diagnose.result import Capacity
from tritune.report.content import evidence
from tritune.report.content.cells import Cell
from tritune.report.content.document import Table
from tritune.report.content.method import INTERVAL
from tritune.report.content.wording import NOTHING, errors, figure, milliseconds, share
from tritune.stats.trust import doubt
from tritune.units import format_ms


def every_measurement(cells: Sequence[Cell]) -> Table:
    """All cells in order; latencies in ms with intervals."""
    rows = []
    for cell in cells:
        m = cell.measurement
        capacity = evidence.capacity(m, cell.config)
        rows.append(
            (
                str(cell.number),
                "; ".join(cell.label),
                cell.outcome,
                str(m.requests),
                milliseconds(m.latency.get("p50")),
                milliseconds(m.latency.get("p95")),
                milliseconds(m.latency.get("p99")),
                errors(m),
                figure(evidence.mean_batch(m)),
                share(capacity.utilisation if capacity else None),
                load_share(capacity),
                format_ms(m.sender.lateness_p99_ns) + (" (too late)" if doubt(m) else ""),
            )
        )
    return Table(
        columns=(
            "#",
            "setting",
            "outcome",
            "requests",
            "p50, ms",
            "p95, ms",
            "p99, ms",
            "errors",
            "mean batch",
            "utilisation",
            "load",
            "late p99, ms",
        ),
        rows=tuple(rows),
        alignment=("right", "left", "left", *("right",) * 9),
        notes=(
            INTERVAL,
            (
                "Utilisation: the share of the time in which the instances were executing. An instance can "
                "be busy all the time at half of its capacity, so this is not a sign of saturation."
            ),
            (
                "Load: the items that came per second as a share of the capacity, which is the largest "
                "instances x b / S(b) over the batch sizes b seen; near 100 % is saturation. It is an upper "
                "bound (<=) where larger batches are allowed than were seen."
            ),
            (
                "Late: how long after its planned instant the sender sent a request; the latency counts it. "
                "Where it is too late, the cell says little about the server."
            ),
        ),
        wide=True,
    )


def load_share(capacity: Capacity | None) -> str:
    """`48 %`, or `<= 48 %` where larger batches than those seen may do more; `-` if not known."""
    if capacity is None:
        return NOTHING
    return f"<= {share(capacity.load)}" if capacity.bound else share(capacity.load)
