"""Predicted tail latency against what a setting costs in instances; the Pareto front as a line."""

from __future__ import annotations

from collections.abc import Sequence

from tritune.model.slo import Clause
from tritune.report.content.charts import look
from tritune.report.content.wording import drawable_ms
from tritune.twin.ask.predict import Prediction

FRONT, OTHER = "on the Pareto front", "not on it"


def costs(points: Sequence[tuple[str, Prediction]], limit: Clause | None) -> look.Spec:
    """One point per (name, prediction); what is refused or never settles is not drawn."""
    rows: list[look.Spec] = []
    for name, one in points:
        tail = one.latency.get("p99")
        ms = drawable_ms(tail.value) if tail is not None and one.settles else None
        if ms is not None:
            where = FRONT if one.pareto else OTHER
            rows.append({"setting": name, "cost": one.cost, "ms": ms, "where": where})
    x = {
        "field": "cost",
        "type": "quantitative",
        "title": "instances x replicas",
        "axis": {"tickMinStep": 1, "format": "d"},
        "scale": {"zero": False, "padding": 24},
    }
    y = {
        "field": "ms",
        "type": "quantitative",
        "title": "predicted p99, ms (log scale)",
        **look.log_axis([row["ms"] for row in rows] + ([limit.limit / 1e6] if limit else [])),
    }
    scale = {"domain": [FRONT, OTHER], "range": [look.AFTER, "#aab2bd"]}
    shapes = {"domain": [FRONT, OTHER], "range": ["diamond", "circle"]}
    layers: list[look.Spec] = [
        *(look.limit_rule("y", limit) if limit else []),
        {
            "transform": [{"filter": f"datum.where === '{FRONT}'"}],
            "mark": {"type": "line", "strokeWidth": 2, "color": look.AFTER},
            "encoding": {"x": x, "y": y},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 80, "opacity": 0.9},
            "encoding": {
                "x": x,
                "y": y,
                "color": {"field": "where", "type": "nominal", "scale": scale},
                "shape": {"field": "where", "type": "nominal", "scale": shapes},
                "tooltip": [
                    {"field": "setting"},
                    {"field": "cost", "title": "instances x replicas"},
                    {"field": "ms", "title": "p99, ms", "format": ".4~g"},
                ],
            },
        },
    ]
    return look.chart(320, rows, layers)
