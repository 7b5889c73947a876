"""Where the time in the queue goes, as a table and a sentence or two."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tritune.report.content.document import Block, Paragraph, Table
from tritune.report.content.wording import NOTHING, figure, share
from tritune.units import NS_PER_US, format_duration, format_ms

if TYPE_CHECKING:  # the bounds of a run are shown without what a replay needs
    from tritune.twin.ask.parts import Part, QueueParts
    from tritune.twin.ask.queue_bounds import QueueBounds

TITLE = "Where the time in the queue goes"
_NAMES = (
    ("batch_wait", "batch wait: an instance idle, because of the delay"),
    ("stall", "stall: an instance idle, nothing justifies it"),
    ("busy_wait", "busy wait: all busy, in the scheduler's queue"),
    ("formed_wait", "formed wait: all busy, in a formed batch"),
)
# A part smaller than that of the queue is not worth a sentence.
_WORTH_SAYING = 0.02
_NOTHING_WAITS = "Nothing waits in the queue."


def queue_parts_blocks(parts: QueueParts) -> tuple[Block, ...]:
    """One sentence, the four parts with their bounds, and what the counters say of a backlog.

    Where the parts cannot be told the sentence says why, and the table holds the bounds alone.
    """
    blocks: tuple[Block, ...] = (Paragraph(queue_parts_line(parts)), _table(parts))
    backlog = backlog_line(parts.bounds)
    return (*blocks, Paragraph(backlog)) if backlog else blocks


def queue_bounds_blocks(bounds: QueueBounds) -> tuple[Block, ...]:
    """What the counters alone say; for a run that nobody has replayed."""
    more = "`tritune simulate RUN` replays the run and says how the time is split."
    lines = [_bounds_line(bounds), backlog_line(bounds), more]
    return (Paragraph(" ".join(line for line in lines if line)),)


def queue_parts_line(parts: QueueParts) -> str:
    """`Of 12.1 ms in the queue, 7.4 ms passed while an instance was idle, because of the delay.`"""
    bounds = parts.bounds
    idle, batch, stall, formed = parts.idle, parts.batch_wait, parts.stall, parts.formed_wait
    if idle is None or batch is None or stall is None or formed is None:
        return f"Where the time in the queue goes: cannot tell: {parts.refusal}. {_bounds_line(bounds)}"
    if bounds.queue_ns < NS_PER_US:
        return _NOTHING_WAITS
    queue = format_duration(bounds.queue_ns)
    if idle.share < _WORTH_SAYING:
        line = f"Of {queue} in the queue, practically all passed while every instance was busy"
    else:
        line = f"Of {queue} in the queue, {format_duration(idle.ns)} passed while an instance was idle"
        line += _because(batch, stall)
    if formed.share >= _WORTH_SAYING:
        line += f"; {format_duration(formed.ns)} passed in batches that were formed while all were busy"
    return f"{line}."


def backlog_line(bounds: QueueBounds) -> str:
    """What was left waiting when batches started; empty where it cannot be told."""
    if bounds.backlog is None:
        return ""
    if bounds.backlog_kind == "none":
        return "A batch that starts leaves hardly anybody waiting: neither largest batch nor capacity bind."
    if bounds.backlog_kind == "some":
        return (
            f"A batch that starts leaves {figure(bounds.backlog)} requests waiting on average: the largest "
            "batch, batches formed too early or the capacity bind."
        )
    return (
        f"By the batch sizes requests waited longer for each other than they did ({figure(-bounds.backlog)} "
        "requests' worth): they come in clumps, several at the same instant."
    )


def _because(batch: Part, stall: Part) -> str:
    if stall.share < _WORTH_SAYING:
        return ", because of the delay"
    if batch.share < _WORTH_SAYING:
        return ", without a reason (slow or lost wake-ups)"
    return (
        f": {format_duration(batch.ns)} because of the delay, {format_duration(stall.ns)} without a reason "
        "(slow or lost wake-ups)"
    )


def _bounds_line(bounds: QueueBounds) -> str:
    queue, most = format_duration(bounds.queue_ns), format_duration(bounds.most_batch_wait_ns)
    if bounds.queue_ns < NS_PER_US:
        return _NOTHING_WAITS
    if bounds.most_batch_wait_ns <= 0:
        return f"Of {queue} in the queue, none can have passed waiting for the delay."
    if bounds.most_batch_wait_ns >= bounds.queue_ns:
        return f"The counters do not rule out that all {queue} in the queue were spent waiting for the delay."
    return f"By the counters at most {most} of {queue} in the queue were spent waiting for the delay."


def _table(parts: QueueParts) -> Table:
    bounds = parts.bounds
    rows = []
    for name, shown in _NAMES:
        part: Part | None = getattr(parts, name)
        most = bounds.most_batch_wait_ns if name == "batch_wait" else bounds.queue_ns
        cells = (format_ms(part.ns), share(part.share)) if part else (NOTHING, NOTHING)
        rows.append((shown, *cells, f"0–{format_ms(most)}"))
    rows.append(("mean time in the queue", format_ms(bounds.queue_ns), share(1.0), "counted"))
    notes = [
        "Bounds: what the counters alone prove. The parts: a replay of the run, scaled to what was counted."
    ]
    if parts.wake.source == "prior" and parts.idle is not None:
        notes.append(f"Waking the batcher up is taken to last {format_duration(parts.wake.value)} (prior).")
    return Table(
        columns=("part", "ms", "share", "bounds, ms"), rows=tuple(rows), title=TITLE, notes=tuple(notes)
    )
