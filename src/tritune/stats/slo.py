"""Whether a measurement meets an SLO, clause by clause, with "undecided" as an answer."""

from __future__ import annotations

from typing import Literal

import msgspec

from tritune.model.measurement import Estimate, Measurement
from tritune.model.slo import Clause, Slo

Answer = Literal["met", "not met", "undecided"]


class ClauseVerdict(msgspec.Struct, frozen=True):
    """One clause: its answer, and for "undecided" the side on which the measured value lies.

    `found` is what the clause was judged by (ns, or a share for errors, without an interval);
    `leaning` equals the answer where that is decided, and is None where nothing was measured.
    """

    clause: Clause
    answer: Answer
    leaning: Literal["met", "not met"] | None
    found: Estimate


class SloVerdict(msgspec.Struct, frozen=True):
    """met: every clause is; not met: at least one is not; undecided otherwise."""

    answer: Answer
    leaning: Literal["met", "not met"] | None
    clauses: tuple[ClauseVerdict, ...]

    @property
    def met(self) -> bool:
        """Met, or undecided with every value on the good side."""
        return self.leaning == "met"


def judge(slo: Slo, measurement: Measurement) -> SloVerdict:
    """Each clause by the 95 % interval: met if it lies below the limit, not met if above, else undecided.

    Errors are judged by their share of the planned requests, as measured. A percentile that was not
    estimated (p97) is judged by its measured neighbours: met if the next higher one is, not met if the
    next lower one is not.
    """
    clauses = tuple(_judge(clause, measurement) for clause in slo.clauses)
    answers = {c.answer for c in clauses}
    leanings = {c.leaning for c in clauses}
    answer: Answer = "not met" if "not met" in answers else "undecided" if "undecided" in answers else "met"
    leaning: Literal["met", "not met"] | None = (
        "not met" if "not met" in leanings else None if None in leanings else "met"
    )
    return SloVerdict(answer, leaning, clauses)


def _judge(clause: Clause, measurement: Measurement) -> ClauseVerdict:
    if clause.quantile is None:
        if not measurement.requests:
            return ClauseVerdict(clause, "undecided", None, Estimate())
        share = measurement.error_share
        answer: Literal["met", "not met"] = "met" if share <= clause.limit else "not met"
        return ClauseVerdict(clause, answer, answer, Estimate(share))
    found = measurement.latency.get(clause.metric)
    if found is not None:
        return _by_interval(clause, found)
    return _by_neighbours(clause, measurement)


def _by_interval(clause: Clause, found: Estimate) -> ClauseVerdict:
    if found.value is None:
        return ClauseVerdict(clause, "undecided", None, found)
    leaning: Literal["met", "not met"] = "met" if found.value <= clause.limit else "not met"
    answer: Answer = "undecided"
    if found.high is not None and found.high <= clause.limit:
        answer = "met"
    elif found.low is not None and found.low > clause.limit:
        answer = "not met"
    return ClauseVerdict(clause, answer, leaning, found)


def _by_neighbours(clause: Clause, measurement: Measurement) -> ClauseVerdict:
    wanted = clause.quantile or 0.0
    measured = sorted(
        (Clause(name, clause.limit).quantile or 0.0, name) for name in measurement.latency if name != "mean"
    )
    above = next((name for q, name in measured if q > wanted), None)
    below = next((name for q, name in reversed(measured) if q < wanted), None)
    if above is not None:
        verdict = _by_interval(clause, measurement.latency[above])
        if verdict.leaning == "met":
            return verdict
    if below is not None:
        verdict = _by_interval(clause, measurement.latency[below])
        if verdict.leaning == "not met":
            return verdict
    return ClauseVerdict(clause, "undecided", None, Estimate())
