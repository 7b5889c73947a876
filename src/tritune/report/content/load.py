"""The report of one load run: what the client saw, what the server counted, how far to trust the sender."""

from __future__ import annotations

from tritune.model.measurement import Estimate, Measurement
from tritune.model.requests import RequestLog
from tritune.model.run import Manifest
from tritune.model.slo import Clause, Slo
from tritune.report.content import evidence, pictures
from tritune.report.content.charts.timeline import buckets, lateness, rungs, timeline
from tritune.report.content.document import (
    Block,
    Bullets,
    Chart,
    Document,
    Paragraph,
    Section,
    Table,
    Verdict,
)
from tritune.report.content.method import INTERVAL, cuts, doubts, sending
from tritune.report.content.method import lateness as lateness_told
from tritune.report.content.queue_parts import TITLE as QUEUE
from tritune.report.content.queue_parts import queue_bounds_blocks
from tritune.report.content.wording import LADDER, count, duration, errors, figure, sentence, share
from tritune.stats.slo import judge
from tritune.stats.trust import doubt
from tritune.twin.ask.queue_bounds import QueueBounds
from tritune.units import NS_PER_US, format_duration, format_ms

# As many batch sizes as a line of the first screen holds.
MOST_SIZES = 5


def load_document(
    manifest: Manifest, log: RequestLog | None = None, queue: QueueBounds | None = None
) -> Document:
    """One run as a document; the charts over time need the requests themselves, `queue` the configuration.

    A run that was cut before anything was measured says just that.
    """
    measurement = manifest.measurement
    title = f"Load on {manifest.model}"
    context = f"{manifest.url}, Triton {manifest.server_version}, {manifest.created}"
    if measurement is None:
        why = sentence(manifest.cut or "the run folder holds no measurement")
        return Document(
            kind="load",
            title=title,
            context=context,
            verdict=Verdict("Nothing measured", "warn"),
            headline=why,
        )
    main = manifest.slo.main if manifest.slo else None
    metric = main.metric if main else "p99"
    tail = duration(measurement.latency.get(metric))
    headline = f"{metric} {tail} at {measurement.workload}; {_failed(measurement)}."
    verdict, broken = _verdict(manifest, measurement)
    summary: list[Block] = [Paragraph(sentence(text)) for text in broken]
    summary.append(_figures(measurement))
    if late := doubts([measurement]):
        summary.insert(0, Paragraph(late))
    return Document(
        kind="load",
        title=title,
        context=context,
        verdict=verdict,
        headline=headline,
        summary=tuple(summary),
        sections=_sections(measurement, log, main, queue),
    )


def _against(slo: Slo, measurement: Measurement) -> tuple[Verdict, tuple[str, ...]]:
    """The verdict, and a sentence for every clause that does not clearly hold."""
    judged = judge(slo, measurement)
    verdicts = {"met": Verdict("SLO met", "good"), "not met": Verdict("SLO not met", "bad")}
    verdict = verdicts.get(judged.answer, Verdict("Undecided", "warn"))
    lines = []
    for clause in judged.clauses:
        if clause.answer == "met":
            continue
        if clause.clause.quantile is None:
            found = f"{measurement.error_share:.2%} of the requests failed"
        else:
            found = f"{clause.clause.metric} is {duration(clause.found)}"
        lines.append(f"{clause.answer}: {found}, the SLO allows {clause.clause}")
    return verdict, tuple(lines)


def _verdict(manifest: Manifest, measurement: Measurement) -> tuple[Verdict, tuple[str, ...]]:
    if measurement.cut or manifest.cut:
        return Verdict("Cut short", "warn"), (f"the run ended early: {measurement.cut or manifest.cut}",)
    if doubt(measurement):
        return Verdict("Not trustworthy", "warn"), ()
    if manifest.slo is None:
        return Verdict("Measured", "neutral"), ()
    return _against(manifest.slo, measurement)


def _failed(measurement: Measurement) -> str:
    kinds = ", ".join(f"{n} {kind.replace('_', ' ')}" for kind, n in measurement.errors.items())
    told = f"{sum(measurement.errors.values())} of {count(measurement.requests, 'request')} failed"
    return f"{told} ({kinds})" if kinds else told


def _figures(measurement: Measurement) -> Table:
    m = measurement
    names = [name for name in ("mean", *LADDER) if name in m.latency]
    rows = [(name, duration(m.latency[name])) for name in names]
    answered = m.requests - sum(m.errors.values())
    rows += [
        ("failed requests", f"0 of {m.requests}" if not m.errors else errors(m)),
        (
            "answers per second",
            f"{figure(answered / m.seconds)} over {format_duration(m.seconds * 1e9)}" if m.seconds else "-",
        ),
        ("where the mean goes", _where(m)),
        ("batches of 1, 2, ... items", _batches(m)),
        ("sender late, p99", format_duration(m.sender.lateness_p99_ns)),
    ]
    notes = [f"95 % intervals in brackets; {m.requests} requests."]
    if m.latency.get("p99", Estimate()).low is None:
        notes.append("No interval: too few separate slow spells to give one; measure for longer (--for).")
    return Table(("", "measured"), tuple(rows), notes=tuple(notes))


def _where(m: Measurement) -> str:
    """The decomposition in one line: it adds up to the mean latency."""
    parts = evidence.breakdown(m)
    if parts is None:
        return "-"
    return ", ".join(
        f"{part.name} {format_duration(part.ns)}" for part in parts.parts if part.ns >= NS_PER_US
    )


def _batches(m: Measurement) -> str:
    """The commonest executed batch sizes with their share of the executions."""
    common = sorted(evidence.batches(m), key=lambda row: -row.execution_share)[:MOST_SIZES]
    shown = [f"{row.size}: {share(row.execution_share)}" for row in sorted(common, key=lambda row: row.size)]
    return f"{', '.join(shown)} (mean {figure(evidence.mean_batch(m))})" if shown else "-"


def _sections(
    m: Measurement, log: RequestLog | None, main: Clause | None, queue: QueueBounds | None
) -> tuple[Section, ...]:
    time: list[Chart | None] = []
    sender: list[Block] = [Paragraph(lateness_told([m]))]
    if log is not None and len(log):
        time = [_over_time(log, main)]
        sender.append(_sender(log))
    ladder = pictures.percentile_ladder([("measured", m)], main) if log is None else None
    bar = evidence.breakdown(m)
    server = [
        pictures.where_time_goes([("measured", bar)]) if bar else None,
        *pictures.batches([("measured", evidence.batches(m))]),
    ]
    notes = (*sending(m.workload), INTERVAL, *cuts([m]))
    wanted = (
        Section("Latency over time", tuple(c for c in time if c is not None)),
        Section("Latency by percentile", (ladder,) if ladder else ()),
        Section("What the server counted", tuple(c for c in server if c is not None)),
        Section(QUEUE, queue_bounds_blocks(queue) if queue else ()),
        Section("The sender's own error", tuple(sender)),
        Section("How this was measured", (Bullets(notes),)),
    )
    return tuple(section for section in wanted if section.blocks)


def _over_time(log: RequestLog, main: Clause | None) -> Chart:
    rows = buckets(log)
    # The table has room for a few lines only: every n-th bucket would hide peaks, so the worst are listed.
    worst = sorted(rows, key=lambda r: -(r["slowest"] or float("inf")))[:10]
    table = Table(
        columns=("at, s", "median, ms", "slowest, ms", "failed", "requests"),
        rows=tuple(
            (
                f"{r['s']:.1f}",
                figure(r["median"]),
                figure(r["slowest"]),
                str(r["failed"]),
                str(r["requests"]),
            )
            for r in sorted(worst, key=lambda r: r["s"])
        ),
        alignment=("right",) * 5,
        notes=(f"The {len(worst)} slowest of {count(len(rows), 'span')} of time.",),
    )
    return Chart(
        "Latency over time",
        f"Median and slowest answer in {count(len(rows), 'equal span')} of planned time.",
        timeline(log, main),
        table,
        "By planned instant. A dark triangle at the bottom marks a span with failed requests.",
    )


def _sender(log: RequestLog) -> Chart:
    late = {round(q, 3): ns for q, ns in rungs(log.lateness_ns().astype(float))}
    table = Table(
        columns=("percentile", "sender lateness, ms"),
        rows=tuple((f"{q:.1%}", format_ms(ns)) for q, ns in list(late.items())[:: max(1, len(late) // 8)]),
    )
    return Chart(
        "The sender's lateness beside the latency",
        f"Percentiles of the latency and of the sender's lateness, {count(len(log), 'attempt')}.",
        lateness(log),
        table,
        "Lateness below 1 us is drawn as 1 us.",
    )
