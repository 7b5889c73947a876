"""A simulation in words: what a setting is called for short, the headroom, the trust, the cost."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tritune.model.client import ClientPolicy
from tritune.model.measurement import Estimate
from tritune.model.slo import Slo
from tritune.report.content.wording import NOTHING, count, figure, share
from tritune.twin.ask.answer import Simulation
from tritune.twin.ask.grid import AS_IT_IS
from tritune.twin.ask.knee import Headroom, Knee
from tritune.twin.ask.pareto import by_setting, p99_ns
from tritune.twin.ask.predict import Prediction
from tritune.twin.ask.validate import Validity
from tritune.units import NEVER_NS, NS_PER_US, format_duration

# Columns of a table for Triton's fields, in this order.
NAMES = {
    "dynamic_batching": "batching",
    "dynamic_batching.max_queue_delay_microseconds": "delay",
    "dynamic_batching.preferred_batch_size": "preferred",
    "max_batch_size": "max batch",
    "dynamic_batching.default_queue_policy.max_queue_size": "queue limit",
    "dynamic_batching.default_queue_policy.default_timeout_microseconds": "queue timeout",
    "dynamic_batching.default_queue_policy.allow_timeout_override": "override",
    "dynamic_batching.priority_levels": "priorities",
    "dynamic_batching.default_priority_level": "default priority",
    "dynamic_batching.preserve_ordering": "ordering",
    "instance_group.count": "instances",
    "replicas": "replicas",
}
_WORDS = {"removed": "none", "{}": "on"}


def columns_of(predictions: Sequence[Prediction]) -> tuple[str, ...]:
    """The fields that were set in any of them, in the order of NAMES; none where all are as it is."""
    there = {path for one in predictions for path in one.fields}
    return tuple(path for path in NAMES if path in there)


def cells_of(one: Prediction, columns: Sequence[str]) -> tuple[str, ...]:
    """The values of these fields; the name of the setting where there is no column."""
    if not columns:
        return (one.setting,)
    usual = {"replicas": "1"}
    return tuple(_value(path, one.fields.get(path, usual.get(path, NOTHING))) for path in columns)


def short(one: Prediction) -> str:
    """`delay 500 us, 2 instances`: Triton's long names would take the whole line."""
    columns = columns_of([one])
    if not columns:
        return one.setting
    values = [_value(path, one.fields[path]) for path in columns]
    return ", ".join(
        f"{value} {NAMES[path] if value != '1' else NAMES[path][:-1]}"
        if path in ("instance_group.count", "replicas")
        else f"{NAMES[path]} {value}"
        for path, value in zip(columns, values, strict=True)
    )


def _value(path: str, text: str) -> str:
    if path.endswith("_microseconds") and text.isdecimal():
        return format_duration(int(text) * NS_PER_US) if text != "0" else "0"
    if path.endswith(("_override", "_ordering")) and text.isdecimal():
        return "yes" if text == "1" else "no"
    return _WORDS.get(text, text.strip("[] "))


def rate(per_s: float) -> str:
    """Three digits, and never an exponent: `12.5`, `1200`."""
    return f"{per_s:.0f}" if per_s >= 100 else f"{per_s:.3g}"


def headroom_line(headroom: Headroom, slo: Slo | None) -> str:
    """`As it is, at 200/s: 48 % of capacity; knee 1246/s (1230–1262) for p99 <= 50 ms; p99 at 1 / 1.3 / 1.6 x
    the rate: ...`.
    """
    parts = [f"{share(headroom.load)} of capacity"] if headroom.load is not None else []
    if slo is not None and headroom.rate_per_s:
        words, found = f"{knee_words(headroom.knee)} for {slo.main}", headroom.knee
        # A long delay makes low rates fail where higher ones hold.
        if headroom.meets == "no" and found is not None and found.rate_per_s > headroom.rate_per_s:
            words = f"{slo.main} fails here and holds at higher rates only: {knee_words(found).rstrip(',')}"
        parts.append(words)
    values = " / ".join(brief(estimate) for estimate in headroom.p99_ns.values())
    if len(headroom.p99_ns) > 1:
        values = f"p99 at {' / '.join(headroom.p99_ns)} x the rate: {values}"
    else:
        values = f"p99 {values}"
    at = f", at {rate(headroom.rate_per_s)}/s" if headroom.rate_per_s else ""
    return f"{AS_IT_IS.capitalize()}{at}: {'; '.join([*parts, values])}."


def best_line(found: Simulation) -> str:
    """The best setting beside the one as it is; empty where nothing else was asked about."""
    lines = by_setting(found.predictions)
    if len(lines) < 2 or all(one.refusal for one in lines[0]):
        return ""
    settled = [one for one in lines[0] if math.isfinite(p99_ns(one))]
    best = settled[-1] if settled else lines[0][-1]
    now = next(
        (one for one in found.predictions if not one.fields and one.rate_per_s == best.rate_per_s), None
    )
    words = f"Best: {short(best)}, p99 {p99(best)}"
    words += f" at {rate(best.rate_per_s)}/s" if len(lines[0]) > 1 else ""
    words += f" (as it is: {p99(now)})" if now is not None and now is not best else ""
    if found.slo is not None:
        words += {"yes": ", meets the SLO", "close": ", too close to the SLO to tell"}.get(
            best.meets or "no", ", misses the SLO"
        )
    if found.best_knee is not None:
        words += f"; {knee_words(found.best_knee).rstrip(',')}"
    return f"{words}.{_alike(best, found)}"


def _alike(best: Prediction, found: Simulation) -> str:
    """How many settings the simulation cannot tell from the best one: their intervals of p99 overlap."""
    high = best.latency.get("p99", Estimate()).high
    others = [one for one in found.predictions if one is not best and one.rate_per_s == best.rate_per_s]
    lows = [one.latency["p99"].low for one in others if math.isfinite(p99_ns(one))]
    alike = sum(low <= high for low in lows if low is not None) if high is not None else 0
    if not alike:
        return ""
    return f" The p99 of {count(alike, 'other')} cannot be told from it: compare p50, p95 and cost."


def cheapest_line(found: Simulation) -> str:
    """The cheapest setting that meets the SLO at every rate; empty where the best one is that already."""
    lines = by_setting(found.predictions)
    good = [line for line in lines if all(one.meets == "yes" for one in line)]
    if found.slo is None or not good:
        return ""
    cheapest = min(good, key=lambda line: line[0].cost)[-1]
    if cheapest.cost >= lines[0][0].cost:
        return ""
    return f"Cheapest that meets the SLO: {short(cheapest)} (cost {cheapest.cost}), p99 {p99(cheapest)}."


def knee_words(knee: Knee | None) -> str:
    """`knee 1246/s (1230–1262)`."""
    if knee is None:
        return "knee not predicted"
    if knee.beyond:
        return f"knee above {rate(knee.rate_per_s)}/s, the highest rate that may be asked about,"
    if knee.rate_per_s == 0:
        return f"no rate up to {rate(knee.up_to)}/s holds"
    return f"knee {knee.rate_per_s:.0f}/s ({knee.low:.0f}–{knee.high:.0f})"


def brief(estimate: Estimate) -> str:
    """A duration without its interval."""
    if estimate.value is None:
        return "not predicted"
    return "never settles" if estimate.value >= NEVER_NS else format_duration(estimate.value)


def p99(one: Prediction) -> str:
    """The p99 in a sentence."""
    if one.refusal:
        return "refused"
    if not one.settles:
        return "never settles"
    tail = one.latency.get("p99", Estimate())
    return "never (failures reach it)" if (tail.value or 0) >= NEVER_NS else brief(tail)


def meets(one: Prediction) -> str:
    """Whether the SLO holds, for a column."""
    return NOTHING if one.refusal else one.meets or NOTHING


def error(relative: float) -> str:
    """`+4 %`; nothing is written `0 %`, without a sign."""
    percent = round(100 * relative)
    return f"{percent:+d} %" if percent else "0 %"


def trust(validity: Validity | None) -> str:
    """What the replay of the run found, or that there was none."""
    if validity is None:
        return (
            "Not checked against any run: service times were typed by hand, overheads and noise are left "
            "out. `tritune simulate RUN` checks itself against a run of `tritune load`."
        )
    queue = (
        f"queue mean {format_duration(validity.queue_replayed_ns)} for "
        f"{format_duration(validity.queue_observed_ns)} measured ({error(validity.queue_error)})"
    )
    batches = f"batch sizes apart by {validity.batch_distance:.3f}"
    replayed, measured = validity.p99_replayed_ns, validity.p99_observed_ns
    if validity.p99_error is None or replayed is None or measured is None:
        return (
            f"Simulating what was watched ({count(validity.requests, 'request')}): {queue}, {batches}. "
            "The p99 could not be checked: counters do not hold it."
        )
    return (
        f"Replaying the observed run ({count(validity.requests, 'request')}): {queue}, p99 "
        f"{format_duration(replayed)} for {format_duration(measured)} ({error(validity.p99_error)}), "
        f"{batches}."
    )


def confidence(found: Simulation) -> str:
    """One line: like what the rules were checked on, or what of this model was not."""
    if found.verified.gaps:
        return f"Lower confidence: {'; '.join(found.verified.gaps)}."
    return f"Verified on: {found.verified.on}."


def clients(policy: ClientPolicy) -> str:
    """What clients do, in a sentence."""
    parts = [f"give up after {format_duration(policy.timeout_ns)}" if policy.timeout_ns else "wait for ever"]
    if policy.retries:
        parts.append(f"retry up to {count(policy.retries, 'time')}")
        if policy.backoff_ns:
            parts.append(f"back off from {format_duration(policy.backoff_ns)}")
        if policy.retry_budget is not None:
            parts.append(f"spend {figure(policy.retry_budget)} retries per success at most")
    return f"Clients {', '.join(parts)}."
