"""How far predictions were from measurements: log errors, and the noise floor they are held against."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import msgspec
import numpy as np

from fidelity.asked import Asked
from fidelity.points import Point

MEDIAN_TARGET, NINETIETH_TARGET, BATCH_TARGET = 0.03, 0.10, 0.05


class Measured(msgspec.Struct, frozen=True):
    """The same plan sent twice: ms by figure, share of executions by batch size, the sender's lateness."""

    latency: tuple[dict[str, float], dict[str, float]]
    batches: dict[int, float]
    batch_floor: float
    late_p99_ms: tuple[float, float]
    failed: int

    def centre(self, figure: str) -> float:
        """Geometric mean of the two."""
        return math.sqrt(self.latency[0][figure] * self.latency[1][figure])


Row = tuple[Point, Asked, Measured]


def log_error(predicted: float, measured: float) -> float:
    return math.log(predicted / measured)


def floor(row: Row, figure: str = "p99") -> float:
    """|ln| between one sending of the plan and the middle of both: no prediction can be better."""
    one, two = (sending[figure] for sending in row[2].latency)
    return abs(math.log(one / two)) / 2


def summary(errors: Sequence[float]) -> dict[str, float]:
    absolute = np.abs(errors)
    return {
        "points": len(errors),
        "median_abs_ln": float(np.median(absolute)),
        "p90_abs_ln": float(np.quantile(absolute, 0.9)),
        "max_abs_ln": float(absolute.max()),
        "bias_ln": float(np.mean(errors)),
    }


def errors(rows: Sequence[Row], source: str, figure: str = "p99") -> list[float]:
    return [log_error(getattr(a, source)[figure], m.centre(figure)) for _, a, m in rows]


def batch_distance(row: Row) -> float:
    _, asked, measured = row
    sizes = asked.batches.keys() | measured.batches.keys()
    return sum(abs(asked.batches.get(s, 0) - measured.batches.get(s, 0)) for s in sizes) / 2


def results(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The figures that the issue names, beside their targets."""
    twin, noise = summary(errors(rows, "twin")), summary([floor(row) for row in rows])
    batches = [batch_distance(row) for row in rows]
    batch_floor = float(np.median([row[2].batch_floor for row in rows]))
    median_target = max(MEDIAN_TARGET, noise["median_abs_ln"])
    ninetieth_target = max(NINETIETH_TARGET, noise["p90_abs_ln"])
    figures = (
        ("points predicted, then measured", len(rows), ">=", 30, "points"),
        (
            "p99 of the twin, median |ln(predicted/measured)|",
            twin["median_abs_ln"],
            "<=",
            median_target,
            "ln",
        ),
        ("p99 of the twin, 90th percentile of it", twin["p90_abs_ln"], "<=", ninetieth_target, "ln"),
        (
            "batch sizes, median total variation",
            float(np.median(batches)),
            "<=",
            max(BATCH_TARGET, batch_floor),
            "share",
        ),
    )
    return [
        {
            "name": name,
            "measured": value,
            "target": f"{sign} {target:.3g}",
            "unit": unit,
            "holds": value >= target if sign == ">=" else value <= target,
        }
        for name, value, sign, target, unit in figures
    ]


def beside(rows: Sequence[Row]) -> dict[str, dict[str, float]]:
    """Every other error: other figures, fresh arrivals, simpler models, strata, the noise floor."""
    found = {
        f"twin {figure}": summary(errors(rows, "twin", figure)) for figure in ("mean", "p50", "p95", "p99")
    }
    found["twin p99, fresh arrivals"] = summary(errors(rows, "fresh"))
    found["late-binding recursion p99"] = summary(errors(rows, "late_binding"))
    found["late-binding recursion mean"] = summary(errors(rows, "late_binding", "mean"))
    with_bound = [row for row in rows if row[1].inoue is not None and math.isfinite(row[1].inoue)]
    if with_bound:
        bound = [log_error(a.inoue or math.nan, m.centre("mean")) for _, a, m in with_bound]
        found["Inoue's mean (one instance, Poisson)"] = summary(bound)
    found["noise floor p99"] = summary([floor(row) for row in rows])
    strata = {
        "load up to 0.5": [r for r in rows if r[0].load <= 0.5],
        "load 0.5 to 0.8": [r for r in rows if 0.5 < r[0].load <= 0.8],
        "load above 0.8": [r for r in rows if r[0].load > 0.8],
        "one instance": [r for r in rows if r[0].instances == 1],
        "several instances": [r for r in rows if r[0].instances > 1],
        "eager": [r for r in rows if not r[0].lazy],
        "lazy": [r for r in rows if r[0].lazy],
        "Poisson": [r for r in rows if not r[0].on_off],
        "on/off": [r for r in rows if r[0].on_off],
    }
    for name, group in strata.items():
        if group:
            found[f"twin p99, {name}"] = summary(errors(group, "twin"))
    return found
