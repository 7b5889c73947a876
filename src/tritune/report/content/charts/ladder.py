"""The percentile ladder: latency against how rare it is, before and after, with intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tritune.model.measurement import Estimate, Measurement
from tritune.model.slo import Clause
from tritune.report.content.charts import look
from tritune.report.content.wording import LADDER, drawable_ms
from tritune.units import NS_PER_MS, format_duration


def depth(quantile: float) -> float:
    """Where a percentile stands on the axis: each step of 1 is ten times rarer (p90 = 1, p99 = 2)."""
    return -math.log10(1 - quantile)


def ladder(cells: Sequence[tuple[str, Measurement]], limit: Clause | None) -> look.Spec:
    """One line per measured cell; (phase, measurement) with phase `before`, `after` or `measured`.

    Each repeat of a setting is its own line, so that the distance between them shows the noise. A
    percentile that failed requests reach is not drawn.
    """
    rows: list[look.Spec] = []
    labelled = _labelled(cells, limit)
    for number, (phase, measurement) in enumerate(cells):
        for name in LADDER:
            estimate = measurement.latency.get(name)
            ms = drawable_ms(estimate.value) if estimate else None
            if estimate is None or estimate.value is None or ms is None:
                continue
            quantile = float(name[1:]) / 100
            rows.append(
                {
                    "phase": phase,
                    "cell": number,
                    "percentile": name,
                    "depth": round(depth(quantile), 4),
                    "ms": ms,
                    "low": drawable_ms(estimate.low),
                    "high": drawable_ms(estimate.high),
                    "said": format_duration(estimate.value)
                    if limit and labelled[phase] == number and name == limit.metric
                    else "",
                    "requests": measurement.requests,
                }
            )
    phases = [phase for phase, _ in cells]
    x = {
        "field": "depth",
        "type": "quantitative",
        "scale": {"domain": [0.2, 3.15], "nice": False},
        "title": "percentile of all planned requests",
        "axis": {
            "values": [round(depth(float(name[1:]) / 100), 4) for name in LADDER],
            "labelExpr": "datum.value < 0.5 ? 'p50' : datum.value < 1.2 ? 'p90' : datum.value < 1.5 ? 'p95'"
            " : datum.value < 2.5 ? 'p99' : 'p99.9'",
            "grid": True,
        },
    }
    y = {
        "field": "ms",
        "type": "quantitative",
        "title": "latency, ms (log scale)",
        **look.log_axis(
            [row[key] for row in rows for key in ("ms", "low", "high")]
            + ([limit.limit / NS_PER_MS] if limit else [])
        ),
    }
    colour = look.by_phase(look.PHASES, phases)
    shape = look.by_phase(look.PHASE_SHAPES, phases)
    tooltip = [
        {"field": "phase", "title": "setting"},
        {"field": "percentile"},
        {"field": "ms", "title": "latency, ms", "format": ".4~g"},
        {"field": "low", "title": "from, ms", "format": ".4~g"},
        {"field": "high", "title": "to, ms", "format": ".4~g"},
        {"field": "requests"},
    ]
    layers: list[look.Spec] = [
        {
            "transform": [{"filter": "isValid(datum.low) && isValid(datum.high)"}],
            "mark": {"type": "rule", "strokeWidth": 7, "opacity": 0.28, "strokeCap": "round"},
            "encoding": {"x": x, "y": y | {"field": "low"}, "y2": {"field": "high"}, "color": colour},
        },
        {
            "mark": {"type": "line", "strokeWidth": 2},
            "encoding": {"x": x, "y": y, "color": colour, "detail": {"field": "cell"}},
        },
        {
            "mark": {"type": "point", "filled": True, "size": 85, "opacity": 1},
            "encoding": {"x": x, "y": y, "color": colour, "shape": shape, "tooltip": tooltip},
        },
        # The figures of the headline: before above its line, after below it.
        *(
            {
                "transform": [{"filter": f"datum.said !== '' && (datum.phase === 'before') === {test}"}],
                "mark": {"type": "text", "dy": dy, "fontWeight": 600, "fontSize": 13},
                "encoding": {"x": x, "y": y, "text": {"field": "said"}, "color": colour},
            }
            for test, dy in (("true", -15), ("false", 17))
        ),
    ]
    if limit is not None:
        layers = look.limit_rule("y", limit) + layers
    return look.chart(340, rows, layers)


def _labelled(cells: Sequence[tuple[str, Measurement]], limit: Clause | None) -> dict[str, int]:
    """Per phase the cell whose figure is written out: the least flattering, as in the headline."""
    metric = limit.metric if limit else "p99"
    compared = any(phase == "after" for phase, _ in cells)
    chosen: dict[str, int] = {}
    for phase in dict.fromkeys(phase for phase, _ in cells):
        values = {
            number: measurement.latency.get(metric, Estimate()).value or 0.0
            for number, (name, measurement) in enumerate(cells)
            if name == phase
        }
        chosen[phase] = (min if phase == "before" and compared else max)(values, key=lambda n: values[n])
    return chosen
