"""The charts of a report with their words: title, what one sees, and the same as a small table."""

from __future__ import annotations

from collections.abc import Sequence

from tritune.diagnose.result import BatchRow, Breakdown
from tritune.model.measurement import Estimate, Measurement
from tritune.model.slo import Clause
from tritune.report.content.charts.batches import batch_sizes, service_times
from tritune.report.content.charts.breakdown import breakdown
from tritune.report.content.charts.ladder import ladder
from tritune.report.content.charts.steps import Row, steps
from tritune.report.content.document import Chart, Table
from tritune.report.content.wording import LADDER, NOTHING, count, duration, figure, milliseconds, share
from tritune.units import NEVER_NS, format_duration, format_ms

Phases = Sequence[tuple[str, Measurement]]


def percentile_ladder(phases: Phases, limit: Clause | None) -> Chart | None:
    """Before and after over the percentiles; None where nothing was answered."""
    drawn = [(p, m) for p, m in phases if any(e.value is not None for e in m.latency.values())]
    if not drawn:
        return None
    names = _numbered([phase for phase, _ in drawn])
    fallback = Table(
        columns=("percentile", *(f"{name}, ms" for name in names)),
        rows=tuple((rung, *(milliseconds(m.latency.get(rung)) for _, m in drawn)) for rung in LADDER),
    )
    never = [
        f"{name}: failed requests reach {rung}, so it has no value to draw."
        for name, (_, m) in zip(names, drawn, strict=True)
        for rung in LADDER
        if (m.latency.get(rung, Estimate()).value or 0.0) >= NEVER_NS
    ]
    alt = "Latency by percentile. " + "; ".join(
        f"{name}: p50 {duration(m.latency.get('p50'))}, p99 {duration(m.latency.get('p99'))}"
        for name, (_, m) in zip(names, drawn, strict=True)
    )
    reading = "Each step to the right is rarer. The pale bars are 95 % intervals."
    if len(drawn) > len({phase for phase, _ in drawn}):
        reading += " Repeats of one setting are lines of their own: the distance between them is the noise."
    return Chart("Latency by percentile", alt + ".", ladder(drawn, limit), fallback, reading, tuple(never))


def where_time_goes(bars: Sequence[tuple[str, Breakdown]]) -> Chart | None:
    """The mean request in parts, one bar per phase; None where no source had counters."""
    if not bars:
        return None
    names = list(dict.fromkeys(part.name for _, bar in bars for part in bar.parts))
    rows = []
    for name in names:
        cells = []
        for _, bar in bars:
            ns = sum(p.ns for p in bar.parts if p.name == name)
            cells += [format_ms(ns), share(bar.share(name))]
        rows.append((name, *cells))
    totals = [text for _, bar in bars for text in (format_ms(bar.total_ns), share(1.0))]
    columns = [c for phase, _ in bars for c in (f"{phase}, ms", "share")]
    fallback = Table(columns=("part", *columns), rows=(*rows, ("total", *totals)))
    alt = "Mean time per request. " + "; ".join(
        f"{phase}: {format_duration(bar.total_ns)}, of which {share(bar.share('queue'))} in the queue"
        for phase, bar in bars
    )
    sample = ", ".join(f"{phase}: {count(bar.requests, 'request')}" for phase, bar in bars)
    note = (
        f"Means over the server's own counters ({sample}). `rest` is what the server spends on "
        "a request outside its four counted parts; `client` is network, connections and sender."
    )
    title = "Where the mean request spends its time"
    return Chart(title, alt + ".", breakdown(bars), fallback, notes=(note,))


def batches(phases: Sequence[tuple[str, Sequence[BatchRow]]]) -> tuple[Chart, ...]:
    """Executed sizes and, where more than one size was seen, S(b); none where no source had them."""
    phases = [(phase, rows) for phase, rows in phases if rows]
    if not phases:
        return ()
    sizes = sorted({row.size for _, rows in phases for row in rows})
    by = {(phase, row.size): row for phase, rows in phases for row in rows}
    ran, took = [], []
    for size in sizes:
        found = [by.get((phase, size)) for phase, _ in phases]
        shares = [(str(r.executions), share(r.execution_share)) if r else ("0", share(0)) for r in found]
        ran.append((str(size), *(text for pair in shares for text in pair)))
        took.append((str(size), *(format_ms(r.service_ns) if r else NOTHING for r in found)))
    executed = Table(("items", *(c for p, _ in phases for c in (f"{p}: executions", "share"))), tuple(ran))
    durations = Table(("items", *(f"{p}: S(b), ms" for p, _ in phases)), tuple(took))
    means = "; ".join(
        f"{phase}: {figure(sum(r.size * r.execution_share for r in rows))} items in the mean batch "
        f"({count(sum(r.executions for r in rows), 'execution')})"
        for phase, rows in phases
    )
    charts = [
        Chart(
            "Batch sizes that were executed",
            f"Share of executions by batch size. {means}.",
            batch_sizes(phases),
            executed,
            notes=(f"{means}.",),
            narrow=True,
        )
    ]
    if len(sizes) > 1:
        charts.append(
            Chart(
                "How long a batch takes",
                f"Service time S(b) by batch size. {means}.",
                service_times(phases),
                durations,
                reading="Larger points were executed more often.",
                notes=("S(b) is the mean time of one execution with b items.",),
                narrow=True,
            )
        )
    return tuple(charts)


def all_steps(rows: Sequence[Row], limit: Clause) -> Chart | None:
    """Every measured cell in order; None where nothing was measured."""
    if not rows:
        return None
    fallback = Table(
        columns=("setting", "outcome", f"{limit.metric}, ms", "requests"),
        rows=tuple(
            (f"{r.number} · {'; '.join(r.label)}", r.outcome, milliseconds(r.estimate), str(r.requests))
            for r in rows
        ),
        alignment=("left", "left", "right", "right"),
    )
    alt = f"{limit.metric} of {count(len(rows), 'measurement')} in order, against the limit {limit}"
    reading = "From top to bottom in the order of measuring. The pale bars are 95 % intervals."
    title = f"Every setting that was measured: {limit.metric}"
    return Chart(title, f"{alt}.", steps(rows, limit), fallback, reading)


def _numbered(names: Sequence[str]) -> list[str]:
    """before, after; or before 1, before 2, after where a name repeats."""
    return [
        f"{name} {names[: i + 1].count(name)}" if names.count(name) > 1 else name
        for i, name in enumerate(names)
    ]
