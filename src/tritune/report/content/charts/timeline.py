"""A load run over time, and the sender's own error beside what it measured. Downsampled here, in Python."""

from __future__ import annotations

import numpy as np

from tritune.model.requests import Floats, RequestLog
from tritune.model.slo import Clause
from tritune.report.content.charts import look
from tritune.report.content.charts.ladder import depth
from tritune.units import NS_PER_MS, NS_PER_S

MAX_BUCKETS = 600
# So many requests a bucket, where the run has them: a median of fewer jumps about.
PER_BUCKET = 50
MAX_RUNGS = 100

_SERIES = {"slowest": "#d55e00", "median": "#0072b2"}
_SENDER = {"latency": "#0072b2", "sender lateness": "#7b8794"}


def buckets(log: RequestLog) -> list[look.Spec]:
    """Equal spans of planned time with median and slowest answer (ms), failed and all requests.

    At most 600. A bucket without any answer has None for both latencies.
    """
    last = log.last_attempts()
    if not len(last):
        return []
    latency = log.latency_ns()
    planned = np.sort(last.planned_ns, kind="stable")
    number = int(np.clip(len(planned) // PER_BUCKET, 1, MAX_BUCKETS))
    span = max(int(planned[-1]) - int(planned[0]) + 1, number)
    index = np.minimum((planned - planned[0]) * number // span, number - 1)
    edges = np.searchsorted(index, np.arange(number + 1))
    rows: list[look.Spec] = []
    for i in range(number):
        part = latency[edges[i] : edges[i + 1]]
        answered = part[np.isfinite(part)]
        if not len(part):
            continue
        rows.append(
            {
                "s": round((int(planned[0]) + (i + 0.5) * span / number) / NS_PER_S, 4),
                "median": round(float(np.median(answered)) / NS_PER_MS, 4) if len(answered) else None,
                "slowest": round(float(answered.max()) / NS_PER_MS, 4) if len(answered) else None,
                "failed": len(part) - len(answered),
                "requests": len(part),
            }
        )
    return rows


def timeline(log: RequestLog, limit: Clause | None) -> look.Spec:
    """Median and slowest answer against the planned instant; buckets with failures are marked below."""
    rows = buckets(log)
    x = {
        "field": "s",
        "type": "quantitative",
        "title": "planned instant, s from the start",
        "axis": {"tickCount": 10},
        "scale": {"nice": False},
    }
    y = {
        "field": "ms",
        "type": "quantitative",
        "title": "latency, ms (log scale)",
        **look.log_axis(
            [row[key] for row in rows for key in ("median", "slowest")]
            + ([limit.limit / NS_PER_MS] if limit else [])
        ),
    }
    colour = {"field": "what", "type": "nominal", "scale": look.scale(_SERIES, list(_SERIES))}
    fold = [{"fold": ["slowest", "median"], "as": ["what", "ms"]}, {"filter": "isValid(datum.ms)"}]
    tooltip = [
        {"field": "s", "title": "at, s", "format": ".1f"},
        {"field": "median", "title": "median, ms", "format": ".4~g"},
        {"field": "slowest", "title": "slowest, ms", "format": ".4~g"},
        {"field": "failed"},
        {"field": "requests"},
    ]
    layers: list[look.Spec] = [
        {
            "transform": fold,
            "mark": {"type": "line", "strokeWidth": 1.5},
            "encoding": {
                "x": x,
                "y": y,
                "color": colour,
                "strokeDash": {
                    "field": "what",
                    "type": "nominal",
                    "scale": {"domain": list(_SERIES), "range": [[3, 2], [1, 0]]},
                    "legend": None,
                },
            },
        },
        {
            "transform": fold,
            "mark": {"type": "point", "filled": True, "size": 24, "opacity": 0.9},
            "encoding": {"x": x, "y": y, "color": colour, "tooltip": tooltip},
        },
        {
            "transform": [{"filter": "datum.failed > 0"}],
            "mark": {"type": "point", "shape": "triangle-up", "filled": True, "size": 70, "color": look.INK},
            "encoding": {"x": x, "y": {"value": 292}, "tooltip": tooltip},
        },
    ]
    if limit is not None:
        layers = look.limit_rule("y", limit) + layers
    return look.chart(300, rows, layers)


def rungs(values_ns: Floats) -> list[tuple[float, float]]:
    """(quantile, ns) of a sample, at most 100, evenly spaced in rarity and never beyond the sample."""
    n = len(values_ns)
    if n == 0:
        return []
    ordered = np.sort(values_ns)
    deepest = max(1.0, np.log10(n))
    ranks = np.ceil((1 - 10 ** -np.linspace(0, deepest, MAX_RUNGS - 1)) * n).astype(int)
    # The slowest is always among them.
    kept = np.unique(np.append(np.clip(ranks, 1, n), n))
    return [((rank - 0.5) / n, float(ordered[rank - 1])) for rank in kept.tolist()]


def lateness(log: RequestLog) -> look.Spec:
    """Percentiles of the latency and of the sender's lateness on one scale: the second must be far below."""
    rows: list[look.Spec] = [
        {"what": what, "depth": round(depth(q), 4), "quantile": round(q, 6), "ms": round(ns / NS_PER_MS, 5)}
        for what, values in (
            ("latency", log.latency_ns()),
            ("sender lateness", np.maximum(log.lateness_ns(), 1_000).astype(np.float64)),
        )
        for q, ns in rungs(values)
        if np.isfinite(ns) and ns > 0
    ]
    layers: list[look.Spec] = [
        {
            "mark": {"type": "line", "strokeWidth": 2, "interpolate": "monotone"},
            "encoding": {
                "x": {
                    "field": "depth",
                    "type": "quantitative",
                    "title": "percentile",
                    "axis": {
                        "values": [0.30103, 1, 2, 3, 4],
                        "labelExpr": "datum.value < 0.5 ? 'p50' : datum.value < 1.5 ? 'p90' : "
                        "datum.value < 2.5 ? 'p99' : datum.value < 3.5 ? 'p99.9' : 'p99.99'",
                    },
                },
                "y": {
                    "field": "ms",
                    "type": "quantitative",
                    "title": "ms (log scale)",
                    **look.log_axis([row["ms"] for row in rows]),
                },
                "color": {"field": "what", "type": "nominal", "scale": look.scale(_SENDER, list(_SENDER))},
                "strokeDash": {
                    "field": "what",
                    "type": "nominal",
                    "scale": {"domain": list(_SENDER), "range": [[1, 0], [4, 3]]},
                },
                "tooltip": [
                    {"field": "what"},
                    {"field": "quantile", "format": ".4%"},
                    {"field": "ms", "format": ".4~g"},
                ],
            },
        }
    ]
    return look.chart(260, rows, layers)
