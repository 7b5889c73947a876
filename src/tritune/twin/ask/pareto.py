"""Which predictions are worth looking at: their order, and the front of latency against cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tritune.twin.ask.predict import Prediction
from tritune.units import NEVER_NS

_MEETS = {"yes": 0, "close": 1, None: 1, "no": 2}


def p99_ns(prediction: Prediction) -> float:
    """The p99 to compare by; infinite where it is refused, never settles, or failures reach it."""
    found = prediction.latency.get("p99")
    if prediction.refusal or not prediction.settles or found is None or found.value is None:
        return math.inf
    return math.inf if found.value >= NEVER_NS else found.value


def ranked(predictions: Sequence[Prediction]) -> tuple[int, ...]:
    """Positions, best first: SLO met, then p99, then fewer instances; refused last; equal ones as given."""

    def key(position: int) -> tuple[bool, int, float, int, int]:
        one = predictions[position]
        return bool(one.refusal), _MEETS[one.meets], p99_ns(one), one.cost, position

    return tuple(sorted(range(len(predictions)), key=key))


def by_setting(predictions: Sequence[Prediction]) -> list[list[Prediction]]:
    """The predictions of each setting in order of rate; the best setting first.

    Best: fewest rates refused, then fewest at which the SLO fails, then fewest without a p99, then the lowest
    geometric mean of those p99 that there are, then the lowest cost.
    """
    by: dict[str, list[Prediction]] = {}
    for one in sorted(predictions, key=lambda one: one.rate_per_s):
        by.setdefault(one.setting, []).append(one)

    def key(line: list[Prediction]) -> tuple[int, int, int, float, int]:
        values = [p99_ns(one) for one in line]
        tails = [math.log(max(1.0, value)) for value in values if math.isfinite(value)]
        return (
            sum(bool(one.refusal) for one in line),
            sum(_MEETS[one.meets] for one in line),
            len(line) - len(tails),
            sum(tails) / len(tails) if tails else math.inf,
            line[0].cost,
        )

    return sorted(by.values(), key=key)


def front(points: Sequence[tuple[float, float]]) -> tuple[bool, ...]:
    """Per (cost, value): whether no other costs no more and has a lower value, or the same value for less.

    Infinite values are never on the front; of equal points all are.
    """
    best: dict[float, float] = {}
    for cost, value in points:
        best[cost] = min(value, best.get(cost, math.inf))
    lowest, good = math.inf, set()
    for cost in sorted(best):
        if best[cost] < lowest:
            lowest = best[cost]
            good.add((cost, lowest))
    return tuple(point in good for point in points)
