"""Where the mean request spends its time: one bar per phase, whose parts add up."""

from __future__ import annotations

from collections.abc import Sequence

from tritune.diagnose.result import Breakdown
from tritune.report.content.charts import look
from tritune.report.content.wording import figure
from tritune.units import NS_PER_MS, format_duration

# A part narrower than this share of the longest bar has no room for its own label.
ROOM = 0.075


def breakdown(bars: Sequence[tuple[str, Breakdown]]) -> look.Spec:
    """(name, breakdown) from top to bottom; the parts keep Triton's order and one colour each."""
    longest = max((bar.total_ns for _, bar in bars), default=0.0) or 1.0
    rows: list[look.Spec] = []
    for name, bar in bars:
        left = 0.0
        for order, part in enumerate(bar.parts):
            width = max(part.ns, 0.0)
            said = part.name.removeprefix("compute_") if width > ROOM * longest else ""
            rows.append(
                {
                    "bar": name,
                    "part": part.name,
                    "order": order,
                    "from": round(left / NS_PER_MS, 4),
                    "to": round((left + width) / NS_PER_MS, 4),
                    "middle": round((left + width / 2) / NS_PER_MS, 4),
                    "said": f"{said} {figure(width / NS_PER_MS)}" if said else "",
                    "ms": round(part.ns / NS_PER_MS, 4),
                    "share": round(bar.share(part.name), 4),
                    "dark": part.name in ("compute_infer",),
                }
            )
            left += width
    totals = [
        {"bar": name, "to": round(bar.total_ns / NS_PER_MS, 4), "said": format_duration(bar.total_ns)}
        for name, bar in bars
    ]
    present = [part.name for _, bar in bars for part in bar.parts]
    y = {
        "field": "bar",
        "type": "nominal",
        "sort": [name for name, _ in bars],
        "title": None,
        "axis": {"labelFontSize": 13, "labelColor": look.INK, "ticks": False, "domain": False},
        "scale": {"paddingInner": 0.35, "paddingOuter": 0.15},
    }
    x = {
        "field": "from",
        "type": "quantitative",
        "title": "mean time per request, ms",
        "axis": {"tickCount": 8},
    }
    colour = {
        "field": "part",
        "type": "nominal",
        "scale": look.scale(look.PARTS, present),
        "legend": {"symbolType": "square", "columns": 6},
    }
    layers: list[look.Spec] = [
        {
            "mark": {"type": "bar", "stroke": "#ffffff", "strokeWidth": 1},
            "encoding": {
                "y": y,
                "x": x,
                "x2": {"field": "to"},
                "color": colour,
                "tooltip": [
                    {"field": "bar", "title": "setting"},
                    {"field": "part"},
                    {"field": "ms", "title": "mean, ms", "format": ".4~g"},
                    {"field": "share", "format": ".0%"},
                ],
            },
        },
        {
            "transform": [{"filter": "datum.said !== ''"}],
            "mark": {"type": "text", "baseline": "middle"},
            "encoding": {
                "y": y,
                "x": x | {"field": "middle"},
                "text": {"field": "said"},
                "color": {"condition": {"test": "datum.dark", "value": "#ffffff"}, "value": look.INK},
            },
        },
        {
            "data": {"values": totals},
            "mark": {"type": "text", "align": "left", "dx": 8, "baseline": "middle", "fontWeight": 600},
            "encoding": {"y": y, "x": x | {"field": "to"}, "text": {"field": "said"}},
        },
    ]
    return look.chart(58 * len(bars), rows, layers)
