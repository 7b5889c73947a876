"""How the figures of a report were made, and what they cannot say."""

from __future__ import annotations

from collections.abc import Sequence

from tritune.model.measurement import Measurement
from tritune.model.workload import Workload
from tritune.report.content.wording import count, sentence
from tritune.stats.trust import doubt
from tritune.units import format_duration

INTERVAL = (
    "Every interval is a 95 % confidence interval that allows for slow requests coming in spells; (?) or "
    "(no interval) means too few requests, or too few separate slow spells, to give one."
)


def sending(workload: Workload) -> tuple[str, ...]:
    """How the load was made, in sentences."""
    items = count(workload.items, "item")
    data = f"the request in {workload.data}" if workload.data else "tensors of zeros"
    if workload.rate_per_s is not None:
        kind = workload.arrivals.replace("poisson", "Poisson")
        how = (
            f"Open loop: {workload.rate_per_s:g} requests/s with {kind} arrivals, planned before the start "
            f"with seed {workload.seed}. A slow server does not slow the sender down."
        )
        since = (
            "Latency counts from the planned instant to the last byte of the answer, so waiting to be sent "
            "counts too."
        )
    else:
        how = (
            f"Closed loop: {workload.concurrency} requests in flight. The next one waits for an answer, so "
            "a slow server is asked less often; its tail looks better than the users' own."
        )
        since = "Latency counts from the instant at which the request was due to the last byte of the answer."
    return (
        how,
        since,
        f"Every request carried {items} ({data}) and timed out after {format_duration(workload.timeout_ns)}.",
        "A failed request counts as infinitely late in every percentile; its time never enters a mean.",
    )


def lateness(measurements: Sequence[Measurement]) -> str:
    """What the sender's own error was over all cells."""
    worst = max((m.sender.lateness_p99_ns for m in measurements), default=0.0)
    slowest = max((m.sender.lateness_max_ns for m in measurements), default=0.0)
    return (
        f"The sender itself was late by at most {format_duration(worst)} at its p99 "
        f"(worst single request {format_duration(slowest)}) in any of these cells; the latency holds it."
    )


def doubts(measurements: Sequence[Measurement]) -> str:
    """How many cells cannot be believed and why the first of them cannot; empty where all can."""
    found = [why for m in measurements if (why := doubt(m))]
    if not found:
        return ""
    which = "" if len(measurements) == 1 else f"in {len(found)} of {len(measurements)} measurements "
    return sentence(f"Careful: {which}{found[0]}")


def cuts(measurements: Sequence[Measurement]) -> tuple[str, ...]:
    """A sentence for each cell that ended early."""
    return tuple(sentence(f"'{m.setting}' ended early: {m.cut}") for m in measurements if m.cut)
