"""Every setting that was measured, in order: its tail latency with an interval, and what became of it."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tritune.model.measurement import Estimate
from tritune.model.slo import Clause
from tritune.report.content.charts import look
from tritune.report.content.wording import drawable_ms, milliseconds
from tritune.units import NS_PER_MS


class Row(msgspec.Struct, frozen=True):
    """One measured cell; `outcome` is before, kept, undone, aborted, failed or after."""

    number: int
    label: tuple[str, ...]
    outcome: str
    estimate: Estimate
    requests: int


def steps(rows: Sequence[Row], limit: Clause) -> look.Spec:
    """Top to bottom in the order of measuring. A cell whose tail never came has `never` and no point."""
    data: list[look.Spec] = [
        {
            # The number makes each label unique; its lines are split again by the axis.
            "label": look.typeset(f"{row.number} · " + "\n".join(row.label)),
            "outcome": row.outcome,
            "ms": drawable_ms(row.estimate.value),
            "low": drawable_ms(row.estimate.low),
            "high": drawable_ms(row.estimate.high),
            "said": f"{milliseconds(row.estimate)}   {row.outcome}",
            "requests": row.requests,
        }
        for row in rows
    ]
    present = [row.outcome for row in rows]
    names = [name for name in look.OUTCOMES if name in present]
    colours = {"domain": names, "range": [look.OUTCOMES[name][0] for name in names]}
    shapes = {"domain": names, "range": [look.OUTCOMES[name][1] for name in names]}
    y = {
        "field": "label",
        "type": "nominal",
        "sort": None,
        "title": None,
        "axis": {
            "labelExpr": "split(datum.label, '\\n')",
            "labelLimit": 400,
            "labelFontSize": 12,
            "labelColor": look.INK,
            "labelLineHeight": 15,
            "ticks": False,
            "domain": False,
            "grid": True,
        },
    }
    x = {
        "field": "ms",
        "type": "quantitative",
        "title": f"{limit.metric}, ms (log scale)",
        **look.log_axis([row[k] for row in data for k in ("ms", "low", "high")] + [limit.limit / NS_PER_MS]),
    }
    colour = {"field": "outcome", "type": "nominal", "scale": colours, "legend": {"offset": 34}}
    layers: list[look.Spec] = [
        *look.limit_rule("x", limit),
        {
            "transform": [{"filter": "isValid(datum.low) && isValid(datum.high)"}],
            "mark": {"type": "rule", "strokeWidth": 7, "opacity": 0.28, "strokeCap": "round"},
            "encoding": {"y": y, "x": x | {"field": "low"}, "x2": {"field": "high"}, "color": colour},
        },
        {
            "transform": [{"filter": "isValid(datum.ms)"}],
            "mark": {"type": "point", "filled": True, "size": 110, "opacity": 1},
            "encoding": {
                "y": y,
                "x": x,
                "color": colour,
                "shape": {"field": "outcome", "type": "nominal", "scale": shapes, "legend": {"offset": 34}},
                "tooltip": [
                    {"field": "label", "title": "setting"},
                    {"field": "outcome"},
                    {"field": "ms", "title": f"{limit.metric}, ms", "format": ".4~g"},
                    {"field": "low", "title": "from, ms", "format": ".4~g"},
                    {"field": "high", "title": "to, ms", "format": ".4~g"},
                    {"field": "requests"},
                ],
            },
        },
        # A column of words beside the plot: readable without any colour.
        {
            "mark": {"type": "text", "align": "left", "dx": 12, "baseline": "middle"},
            "encoding": {"y": y, "x": {"value": "width"}, "text": {"field": "said"}},
        },
    ]
    return look.chart(46 * len(data), data, layers)
