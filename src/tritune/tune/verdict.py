"""When a trial is broken off, when a candidate is kept, when the SLO holds, and how that is said."""

from __future__ import annotations

from collections.abc import Callable

from tritune.diagnose.batches import mean_batch
from tritune.model.load import Tick
from tritune.model.measurement import Comparison, Measurement
from tritune.model.server import ServerWindow
from tritune.model.slo import Slo
from tritune.stats.compare import batch_distance
from tritune.stats.slo import Answer, judge
from tritune.units import NS_PER_S, format_duration

ABORT_ERRORS = 0.01
ABORT_P99_FACTOR = 5.0
# Before so many answers, one slow request would be the whole tail.
ABORT_AFTER = 200
# A gain this clear needs no second, interleaved pair.
CLEAR_RATIO = 0.8
FAR = 2.0


def abort_rule(baseline_p99_ns: float) -> Callable[[Tick], str | None]:
    """A stop rule for a trial (interfaces, safety 7): errors > 1 %, or p99 > 5 x the baseline's.

    The recent p99 has to be over the limit at two ticks in a row, so that one hiccup of the machine does
    not end a trial. The in-flight cap is the load engine's.
    """
    over = 0

    def rule(tick: Tick) -> str | None:
        nonlocal over
        if tick.done < ABORT_AFTER:
            return None
        if tick.errors > ABORT_ERRORS * tick.done:
            return f"{tick.errors} of {tick.done} requests failed, more than 1 %"
        limit = ABORT_P99_FACTOR * baseline_p99_ns
        over = over + 1 if tick.recent_p99_ns > limit else 0
        if over >= 2:
            return (
                f"recent p99 {format_duration(tick.recent_p99_ns)} is more than "
                f"{ABORT_P99_FACTOR:g} x the baseline's {format_duration(baseline_p99_ns)}"
            )
        return None

    return rule


def in_flight_cap(rate_per_s: float, timeout_ns: int, files: int) -> int:
    """How many requests may be open at once: what the rate can pile up until its timeout, within the
    number of open files that this process may hold (each request in flight has a connection)."""
    return max(100, min(round(rate_per_s * timeout_ns / NS_PER_S) + 100, files - 200))


def needs_pair(comparison: Comparison) -> bool:
    """Whether a second pair, interleaved, is worth its two reloads: a gain that is seen but not clear."""
    return (
        comparison.verdict in ("better", "undecided")
        and comparison.ratio < 1
        and (comparison.verdict == "undecided" or comparison.high > CLEAR_RATIO)
    )


def keep(comparison: Comparison) -> tuple[bool, str]:
    """Whether the candidate replaces the best so far, and the sentence that says why."""
    change = comparison.ratio - 1
    figure = f"p99 {change:+.0%} ({comparison.low - 1:+.0%} to {comparison.high - 1:+.0%})"
    if comparison.verdict == "better":
        return True, f"better: {figure}"
    if comparison.verdict == "worse":
        return False, f"worse: {figure}"
    if comparison.verdict == "equivalent":
        return False, f"no difference: {figure}; the smaller change stays"
    return False, f"undecided: {figure}; not proven, so not kept"


def holds(slo: Slo, whole: Measurement) -> Answer:
    """Whether the SLO holds, from all cells of a setting together.

    As `stats.slo.judge`; a value without an interval that is beyond FAR times its limit is not met all the
    same: a server in overload has one single slow spell, which never gives an interval.
    """
    verdict = judge(slo, whole)
    if verdict.answer != "undecided":
        return verdict.answer
    beyond = [c for c in verdict.clauses if c.found.value and c.found.value > FAR * c.clause.limit]
    return "not met" if beyond else "undecided"


def batches_moved(best: ServerWindow | None, candidate: ServerWindow | None) -> str:
    """How the executed batches differ, as the end of a sentence; empty where one side has none.

    A p99 that moves while the batches stay the same, or the other way round, is worth a second look.
    """
    if best is None or candidate is None:
        return ""
    distance = batch_distance(best, candidate)
    before, after = mean_batch(best), mean_batch(candidate)
    if distance is None or before is None or after is None:
        return ""
    return f"; mean batch {before:.2f} -> {after:.2f}, {distance:.0%} of the executions at other sizes"
