"""The report of a diagnosis: one model or several, each with its causes and the figures behind them."""

from __future__ import annotations

from collections.abc import Sequence

from tritune.diagnose.result import Diagnosis
from tritune.report.content import pictures
from tritune.report.content.document import Block, Bullets, Document, Section, Table, Verdict
from tritune.report.content.findings import findings, main_cause
from tritune.report.content.measurements import load_share
from tritune.report.content.wording import NOTHING, count, figure, sentence, share
from tritune.units import format_duration


def diagnosis_document(
    diagnoses: Sequence[Diagnosis], *, url: str, server_version: str = "", notes: Sequence[str] = ()
) -> Document:
    """All models of one server, those with findings first; `notes` say what could not be seen."""
    ordered = sorted(diagnoses, key=lambda d: -len(d.findings))
    sick = [d for d in ordered if d.findings]
    blind = [d for d in ordered if d.no_verdict]
    return Document(
        kind="diagnosis",
        title="Diagnosis of " + (ordered[0].model if len(ordered) == 1 else count(len(ordered), "model")),
        context=f"{url}, Triton {server_version}" if server_version else url,
        verdict=_verdict(sick, blind, len(ordered)),
        headline=_headline(ordered, sick, blind),
        summary=(_overview(ordered), *_advice(sick)) if ordered else (),
        sections=tuple(Section(_name(d), _about(d)) for d in ordered)
        + ((Section("What could not be seen", (Bullets(tuple(map(sentence, notes))),)),) if notes else ()),
    )


def _verdict(sick: Sequence[Diagnosis], blind: Sequence[Diagnosis], models: int) -> Verdict:
    if sick:
        return Verdict(count(sum(len(d.findings) for d in sick), "finding"), "bad")
    if not models or len(blind) == models:
        return Verdict("No verdict", "warn")
    return Verdict("Nothing found", "good")


def _headline(ordered: Sequence[Diagnosis], sick: Sequence[Diagnosis], blind: Sequence[Diagnosis]) -> str:
    if sick:
        return f"{_name(sick[0])}: {main_cause(sick[0])}"
    if not ordered:
        return "No model was looked at."
    if len(blind) == len(ordered):
        return f"{_name(blind[0])}: {sentence(blind[0].no_verdict)}"
    seen = [d for d in ordered if not d.no_verdict]
    return f"Nothing points to a problem in {count(len(seen), 'model')}, as far as can be seen."


def _name(d: Diagnosis) -> str:
    return f"{d.model} version {d.version}" if d.version else d.model


def _overview(diagnoses: Sequence[Diagnosis]) -> Table:
    rows = []
    for d in diagnoses:
        bar, capacity = d.breakdown, d.capacity
        rows.append(
            (
                _name(d),
                str(bar.requests if bar else 0),
                format_duration(bar.total_ns) if bar and bar.requests else NOTHING,
                share(bar.share("queue")) if bar and bar.requests else NOTHING,
                figure(d.mean_batch),
                load_share(capacity),
                d.findings[0].slug if d.findings else "no verdict" if d.no_verdict else "healthy",
            )
        )
    return Table(
        columns=("model", "requests", "mean time", "in the queue", "mean batch", "load", "finding"),
        rows=tuple(rows),
        alignment=("left", *("right",) * 5, "left"),
        notes=("Load is the items per second as a share of the capacity seen.",),
    )


def _advice(sick: Sequence[Diagnosis]) -> tuple[Block, ...]:
    remedies = [
        f"{d.model}: {sentence(d.findings[0].remedies[0].text)}" for d in sick[:3] if d.findings[0].remedies
    ]
    return (Bullets(tuple(remedies)),) if remedies else ()


def _about(d: Diagnosis) -> tuple[Block, ...]:
    blocks: list[Block] = list(findings(d))
    bars = [("measured", d.breakdown)] if d.breakdown and d.breakdown.requests else []
    chart = pictures.where_time_goes(bars)
    if chart is not None:
        blocks.append(chart)
    blocks += pictures.batches([("measured", d.batches)])
    if d.capacity is not None:
        blocks.append(_capacity(d))
    if d.not_seen:
        blocks.append(Bullets(tuple(sentence(f"not seen: {what}") for what in d.not_seen)))
    return tuple(blocks)


def _capacity(d: Diagnosis) -> Table:
    c = d.capacity
    if c is None:
        raise ValueError("a capacity table needs a capacity")
    return Table(
        columns=("", "over this window"),
        rows=(
            ("items per second", figure(c.rate_items_per_s)),
            ("capacity, items per second", f"{'at least ' if c.bound else ''}{figure(c.items_per_s)}"),
            ("at batches of", str(c.best_size)),
            ("load", load_share(c)),
            ("instances executing (utilisation)", share(c.utilisation)),
        ),
        title="How much it could do",
        notes=(
            f"From {count(sum(r.executions for r in d.batches), 'execution')} in {d.window.seconds:.1f} s.",
        ),
    )
