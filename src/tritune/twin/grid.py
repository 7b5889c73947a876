"""`--set PATH=V1,V2` as a grid of changes, and `--service '4ms+0.55ms*b'` as service times."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import product

from tritune.errors import UsageError
from tritune.model.config import PATHS, Change, Setting, Value
from tritune.units import parse_duration

MOST_SETTINGS = 2000
_RANGE = re.compile(r"^(\d+):(\d+)$")
_SERVICE = re.compile(r"^\s*([^+*]+?)\s*(?:\+\s*([^+*]+?)\s*\*\s*b\s*)?$")


def grid(texts: Sequence[str]) -> tuple[Change, ...]:
    """Every combination of the values given, in the order given; no texts: one empty change (as it is).

    Values: numbers joined by commas, ranges `1:4` (both ends), lists `[4,8]` for preferred sizes, `none`
    removes the field, `{}` makes an empty block. Raises UsageError (bad-set) for anything else, a field
    given twice, or more than MOST_SETTINGS combinations.
    """
    columns: list[list[Setting]] = []
    for text in texts:
        path, sign, values = text.partition("=")
        path = path.strip()
        if not sign or path not in PATHS:
            raise UsageError(
                f"'{text}' does not set a field that can be simulated",
                slug="bad-set",
                hint=f"Write --set FIELD=V1,V2 with one of: {', '.join(PATHS)}.",
            )
        if any(column[0].path == path for column in columns):
            raise UsageError(f"{path} is set twice", slug="bad-set", hint="Give all its values in one --set.")
        columns.append([Setting(path, value) for value in _values(values, text)])
    if (number := _size(columns)) > MOST_SETTINGS:
        raise UsageError(
            f"{number} combinations are more than {MOST_SETTINGS}",
            slug="bad-set",
            hint="Give fewer values.",
        )
    return tuple(Change(settings) for settings in product(*columns))


def service_line(text: str, largest: int) -> tuple[float, ...]:
    """`4ms+0.55ms*b` (or `4ms`, whatever the size) as S(1) .. S(largest), ns.

    Raises UsageError (bad-service).
    """
    match = _SERVICE.match(text)
    try:
        if match is None:
            raise UsageError("", slug="bad-service")
        base, slope = parse_duration(match[1]), parse_duration(match[2]) if match[2] else 0
    except UsageError as error:
        raise UsageError(
            f"'{text}' is not a service time",
            slug="bad-service",
            hint="Write for example --service '4ms+0.55ms*b': a fixed part, and a part per item.",
        ) from error
    return tuple(float(base + slope * size) for size in range(1, largest + 1))


def _values(text: str, whole: str) -> list[Value]:
    found: list[Value] = []
    for part in re.findall(r"\[[^\]]*\]|[^,]+", text):
        value = part.strip()
        span = _RANGE.match(value)
        if span and int(span[1]) <= int(span[2]) < int(span[1]) + MOST_SETTINGS:
            found.extend(range(int(span[1]), int(span[2]) + 1))
        elif value.isdecimal():
            found.append(int(value))
        elif re.fullmatch(r"\[\s*\d+\s*(,\s*\d+\s*)*\]", value):
            found.append(tuple(int(n) for n in value[1:-1].split(",")))
        elif value == "none":
            found.append(None)
        elif value == "{}":
            found.append("{}")
        else:
            raise UsageError(
                f"'{value}' in '{whole}' is not a value",
                slug="bad-set",
                hint="Write numbers (0,500,2000), a range (1:4), lists ([4,8],[8]), none, or {}.",
            )
    if not found:
        raise UsageError(f"'{whole}' has no value", slug="bad-set", hint="Write --set FIELD=V1,V2.")
    return found


def _size(columns: Sequence[Sequence[Setting]]) -> int:
    number = 1
    for column in columns:
        number *= len(column)
    return number
