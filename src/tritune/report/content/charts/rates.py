"""Predicted tail latency against the rate, one line per setting, with the interval of the simulation."""

from __future__ import annotations

from collections.abc import Sequence

from tritune.model.slo import Clause
from tritune.report.content.charts import look
from tritune.report.content.wording import drawable_ms
from tritune.twin.ask.predict import Prediction

# Okabe and Ito's, then dashes: nothing is told by colour alone.
COLOURS = ("#d55e00", "#0072b2", "#009e73", "#cc79a7", "#e69f00", "#56b4e9")
DASHES = ([1, 0], [6, 3], [2, 2], [8, 2, 2, 2], [4, 4], [1, 3])


def rates(lines: Sequence[tuple[str, Sequence[Prediction]]], limit: Clause | None) -> look.Spec:
    """One line per (name, predictions); a point that is refused or never settles is not drawn."""
    rows: list[look.Spec] = []
    for name, predictions in lines:
        for one in predictions:
            tail = one.latency.get("p99")
            ms = drawable_ms(tail.value) if tail is not None and one.settles else None
            if tail is not None and ms is not None:
                rows.append(
                    {
                        "setting": name,
                        "rate": one.rate_per_s,
                        "ms": ms,
                        "low": drawable_ms(tail.low),
                        "high": drawable_ms(tail.high),
                    }
                )
    names = [name for name, _ in lines]
    x = {"field": "rate", "type": "quantitative", "title": "requests per second", "scale": {"zero": False}}
    y = {
        "field": "ms",
        "type": "quantitative",
        "title": "predicted p99, ms (log scale)",
        **look.log_axis(
            [row[key] for row in rows for key in ("ms", "low", "high")]
            + ([limit.limit / 1e6] if limit else [])
        ),
    }
    alone = {"legend": None} if len(names) == 1 else {}
    scale = {"domain": names, "range": [COLOURS[k % len(COLOURS)] for k in range(len(names))]}
    dashes = {"domain": names, "range": [DASHES[k % len(DASHES)] for k in range(len(names))]}
    colour = {"field": "setting", "type": "nominal", "scale": scale, **alone}
    layers: list[look.Spec] = [
        *(look.limit_rule("y", limit) if limit else []),
        {
            "transform": [{"filter": "isValid(datum.low) && isValid(datum.high)"}],
            "mark": {"type": "area", "opacity": 0.18},
            "encoding": {"x": x, "y": y | {"field": "low"}, "y2": {"field": "high"}, "color": colour},
        },
        {
            "mark": {"type": "line", "strokeWidth": 2},
            "encoding": {
                "x": x,
                "y": y,
                "color": colour,
                "strokeDash": {"field": "setting", "type": "nominal", "scale": dashes, **alone},
            },
        },
        {
            "mark": {"type": "point", "filled": True, "size": 60, "opacity": 1},
            "encoding": {
                "x": x,
                "y": y,
                "color": colour,
                "tooltip": [
                    {"field": "setting"},
                    {"field": "rate", "title": "requests/s", "format": ".4~g"},
                    {"field": "ms", "title": "p99, ms", "format": ".4~g"},
                    {"field": "low", "title": "from, ms", "format": ".4~g"},
                    {"field": "high", "title": "to, ms", "format": ".4~g"},
                ],
            },
        },
    ]
    return look.chart(320, rows, layers)
