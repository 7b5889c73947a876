"""`--set PATH=V1,V2` as a grid of settings, `--rate 200:1200:100` as rates, `--service '4ms+0.55ms*b'`."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from itertools import product

import msgspec

from tritune.errors import UsageError
from tritune.model.config import SIMULATED_PATHS, Change, Setting, Value
from tritune.units import parse_duration

MOST_SETTINGS = 2000
# Behind a balancer; not a field of Triton's.
REPLICAS = "replicas"
MOST_REPLICAS = 10_000
AS_IT_IS = "as it is"
_RANGE = re.compile(r"^(\d+):(\d+)(?::(\d+))?$")
_SERVICE = re.compile(r"^\s*([^+*]+?)\s*(?:\+\s*([^+*]+?)\s*\*\s*b\s*)?$")
_WORDS: dict[str, Value] = {"none": None, "{}": "{}", "true": 1, "false": 0}


class Candidate(msgspec.Struct, frozen=True):
    """One setting of a grid: what changes in the configuration, and how many replicas serve it."""

    settings: tuple[Setting, ...] = ()
    replicas: int = 1

    @property
    def change(self) -> Change:
        """What changes in the configuration."""
        return Change(self.settings)

    @property
    def fields(self) -> dict[str, str]:
        """What was set, by path; the number of replicas where it was given."""
        shown = {s.path: str(s).removeprefix(f"{s.path}: ") for s in self.settings}
        return shown | ({REPLICAS: str(self.replicas)} if self.replicas > 1 else {})

    def __str__(self) -> str:
        parts = [str(setting).replace("dynamic_batching.", "") for setting in self.settings]
        parts += [f"{REPLICAS}: {self.replicas}"] if self.replicas > 1 else []
        return ", ".join(parts) or AS_IT_IS


def grid(texts: Sequence[str]) -> tuple[Candidate, ...]:
    """Every combination of the values given, in the order given; no texts: one candidate, as it is.

    Values: numbers joined by commas, ranges `1:4` or `0:2000:500` (both ends), lists `[4,8]` for preferred
    sizes, true and false, `none` removes the field, `{}` makes an empty block. Raises UsageError (bad-set)
    for anything else, a field given twice, or more than MOST_SETTINGS combinations.
    """
    columns: list[list[Setting]] = []
    for text in texts:
        path, sign, values = text.partition("=")
        path = path.strip()
        if not sign or path not in (*SIMULATED_PATHS, REPLICAS):
            raise UsageError(
                f"'{text}' does not set a field that can be simulated",
                slug="bad-set",
                hint=f"Write --set FIELD=V1,V2 with one of: {', '.join((*SIMULATED_PATHS, REPLICAS))}.",
            )
        if any(column[0].path == path for column in columns):
            raise UsageError(f"{path} is set twice", slug="bad-set", hint="Give all its values in one --set.")
        found = list(dict.fromkeys(_values(values, text)))
        if path == REPLICAS and not all(isinstance(n, int) and 1 <= n <= MOST_REPLICAS for n in found):
            raise UsageError(
                f"'{text}' is no number of replicas",
                slug="bad-set",
                hint=f"Write --set replicas=12:20, from 1 to {MOST_REPLICAS}.",
            )
        columns.append([Setting(path, value) for value in found])
    at_most(math.prod(len(column) for column in columns), "combinations")
    return tuple(_candidate(settings) for settings in product(*columns))


def at_most(number: int, what: str) -> None:
    """Raises UsageError (bad-set) for more than MOST_SETTINGS."""
    if number > MOST_SETTINGS:
        raise UsageError(
            f"{number} {what} are more than {MOST_SETTINGS}",
            slug="bad-set",
            hint="Give fewer values, or ranges with a step: 0:20000:500.",
        )


def rates(texts: Sequence[str]) -> tuple[float, ...]:
    """`200`, or `200:1200:100` (both ends), requests/s, in the order given and each once.

    Raises UsageError: bad-rate (no positive number, or a range without a step), bad-set (too many).
    """
    found: list[float] = []
    for text in texts:
        try:
            low, *more = (float(part) for part in text.split(":"))
        except ValueError:
            low, more = math.nan, []
        if len(more) == 2 and 0 < low <= more[0] and 0 < more[1] < math.inf and more[0] < math.inf:
            # A little more than whole steps: 0.1 x 3 is not 0.3.
            steps = math.floor((more[0] - low) / more[1] + 1e-9)
            at_most(steps + 1, "rates")
            found.extend(round(low + k * more[1], 9) for k in range(steps + 1))
        elif not more and 0 < low < math.inf:
            found.append(low)
        else:
            raise UsageError(
                f"'{text}' is not a rate",
                slug="bad-rate",
                hint="Write --rate 200, or --rate 200:1200:100 for 200, 300, ... 1200 requests/s.",
            )
    return tuple(dict.fromkeys(found))


def _candidate(settings: Sequence[Setting]) -> Candidate:
    replicas = next((s.value for s in settings if s.path == REPLICAS), 1)
    return Candidate(
        tuple(s for s in settings if s.path != REPLICAS), replicas if isinstance(replicas, int) else 1
    )


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
        if span := _RANGE.match(value):
            first, last, step = int(span[1]), int(span[2]), int(span[3] or 1)
            if first > last or step < 1:
                raise UsageError(f"'{value}' in '{whole}' holds no value", slug="bad-set")
            at_most((last - first) // step + 1, "values")
            found.extend(range(first, last + 1, step))
        elif value.isdecimal():
            found.append(int(value))
        elif re.fullmatch(r"\[\s*\d+\s*(,\s*\d+\s*)*\]", value):
            found.append(tuple(int(n) for n in value[1:-1].split(",")))
        elif value in _WORDS:
            found.append(_WORDS[value])
        else:
            raise UsageError(
                f"'{value}' in '{whole}' is not a value",
                slug="bad-set",
                hint="Write numbers (0,500,2000), a range (1:4, 0:2000:500), lists ([4,8],[8]), true, false, "
                "none, or {}.",
            )
    if not found:
        raise UsageError(f"'{whole}' has no value", slug="bad-set", hint="Write --set FIELD=V1,V2.")
    return found
