"""How far a replay is from what was observed, and how far it may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from tritune.model.server import ServerWindow

# Refusal thresholds (interfaces, Twin).
MAX_QUEUE_ERROR = 0.15
MAX_BATCH_DISTANCE = 0.05
# A queue this small a part of the request cannot move a prediction, however wrong it is in itself.
NEGLIGIBLE = 0.02


def queue_off(observed_ns: float, replayed_ns: float, request_ns: float) -> bool:
    """Whether the mean queue time speaks against the replay; `request_ns`: of a mean request in all."""
    gap = abs(replayed_ns - observed_ns)
    return gap > MAX_QUEUE_ERROR * observed_ns and gap > NEGLIGIBLE * request_ns


def relative(value: float, reference: float) -> float:
    """(value - reference) / reference; 0 for equal ones, infinite where only the reference is 0."""
    if value == reference:
        return 0.0
    return (value - reference) / reference if reference else float("inf")


def distance(one: Mapping[int, int], other: Mapping[int, int]) -> float:
    """Total variation between two counts of executions by batch size; 1 where one of them is empty."""
    a, b = sum(one.values()), sum(other.values())
    if not a or not b:
        return 1.0
    return sum(abs(one.get(s, 0) / a - other.get(s, 0) / b) for s in one.keys() | other.keys()) / 2


def chance(each: Sequence[Mapping[int, int]], together: Mapping[int, int]) -> float:
    """How far one run is from the mean of many by chance: the median distance of each replay to all."""
    return float(np.median([distance(one, together) for one in each]))


def distance_allowed(noise: float) -> float:
    """The largest distance of a run that is believed, where chance alone makes `noise`: one run, too."""
    return MAX_BATCH_DISTANCE + noise


def observed_sizes(window: ServerWindow) -> dict[int, int]:
    """Executions by batch size; empty where the source has no batch statistics."""
    return {size: stat.count for size, stat in (window.counters.batch_stats or {}).items() if stat.count}
