"""Colours, shapes and type that all charts share, so that a colour means one thing in the whole report.

The palette is Okabe and Ito's, made to be told apart with every common kind of colour blindness. Nothing
is said by colour alone: every series also has a shape, a dash or a written label.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from typing import Any

from tritune.model.slo import Clause
from tritune.units import NS_PER_MS

Spec = dict[str, Any]

SCHEMA = "https://vega.github.io/schema/vega-lite/v6.json"
FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', 'Liberation Sans', sans-serif"

INK = "#1f2933"
MUTED = "#5f6b7a"
GRID = "#e6e9ee"

BEFORE = "#d55e00"
AFTER = "#0072b2"
# "measured" is a cell that nothing is compared with.
PHASES = {"before": BEFORE, "after": AFTER, "measured": AFTER}
PHASE_SHAPES = {"before": "circle", "after": "diamond", "measured": "diamond"}

OUTCOMES = {
    "before": (BEFORE, "circle"),
    "kept": ("#009e73", "triangle-up"),
    "undone": ("#7b8794", "cross"),
    "aborted": ("#b0508e", "triangle-down"),
    "failed": ("#1f2933", "square"),
    "after": (AFTER, "diamond"),
}

PARTS = {
    "queue": "#e69f00",
    "compute_input": "#9fd3f2",
    "compute_infer": "#009e73",
    "compute_output": "#cc79a7",
    "rest": "#aab2bd",
    "client": "#dfe3e8",
}


def chart(height: int, data: list[Spec], layers: list[Spec], **more: Any) -> Spec:
    """A layered chart as wide as its container, over rows that travel inside it."""
    return {
        "$schema": SCHEMA,
        "width": "container",
        "height": height,
        "autosize": {"type": "fit-x", "contains": "padding"},
        "data": {"values": data},
        "layer": layers,
        "config": _CONFIG,
        **more,
    }


def by_phase(values: dict[str, str], phases: Sequence[str]) -> Spec:
    """Colour or shape by phase; no legend where there is one phase only."""
    encoding: Spec = {"field": "phase", "type": "nominal", "scale": scale(values, phases)}
    return encoding if len(set(phases)) > 1 else encoding | {"legend": None}


def scale(colours: dict[str, str], present: Sequence[str]) -> Spec:
    """A nominal colour scale over those names that occur, in the fixed order."""
    names = [name for name in colours if name in present]
    return {"domain": names, "range": [colours[name] for name in names]}


def log_axis(values: Iterable[float | None]) -> Spec:
    """Scale and axis of a logarithmic axis in ms: ticks at 1, 2, 5 of each decade, room at both ends."""
    known = [value for value in values if value is not None and value > 0]
    low, high = (min(known) / 1.25, max(known) * 1.25) if known else (1.0, 10.0)
    steps = (1, 2, 5) if high / low < 2000 else (1,)
    decades = range(math.floor(math.log10(low)), math.ceil(math.log10(high)) + 1)
    ticks = [float(f"{step}e{decade}") for decade in decades for step in steps]
    return {
        "scale": {"type": "log", "nice": False, "domain": [low, high]},
        "axis": {"values": [tick for tick in ticks if low <= tick <= high], "format": "~g"},
    }


def typeset(text: str) -> str:
    """Real arrows and signs; charts are never copied into a shell."""
    return text.replace(" -> ", " → ").replace(" <= ", " ≤ ")


def limit_rule(channel: str, clause: Clause) -> list[Spec]:
    """A dashed, labelled line at an SLO's limit, across the chart (`y`) or down it (`x`).

    The label stands outside of the plot, where no line can cross it.
    """
    row = {"values": [{"limit": clause.limit / NS_PER_MS, "text": typeset(f"SLO {clause}")}]}
    across = channel == "y"
    place: Spec = {channel: {"field": "limit", "type": "quantitative"}}
    edge: Spec = {"x": {"value": "width"}} if across else {"y": {"value": 0}}
    label: Spec = {"type": "text", "align": "left" if across else "center", "color": INK, "fontWeight": 600}
    label |= {"dx": 8, "baseline": "middle"} if across else {"dy": -6, "baseline": "bottom"}
    return [
        {
            "data": row,
            "mark": {"type": "rule", "strokeDash": [6, 4], "color": INK, "strokeWidth": 1.5},
            "encoding": place,
        },
        {"data": row, "mark": label, "encoding": place | edge | {"text": {"field": "text"}}},
    ]


_CONFIG: Spec = {
    "background": "#ffffff",
    "font": FONT,
    "view": {"stroke": None},
    "axis": {
        "labelColor": MUTED,
        "titleColor": MUTED,
        "labelFontSize": 12,
        "titleFontSize": 12,
        "titleFontWeight": 500,
        "titlePadding": 10,
        "gridColor": GRID,
        "domainColor": "#c3cad3",
        "tickColor": "#c3cad3",
        "labelPadding": 6,
    },
    "legend": {
        "orient": "top",
        "title": None,
        "labelColor": INK,
        "labelFontSize": 12,
        "symbolSize": 110,
        "symbolOpacity": 1,
        "columnPadding": 18,
        "offset": 18,
    },
    "text": {"fontSize": 12, "color": INK},
}
