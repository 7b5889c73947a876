"""The sections of a tuning's report, below its first screen."""

from __future__ import annotations

from collections.abc import Iterable

from tritune.model.measurement import Comparison, Estimate
from tritune.report.content import evidence, pictures
from tritune.report.content.cells import Cell
from tritune.report.content.charts.steps import Row
from tritune.report.content.document import Block, Bullets, Chart, Code, Paragraph, Section, Table
from tritune.report.content.findings import findings
from tritune.report.content.measurements import every_measurement
from tritune.report.content.method import INTERVAL, cuts, lateness, sending
from tritune.report.content.wording import NOTHING, count, sentence
from tritune.tune.result import StepResult, TuneResult
from tritune.units import format_duration

LIMITS = (
    (
        "The result holds for this load and this input: at another rate, with other arrivals or shapes, "
        "another setting may be the best one."
    ),
    "One change at a time finds a good setting, not always the best combination.",
    "An accepted override is lost when the server restarts; the diff makes it last.",
)


def sections(result: TuneResult, cells: tuple[Cell, ...]) -> tuple[Section, ...]:
    """In the order in which a sceptic asks."""
    wanted = (
        Section("What changed, and why", _changed(result)),
        Section("Where the time goes", _time(result)),
        Section("The cause", findings(result.diagnosis) if result.diagnosis else ()),
        Section("Every step, in order", _present([_steps_chart(result, cells)])),
        Section("What did not help", _undone(result)),
        Section("What was not tried", _not_tried(result)),
        Section("Every measurement", (every_measurement(cells),) if cells else ()),
        Section("Independent views", _views(result)),
        Section("The change as a diff", (Code("diff", result.diff),) if result.diff else ()),
        Section("Apply it, or undo it", _commands(result)),
        Section("How this was measured", (Bullets(_method(result, cells)),)),
        Section("Limits", (Bullets(_limits(result, cells)),)),
    )
    return tuple(section for section in wanted if section.blocks)


def _present(blocks: Iterable[Chart | None]) -> tuple[Block, ...]:
    return tuple(block for block in blocks if block is not None)


def _step_table(steps: list[StepResult], told: str) -> Table:
    return Table(
        columns=("change", "why it was tried", told),
        rows=tuple(
            (
                "; ".join(f"`{edit}`" for edit in step.edits) or step.stage,
                sentence(step.reason),
                " ".join(filter(None, (sentence(f"{step.outcome}: {step.why}"), _basis(step.comparison)))),
            )
            for step in steps
        ),
        alignment=("left", "left", "left"),
    )


def _basis(comparison: Comparison | None) -> str:
    return sentence(f"interval from {comparison.basis}") if comparison and comparison.basis else ""


def _changed(result: TuneResult) -> tuple[Block, ...]:
    kept = [step for step in result.steps if step.outcome == "kept"]
    blocks: list[Block] = []
    if kept:
        blocks.append(_step_table(kept, "what it did"))
    else:
        blocks.append(Paragraph("No change was kept: the server runs with the configuration it had."))
    phases = [("before", m) for m in result.before]
    if result.change.settings:
        phases += [("after", m) for m in result.after]
    return (*blocks, *_present([pictures.percentile_ladder(phases, result.slo.main)]))


def _time(result: TuneResult) -> tuple[Block, ...]:
    """The cells of the headline, seen from the server."""
    known = [("before", result.before_whole)]
    if result.after_whole is not None:
        known.append(("after", result.after_whole))
    bars = [(name, bar) for name, m in known if (bar := evidence.breakdown(m)) is not None]
    sizes = [(name, evidence.batches(m)) for name, m in known]
    return _present([pictures.where_time_goes(bars), *pictures.batches(sizes)])


def _steps_chart(result: TuneResult, cells: tuple[Cell, ...]) -> Chart | None:
    metric = result.slo.main.metric
    rows = [
        Row(
            cell.number,
            cell.label,
            cell.outcome,
            cell.measurement.latency.get(metric, Estimate()),
            cell.measurement.requests,
        )
        for cell in cells
    ]
    return pictures.all_steps(rows, result.slo.main)


def _undone(result: TuneResult) -> tuple[Block, ...]:
    steps = [step for step in result.steps if step.outcome in ("undone", "aborted", "failed")]
    return (_step_table(steps, "what became of it"),) if steps else ()


def _not_tried(result: TuneResult) -> tuple[Block, ...]:
    steps = [step for step in result.steps if step.outcome == "not tried"]
    lines = [f"{'; '.join(step.edits) or step.stage}: {sentence(step.why or step.reason)}" for step in steps]
    return (Bullets(tuple(lines)),) if lines else ()


def _views(result: TuneResult) -> tuple[Block, ...]:
    if not result.views:
        return ()
    table = Table(
        columns=("witness", "what it measures", "p99 before", "p99 after"),
        rows=tuple(
            (
                view.name,
                view.what,
                *(
                    NOTHING if ns is None else format_duration(ns)
                    for ns in (view.before_p99_ns, view.after_p99_ns)
                ),
            )
            for view in result.views
        ),
        alignment=("left", "left", "right", "right"),
        notes=("Each is that witness's own figure; none of them comes with an interval.",),
    )
    return (Paragraph("The same change, seen by others than tritune's own load generator."), table)


def told(command: str) -> str:
    """`command   # what for` as `What for: command`, the command as code; anything else as it is."""
    code, mark, purpose = command.partition("#")
    return (
        f"{sentence(purpose).rstrip('.')}: `{code.strip()}`" if mark and code.strip() else sentence(command)
    )


def _commands(result: TuneResult) -> tuple[Block, ...]:
    return (
        (Bullets(tuple(told(command) for command in result.next_commands)),) if result.next_commands else ()
    )


def _method(result: TuneResult, cells: tuple[Cell, ...]) -> tuple[str, ...]:
    measured = [cell.measurement for cell in cells]
    seeds = {
        (m.workload.seed, m.workload.arrivals, m.workload.rate_per_s, m.workload.concurrency)
        for m in measured
    }
    same = (
        "Every cell was sent the same plan: request i was due at the same instant in each."
        if len(seeds) == 1 and result.workload.rate_per_s is not None
        else ""
    )
    repeats = (
        f"The setting as found was measured {count(len(result.before), 'time')} and the final one "
        f"{count(len(result.after), 'time')}; the headline is over all requests of a setting together."
        if result.after and result.change.settings
        else f"The setting as found was measured {count(len(result.before), 'time')}."
    )
    return tuple(
        filter(
            None,
            (
                *sending(result.workload),
                same,
                (
                    "The model was warmed up with at least 200 requests first, and again after every reload; "
                    "they are in no figure."
                ),
                repeats,
                INTERVAL,
                (
                    "A change is kept only if the interval of candidate / best so far lies below 1 and the "
                    "gain is worth a change; a tie keeps the setting that was there."
                ),
                lateness(measured) if measured else "",
            ),
        )
    )


def _limits(result: TuneResult, cells: tuple[Cell, ...]) -> tuple[str, ...]:
    not_seen = result.diagnosis.not_seen if result.diagnosis else ()
    return (
        *(sentence(note) for note in result.notes),
        *cuts([cell.measurement for cell in cells if cell.outcome in ("before", "after")]),
        *(sentence(f"not seen: {what}") for what in not_seen),
        *LIMITS,
    )
