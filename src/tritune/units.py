"""Durations and shares as people write them; inside, time is int64 nanoseconds."""

from __future__ import annotations

import re

from tritune.errors import UsageError

NS_PER_US = 1_000
NS_PER_MS = 1_000_000
NS_PER_S = 1_000_000_000

# A latency that never came: a failed request counts as infinitely late, and JSON knows no infinity.
NEVER_NS = float(2**62)

_UNITS = {
    "ns": 1,
    "us": NS_PER_US,
    "µs": NS_PER_US,
    "ms": NS_PER_MS,
    "s": NS_PER_S,
    "m": 60 * NS_PER_S,
    "min": 60 * NS_PER_S,
    "h": 3600 * NS_PER_S,
}
_DURATION = re.compile(r"^\s*(\d+(?:\.\d+)?|\.\d+)\s*([a-zµ]+)\s*$")
_SHARE = re.compile(r"^\s*(\d+(?:\.\d+)?|\.\d+)\s*(%?)\s*$")


def parse_duration(text: str) -> int:
    """`"50ms"` as nanoseconds; units ns, us, ms, s, m (or min), h.

    Raises UsageError when the unit is missing or unknown, or the number is not one.
    """
    match = _DURATION.match(text)
    if match is None or match[2] not in _UNITS:
        raise UsageError(
            f"'{text}' is not a duration",
            slug="bad-duration",
            hint="Write a number and a unit: 500us, 50ms, 30s, 10m.",
        )
    return round(float(match[1]) * _UNITS[match[2]])


def parse_share(text: str) -> float:
    """`"0.1%"` or `"0.001"` as a share between 0 and 1. Raises UsageError otherwise."""
    match = _SHARE.match(text)
    share = float(match[1]) / (100 if match[2] else 1) if match else -1.0
    if not 0 <= share <= 1:
        raise UsageError(
            f"'{text}' is not a share",
            slug="bad-share",
            hint="Write a percentage such as 0.1%, or a number from 0 to 1.",
        )
    return share


def format_duration(ns: float) -> str:
    """Nanoseconds for a human, three significant digits: `14.2 ms`, `500 us`, `2 min`; `-` for none."""
    if ns != ns:  # NaN: nothing was measured
        return "-"
    if ns >= NEVER_NS:
        return "never"
    magnitude = abs(ns)
    if magnitude >= 120 * NS_PER_S:
        return f"{ns / (60 * NS_PER_S):.3g} min"
    for unit, size in (("s", NS_PER_S), ("ms", NS_PER_MS), ("us", NS_PER_US)):
        if magnitude >= size:
            value = ns / size
            return f"{value:.0f} {unit}" if abs(value) >= 100 else f"{value:.3g} {unit}"
    return f"{ns:.0f} ns"


def format_interval(ns: float, low_ns: float, high_ns: float) -> str:
    """A measured duration and its interval in one unit, three digits of the value: `14.3 ms (13.8–14.9)`.

    All three must have been measured; a bound (or the value) that never came reads `never`.
    """
    if ns >= NEVER_NS:
        return "never"
    sizes = (("s", NS_PER_S), ("ms", NS_PER_MS), ("us", NS_PER_US))
    unit, size = next(((u, s) for u, s in sizes if abs(ns) >= s), ("ns", 1))
    value = abs(ns) / size
    digits = 0 if value >= 100 or size == 1 else 1 if value >= 10 else 2
    bounds = ("never" if b >= NEVER_NS else f"{b / size:.{digits}f}" for b in (low_ns, high_ns))
    return f"{ns / size:.{digits}f} {unit} ({'–'.join(bounds)})"


def format_ms(ns: float) -> str:
    """Nanoseconds as milliseconds without a unit, for columns: `14.2`; `-` for none, `never`."""
    if ns != ns:
        return "-"
    if ns >= NEVER_NS:
        return "never"
    value = ns / NS_PER_MS
    return f"{value:.0f}" if abs(value) >= 1000 else f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"
