"""Which batch sizes were executed, and how long each takes."""

from __future__ import annotations

from collections.abc import Sequence

from tritune.diagnose.result import BatchRow
from tritune.report.content.charts import look
from tritune.units import NS_PER_MS

# With more bars than this their labels would be unreadable.
MANY = 40


def _rows(phases: Sequence[tuple[str, Sequence[BatchRow]]]) -> list[look.Spec]:
    return [
        {
            "phase": phase,
            "size": row.size,
            "share": round(row.execution_share, 4),
            "executions": row.executions,
            "items": round(row.item_share, 4),
            "ms": round(row.service_ns / NS_PER_MS, 4),
        }
        for phase, rows in phases
        for row in rows
        if row.executions
    ]


def _sizes(phases: Sequence[tuple[str, Sequence[BatchRow]]]) -> list[int]:
    """Every size up to the largest, so that a gap is seen; only those that ran where these are many."""
    ran = sorted({row.size for _, rows in phases for row in rows if row.executions})
    return list(range(1, ran[-1] + 1)) if ran and ran[-1] <= MANY else ran


def _tooltip() -> list[look.Spec]:
    return [
        {"field": "phase", "title": "setting"},
        {"field": "size", "title": "items in the batch"},
        {"field": "executions"},
        {"field": "share", "title": "share of executions", "format": ".1%"},
        {"field": "items", "title": "share of items", "format": ".1%"},
        {"field": "ms", "title": "S(b), ms", "format": ".4~g"},
    ]


def batch_sizes(phases: Sequence[tuple[str, Sequence[BatchRow]]]) -> look.Spec:
    """The share of executions by batch size, the phases side by side in the same order."""
    names = [phase for phase, _ in phases]
    layers: list[look.Spec] = [
        {
            "mark": {"type": "bar", "cornerRadiusEnd": 2},
            "encoding": {
                "x": {
                    "field": "size",
                    "type": "ordinal",
                    "title": "items in the batch",
                    "axis": {"labelAngle": 0, "labelOverlap": True},
                    "scale": {"domain": _sizes(phases)},
                },
                "xOffset": {"field": "phase", "type": "nominal", "sort": names},
                "y": {
                    "field": "share",
                    "type": "quantitative",
                    "title": "share of executions",
                    "axis": {"format": ".0%", "tickCount": 5},
                },
                "color": look.by_phase(look.PHASES, names),
                "tooltip": _tooltip(),
            },
        }
    ]
    return look.chart(240, _rows(phases), layers)


def service_times(phases: Sequence[tuple[str, Sequence[BatchRow]]]) -> look.Spec:
    """S(b), the mean time of one execution, against b; the area of a point follows its executions."""
    names = [phase for phase, _ in phases]
    colour = look.by_phase(look.PHASES, names)
    x = {
        "field": "size",
        "type": "quantitative",
        "title": "items in the batch (b)",
        "axis": {"tickMinStep": 1},
    }
    y = {"field": "ms", "type": "quantitative", "title": "S(b), ms", "scale": {"zero": True}}
    layers: list[look.Spec] = [
        {
            "mark": {"type": "line", "strokeWidth": 1.5, "opacity": 0.6},
            "encoding": {"x": x, "y": y, "color": colour},
        },
        {
            "mark": {"type": "point", "filled": True, "opacity": 0.95},
            "encoding": {
                "x": x,
                "y": y,
                "color": colour,
                "shape": look.by_phase(look.PHASE_SHAPES, names),
                "size": {
                    "field": "share",
                    "type": "quantitative",
                    "scale": {"range": [30, 260]},
                    "legend": None,
                },
                "tooltip": _tooltip(),
            },
        },
    ]
    return look.chart(240, _rows(phases), layers)
