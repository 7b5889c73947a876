"""Predictions as a document: every row shows the twin's own error beside what it predicts."""

from __future__ import annotations

from collections.abc import Sequence

from tritune.model.profile import TwinProfile
from tritune.report.content.document import (
    Align,
    Block,
    Bullets,
    Chart,
    Document,
    Paragraph,
    Section,
    Table,
    Verdict,
)
from tritune.report.content.queue_parts import TITLE as QUEUE
from tritune.report.content.queue_parts import queue_parts_blocks
from tritune.report.content.simulation_charts import lines_of, over_costs, over_rates
from tritune.report.content.simulation_words import (
    NAMES,
    best_line,
    cells_of,
    cheapest_line,
    clients,
    columns_of,
    confidence,
    error,
    headroom_line,
    meets,
    rate,
    trust,
)
from tritune.report.content.wording import NOTHING, count, figure, milliseconds, sentence, share
from tritune.twin.ask.answer import Simulation
from tritune.twin.ask.predict import SHOWN, Prediction
from tritune.units import NEVER_NS, format_duration, format_ms

# What a screen holds; everything is in --full and --json.
MOST_ROWS, MOST_RATES = 20, 6


def simulation_document(found: Simulation) -> Document:
    """The headroom in one line, the ranked predictions, and how far to trust both."""
    swept = len({one.rate_per_s for one in found.predictions}) > 1
    settings = len({one.setting for one in found.predictions})
    picture = over_rates(found.predictions, found.slo)
    summary: list[Block] = []
    summary += [Paragraph(line) for line in (best_line(found), cheapest_line(found)) if line]
    if swept and settings == 1 and picture is not None:
        summary.append(picture)
    elif swept:
        summary.append(_by_rate(found))
    else:
        summary.append(_ranked(found, MOST_ROWS))
    reasons = dict.fromkeys(one.refusal for one in found.refused)
    if reasons:
        summary.append(Bullets(tuple(f"Not predicted: {reason}." for reason in list(reasons)[:3])))
    if found.client is not None:
        summary.append(Paragraph(clients(found.client)))
    summary += [Paragraph(trust(found.validity)), Paragraph(confidence(found))]
    return Document(
        kind="simulation",
        title=f"Simulation of {found.profile.model}",
        context=_context(found.profile),
        verdict=_verdict(found),
        headline=headroom_line(found.headroom, found.slo),
        summary=tuple(summary),
        sections=tuple(_sections(found, picture if settings > 1 else None, reasons)),
    )


def _context(profile: TwinProfile) -> str:
    return f"{profile.source}{f', Triton {profile.triton_version}' if profile.triton_version else ''}"


def _verdict(found: Simulation) -> Verdict:
    if found.refused:
        return Verdict("Partly refused", "warn")
    if found.validity is None:
        return Verdict("Predicted, not checked", "neutral")
    return (
        Verdict("Predicted, lower confidence", "warn")
        if found.verified.lower
        else Verdict("Predicted", "neutral")
    )


def _sections(found: Simulation, picture: Chart | None, reasons: dict[str, None]) -> list[Section]:
    sections = []
    charts = [chart for chart in (picture, over_costs(found.predictions, found.slo)) if chart is not None]
    if charts:
        sections.append(Section("Pictures", tuple(charts)))
    sections.append(Section("All predictions", (_all(found),)))
    if found.queue_parts is not None:
        sections.append(Section(f"{QUEUE}, on the observed run", queue_parts_blocks(found.queue_parts)))
    if len(reasons) > 3:
        sections.append(Section("Not predicted", (Bullets(tuple(f"{reason}." for reason in reasons)),)))
    sections.append(Section("Service time by batch size", (service_table(found.profile),)))
    sections.append(Section("What went into it", (Bullets(_figures(found)),)))
    return sections


def _ranked(found: Simulation, most: int) -> Table:
    """Best first: what the first screen shows of a grid at one rate."""
    rows, several = found.in_rank[:most], len({one.cost for one in found.predictions}) > 1
    fields = columns_of(found.predictions)
    # Clients that give up make more columns than a screen holds.
    tails = list(SHOWN) if found.client is None else list(SHOWN)[1:]
    columns = [*_heads(fields), *(f"{name}, ms" for name in tails), "batch"]
    cells = [[*cells_of(one, fields), *_tail(one)[-len(tails) :], figure(one.mean_batch)] for one in rows]
    for shown, name, cell in (
        (found.client is None, "load", lambda one: share(one.load)),
        (any(one.failed_share > 0 for one in rows), "failed", _failed),
        (found.client is not None, "goodput/s", lambda one: _goodput(one)),
        (found.client is not None, "attempts", lambda one: figure(one.attempts_per_request)),
        (found.slo is not None, "SLO", meets),
        (several, "cost", _cost),
        (found.validity is not None, "replay", lambda _: _replay(found)),
    ):
        if shown:
            columns.append(name)
            for row, one in zip(cells, rows, strict=True):
                row.append(cell(one))
    load = found.predictions[0].rate_per_s
    at = f" at {rate(load)} requests/s" if load else ""
    title = f"{count(len(found.predictions), 'prediction')}{at}, best first" if len(rows) > 1 else ""
    return Table(
        tuple(columns), tuple(map(tuple, cells)), _alignment(len(columns)), title, _notes(found, len(rows))
    )


def _notes(found: Simulation, shown: int, *, replayed: bool = True) -> tuple[str, ...]:
    alone = found.validity is None or found.validity.p99_error is not None
    of = "the simulation alone" if alone else "the simulation and of what counters leave open"
    notes = [f"In brackets the 95 % interval of {of}; batch: mean of the executed ones."]
    if replayed and found.validity is not None:
        notes.append("Replay: the twin's own error on the observed run, (replayed - measured) / measured.")
    if len({one.cost for one in found.predictions}) > 1:
        notes.append(
            "Cost: instances x replicas; * on the Pareto front: nothing that costs no more is faster."
        )
    if len(found.predictions) > shown:
        notes.append(f"The best {shown} of {len(found.predictions)}; all of them: --full, --json.")
    return tuple(notes)


def _heads(fields: Sequence[str]) -> tuple[str, ...]:
    return tuple(NAMES[path] for path in fields) or ("setting",)


def _by_rate(found: Simulation) -> Table:
    """A row per setting, a column per rate: p99 alone."""
    lines = [line for _, line in lines_of(found.predictions)]
    fields = columns_of(found.predictions)
    every = sorted({one.rate_per_s for one in found.predictions})
    shown = every
    if len(every) > MOST_RATES:
        shown = [every[round(k * (len(every) - 1) / (MOST_RATES - 1))] for k in range(MOST_RATES)]
    rows = []
    for line in lines[:MOST_ROWS]:
        by = {one.rate_per_s: one for one in line}
        cells = (*cells_of(line[0], fields), *(_cell(by[each], found) for each in shown))
        rows.append((*cells, *([_replay(found)] if found.validity is not None else [])))
    signs = " + meets the SLO, - misses it, ? too close to tell." if found.slo else ""
    notes = [f"p99 in ms.{signs} Intervals, and all rates: --full, --json, --html."]
    if found.validity is not None:
        notes.append("Replay: the twin's own error on the observed run, (replayed - measured) / measured.")
    if len(lines) > MOST_ROWS:
        notes.append(f"The best {MOST_ROWS} of {len(lines)} settings.")
    columns = (*_heads(fields), *(f"{rate(each)}/s" for each in shown))
    columns += ("replay",) if found.validity is not None else ()
    return Table(columns, tuple(rows), _alignment(len(columns)), "p99 by rate, best first", tuple(notes))


def _cell(one: Prediction, found: Simulation) -> str:
    if one.refusal:
        return "refused"
    value = one.latency["p99"].value or 0.0
    text = "never" if not one.settles or value >= NEVER_NS else format_ms(value)
    return text if found.slo is None else f"{text} {_SIGNS[one.meets or 'no']}"


_SIGNS = {"yes": "+", "close": "?", "no": "-"}


def _all(found: Simulation) -> Table:
    """Everything, in order of rank."""
    fields = columns_of(found.predictions)
    rows = []
    for one in found.in_rank:
        more = (figure(one.mean_batch), share(one.load), meets(one), _cost(one))
        rows.append((*cells_of(one, fields), rate(one.rate_per_s), *_tail(one), *more))
    tails = (f"{name}, ms" for name in SHOWN)
    columns = (*_heads(fields), "rate/s", *tails, "batch", "load", "SLO", "cost")
    return Table(
        columns, tuple(rows), _alignment(len(columns)), notes=_notes(found, len(rows), replayed=False)
    )


def _tail(one: Prediction) -> tuple[str, ...]:
    """p50, p95, p99; an interval for p99 only, the others have theirs in the JSON."""
    if one.refusal:
        return ("refused", NOTHING, NOTHING)
    if not one.settles:
        return ("never", "settles", NOTHING)
    *rest, last = (one.latency.get(name) for name in SHOWN)
    told = [milliseconds(each).split(" ")[0] for each in rest]
    return (*told, milliseconds(last))


def _failed(one: Prediction) -> str:
    return NOTHING if one.refusal else f"{100 * one.failed_share:.2g} %"


def _goodput(one: Prediction) -> str:
    return NOTHING if one.goodput_per_s is None else rate(one.goodput_per_s)


def _cost(one: Prediction) -> str:
    return f"{one.cost} *" if one.pareto else f"{one.cost}  "


def _replay(found: Simulation) -> str:
    seen = found.validity
    if seen is None:
        return NOTHING
    return f"queue {error(seen.queue_error)}" if seen.p99_error is None else f"p99 {error(seen.p99_error)}"


def _alignment(columns: int) -> tuple[Align, ...]:
    right: Align = "right"
    return ("left", *(right,) * (columns - 1))


def service_table(profile: TwinProfile) -> Table:
    """S(b) by size, and where each comes from."""
    rows = []
    for size, time in profile.service_ns.items():
        known = time.low_ns is not None and time.high_ns is not None
        bounds = f"{format_ms(time.low_ns or 0)}–{format_ms(time.high_ns or 0)}" if known else NOTHING
        rows.append((str(size), format_ms(time.ns), bounds, str(time.executions), time.source))
    return Table(
        columns=("items", "S(b), ms", "95 % interval, ms", "executions", "from"),
        rows=tuple(rows),
        alignment=("right",) * 4 + ("left",),
    )


def _figures(found: Simulation) -> tuple[str, ...]:
    profile = found.profile
    lines = [
        f"Each prediction: {found.effort.replications} x {found.effort.requests} requests, {found.traffic}.",
        f"Variation of an execution (sd / mean): {profile.cv.value:.3g} ({profile.cv.source}).",
    ]
    if any(one.replicas > 1 for one in found.predictions):
        lines.append("A balancer sends each request to any replica at random; taking turns would be gentler.")
    for name, overhead in (("client", profile.client_overhead_ns), ("server", profile.server_overhead_ns)):
        known = "not known, left out" if overhead is None else format_duration(overhead.value)
        lines.append(f"Overhead of the {name}: {known}.")
    if profile.contention is None and profile.observed is None:
        lines.append("Instances are taken not to slow each other down; --contention says otherwise.")
    elif profile.contention is None:
        lines.append(
            "How much instances slow each other down is not known; other instance counts are refused."
        )
    else:
        how = f"{profile.contention.value:.0%} ({profile.contention.source})".replace("%", " %")
        lines.append(f"Each other active instance slows one down by {how}.")
    parts = {
        "rare stalls": profile.stall_p,
        "the batcher's wake-up time": profile.wake_ns,
        "lost wake-ups (lazy dispatch)": profile.lost_wakeup_p,
    }
    if missing := [name for name, figure_ in parts.items() if figure_ is None]:
        lines.append(f"Not estimated, and left out: {', '.join(missing)}.")
    lines += [sentence(note) for note in profile.notes]
    lines.append(f"Verified on: {found.verified.on}.")
    return tuple(lines)
