"""Measured figures as text: never a number without its interval or its sample size."""

from __future__ import annotations

import math

from tritune.model.measurement import Estimate, Measurement
from tritune.units import NEVER_NS, NS_PER_MS, format_duration, format_interval, format_ms

NOTHING = "-"
LADDER = ("p50", "p90", "p95", "p99", "p99.9")


def duration(estimate: Estimate | None) -> str:
    """`14.3 ms (13.8–14.9)`; `14.3 ms (no interval)`; `-` where nothing was measured."""
    if estimate is None or estimate.value is None:
        return NOTHING
    if estimate.value >= NEVER_NS:
        return "never (failed requests reach it)"
    if estimate.low is None or estimate.high is None:
        return f"{format_duration(estimate.value)} (no interval)"
    return format_interval(estimate.value, estimate.low, estimate.high)


def milliseconds(estimate: Estimate | None) -> str:
    """The same for a column headed ms: `14.3 (13.8–14.9)`; `(?)` where no interval can be told."""
    if estimate is None or estimate.value is None:
        return NOTHING
    if estimate.value >= NEVER_NS:
        return format_ms(estimate.value)
    if estimate.low is None or estimate.high is None:
        return f"{format_ms(estimate.value)} (?)"
    return f"{format_ms(estimate.value)} ({format_ms(estimate.low)}–{format_ms(estimate.high)})"


def errors(measurement: Measurement) -> str:
    """`0`, or the share and every kind: `12 of 6000 (9 timeout, 3 connection)`."""
    total = sum(measurement.errors.values())
    if not total:
        return "0"
    kinds = ", ".join(
        f"{n} {kind.replace('_', ' ')}" for kind, n in sorted(measurement.errors.items(), key=lambda e: -e[1])
    )
    return f"{total} of {measurement.requests} ({kinds})"


def share(value: float | None) -> str:
    """`48 %`; `-` where it is not known."""
    return NOTHING if value is None or not math.isfinite(value) else f"{value:.0%}".replace("%", " %")


def figure(value: float | None) -> str:
    """A plain number, three digits; `-` where it is not known."""
    return NOTHING if value is None or not math.isfinite(value) else f"{value:.3g}"


def count(number: int, singular: str, plural: str = "") -> str:
    """`1 setting`, `4 settings`."""
    return f"{number} {singular if number == 1 else plural or singular + 's'}"


def drawable_ms(ns: float | None) -> float | None:
    """Nanoseconds as a positive number of ms that a (logarithmic) chart can draw; None otherwise."""
    if ns is None or not math.isfinite(ns) or ns <= 0 or ns >= NEVER_NS:
        return None
    return round(ns / NS_PER_MS, 4)


def sentence(text: str) -> str:
    """With a capital first letter and a full stop."""
    text = text.strip()
    if not text:
        return ""
    first = text.split()[0]
    # The name of a field or a figure keeps its case.
    head = text[0] if "_" in first or any(c.isdigit() for c in first) else text[0].upper()
    return head + text[1:] + ("" if text[-1] in ".!?:" else ".")
