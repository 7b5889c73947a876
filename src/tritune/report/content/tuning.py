"""The report of a tuning: what it brought, what was changed and why, and everything a sceptic asks for."""

from __future__ import annotations

from tritune.model.measurement import Measurement
from tritune.report.content import evidence
from tritune.report.content.cells import cells
from tritune.report.content.document import Block, Bullets, Document, Paragraph, Table, Verdict
from tritune.report.content.findings import main_cause
from tritune.report.content.measurements import load_share
from tritune.report.content.method import doubts
from tritune.report.content.tuning_sections import sections, told
from tritune.report.content.wording import count, duration, errors, figure, sentence
from tritune.tune.progress import edits
from tritune.tune.result import Status, TuneResult
from tritune.units import format_duration

VERDICTS: dict[Status, Verdict] = {
    "met": Verdict("SLO met", "good"),
    "already met": Verdict("SLO met as found", "good"),
    "not met": Verdict("SLO not met", "bad"),
    "advice": Verdict("Advice only", "neutral"),
    "undecided": Verdict("Undecided", "warn"),
    "cut": Verdict("Cut short", "warn"),
}


def tuning_document(result: TuneResult) -> Document:
    """The whole story of a tuning as a document; its first screen fits 24 lines of 100 columns."""
    before, after = result.before_whole, result.after_whole
    return Document(
        kind="tune",
        title=f"Tuning of {result.model}",
        context=f"version {result.version or '-'} on {result.url}, Triton {result.server_version}",
        verdict=VERDICTS[result.status],
        headline=_headline(result, before, after),
        summary=_summary(result, before, after),
        sections=sections(result, cells(result)),
    )


def _headline(result: TuneResult, before: Measurement, after: Measurement | None) -> str:
    main = result.slo.main
    load = (
        f"at {result.workload.rate_per_s:g} requests/s"
        if result.workload.rate_per_s is not None
        else f"with {result.workload.concurrency} in flight"
    )
    was = f"{main.metric} {duration(before.latency.get(main.metric))}"
    now = duration(after.latency.get(main.metric)) if after else "-"
    moved = f"{was} -> {now} {load}" if after and _changed(result) else f"{was} {load}"
    ends: dict[Status, str] = {
        "met": f"SLO {main} met",
        "already met": f"SLO {main} met as found, so nothing was changed",
        "not met": f"SLO {main} not met",
        "advice": f"SLO {main} not met, and nothing was changed on this server",
        "undecided": f"whether SLO {main} holds could not be decided",
        "cut": "the tuning was cut short",
    }
    return f"{moved}; {ends[result.status]}."


def _changed(result: TuneResult) -> bool:
    """Whether the server serves (or, as advice, should serve) something else than before."""
    return bool(result.change.settings)


def _summary(result: TuneResult, before: Measurement, after: Measurement | None) -> tuple[Block, ...]:
    blocks: list[Block] = []
    cause = main_cause(result.diagnosis)
    if cause:
        blocks.append(Paragraph(f"Cause: {cause}"))
    if _changed(result):
        blocks.append(Paragraph("To try:" if result.status == "advice" else "Changed:"))
        lines = edits(result.change, result.config_before, result.config_after)
        blocks.append(Bullets(tuple(f"`{line}`" for line in lines)))
    else:
        blocks.append(Paragraph("Changed: nothing."))
    blocks.append(_contrast(result, before, after))
    if late := doubts([cell.measurement for cell in cells(result)]):
        blocks.append(Paragraph(late))
    if result.views:
        blocks.append(Paragraph(_witnesses(result)))
    blocks.append(Paragraph(_effort(result)))
    blocks += [Paragraph(told(command)) for command in result.next_commands[:1]]
    return tuple(blocks)


def _contrast(result: TuneResult, before: Measurement, after: Measurement | None) -> Table:
    """The few figures that matter, side by side; one column where nothing was changed."""
    first = "before" if result.after else "as found"
    shown = [(name, m) for name, m in ((first, before), ("after", after)) if m is not None]
    names = dict.fromkeys(("p50", "p95", "p99", result.slo.main.metric))
    lines = [(name, *(duration(m.latency.get(name)) for _, m in shown)) for name in names]
    lines.append(("failed requests", *(_failed(m) for _, m in shown)))
    lines.append(("items in the mean batch", *(figure(evidence.mean_batch(m)) for _, m in shown)))
    configs = {first: result.config_before, "after": result.config_after}
    loads = [evidence.capacity(m, configs[name]) for name, m in shown]
    lines.append(("load (share of capacity)", *(load_share(capacity) for capacity in loads)))
    return Table(columns=("(95 % interval)", *(name for name, _ in shown)), rows=tuple(lines))


def _witnesses(result: TuneResult) -> str:
    """Who else saw it, in one sentence."""

    def p99(ns: float | None) -> str:
        return "-" if ns is None else format_duration(ns)

    seen = [
        f"{view.name} {p99(view.before_p99_ns)}"
        + ("" if result.after_whole is None else f" -> {p99(view.after_p99_ns)}")
        for view in result.views
    ]
    return f"Others saw this p99: {'; '.join(seen)}."


def _failed(measurement: Measurement) -> str:
    text = errors(measurement)
    return f"0 of {measurement.requests}" if text == "0" else text


def _effort(result: TuneResult) -> str:
    """How much was tried, in one sentence."""
    tally = {
        o: sum(s.outcome == o for s in result.steps)
        for o in ("kept", "undone", "aborted", "failed", "not tried")
    }
    tried = sum(tally.values()) - tally["not tried"]
    told = [f"{n} {outcome}" for outcome, n in tally.items() if n and outcome != "not tried"]
    text = f"{count(tried, 'change')} tried" + (f" ({', '.join(told)})" if told else "")
    if tally["not tried"]:
        text += f", {tally['not tried']} not tried (the report says why)"
    return sentence(f"{text}; {count(result.reloads, 'reload')} of the model")
