"""The pictures of a simulation: p99 against the rate, and against what a setting costs."""

from __future__ import annotations

from collections.abc import Sequence

from tritune.model.slo import Slo
from tritune.report.content.charts.costs import costs
from tritune.report.content.charts.rates import rates
from tritune.report.content.document import Chart, Table
from tritune.report.content.simulation_words import meets, p99, rate, short
from tritune.report.content.wording import milliseconds
from tritune.twin.ask.pareto import by_setting, p99_ns
from tritune.twin.ask.predict import Prediction

# As many lines as a person can tell apart.
MOST_LINES = 5
BAR, BAR_WIDTH = "█", 36


def lines_of(predictions: Sequence[Prediction]) -> list[tuple[str, list[Prediction]]]:
    """The predictions of each setting by rate under its short name; the best setting first."""
    return [(short(line[0]), line) for line in by_setting(predictions)]


def over_rates(predictions: Sequence[Prediction], slo: Slo | None) -> Chart | None:
    """p99 against the rate; None for fewer than two rates. The table draws the best setting as bars."""
    lines = lines_of(predictions)
    if len({one.rate_per_s for one in predictions}) < 2:
        return None
    shown = lines[:MOST_LINES]
    name, best = shown[0]
    title = "Predicted p99 by rate"
    alt = f"{title}, {name}: " + "; ".join(f"{rate(one.rate_per_s)}/s {p99(one)}" for one in best)
    notes = []
    if len(lines) > 1:
        notes.append(f"Bars: {name}, the best setting.")
    if len(lines) > MOST_LINES:
        notes.append(f"The picture shows the best {MOST_LINES} of {len(lines)} settings.")
    return Chart(
        title if len(lines) == 1 else f"{title}: {name}",
        f"{alt}.",
        rates(shown, slo.main if slo else None),
        _bars(best, slo),
        "The pale bands are 95 % intervals of the simulation alone.",
        tuple(notes),
    )


def over_costs(predictions: Sequence[Prediction], slo: Slo | None) -> Chart | None:
    """p99 against instances x replicas at the highest rate; None where only one cost occurs."""
    top = max(one.rate_per_s for one in predictions)
    points = [one for one in predictions if one.rate_per_s == top and p99_ns(one) < float("inf")]
    if len({one.cost for one in points}) < 2:
        return None
    best = sorted((one for one in points if one.pareto), key=lambda one: one.cost)
    fallback = Table(
        columns=("setting on the front", "instances x replicas", "p99, ms"),
        rows=tuple((short(one), str(one.cost), milliseconds(one.latency.get("p99"))) for one in best),
        notes=("Every other setting is slower than one of these that costs no more.",),
    )
    alt = "Predicted p99 by cost; on the front: " + "; ".join(f"{one.cost}: {p99(one)}" for one in best)
    spec = costs([(short(one), one) for one in points], slo.main if slo else None)
    return Chart(f"p99 against cost at {rate(top)} requests/s", f"{alt}.", spec, fallback)


def _bars(line: Sequence[Prediction], slo: Slo | None) -> Table:
    values = [p99_ns(one) for one in line]
    most = max((value for value in values if value < float("inf")), default=1.0)
    rows = []
    for one, value in zip(line, values, strict=True):
        bar = BAR * max(1, round(BAR_WIDTH * value / most)) if value < float("inf") else p99(one)
        tail = milliseconds(one.latency.get("p99")) if value < float("inf") else "-"
        rows.append((rate(one.rate_per_s), tail, *([meets(one)] if slo else []), bar))
    return Table(
        columns=("rate/s", "p99, ms", *(["SLO"] if slo else []), ""),
        rows=tuple(rows),
        alignment=("right", "right", *(("left",) if slo else ()), "left"),
    )
