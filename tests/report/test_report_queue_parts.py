"""What is said of the time in the queue, and that no more is said than is known."""

from __future__ import annotations

from typing import Any

import pytest
from sample import load_run

from tritune.model.profile import Figure
from tritune.report.content.document import Paragraph, Table
from tritune.report.content.load import load_document
from tritune.report.content.queue_parts import (
    TITLE,
    backlog_line,
    queue_bounds_blocks,
    queue_parts_blocks,
    queue_parts_line,
)
from tritune.twin.ask.parts import Part, QueueParts
from tritune.twin.ask.queue_bounds import QueueBounds

QUEUE_NS = 12.1e6
WITHOUT = "without a reason (slow or lost wake-ups)"
FORMED = "batches that were formed while all were busy"


def parts(batch: float, stall: float, formed: float = 0.0, **more: Any) -> QueueParts:
    shares = {
        "batch_wait": batch,
        "stall": stall,
        "busy_wait": 1 - batch - stall - formed,
        "formed_wait": formed,
    }
    given = {
        "bounds": QueueBounds(QUEUE_NS, 8e6, 0.05, "none"),
        "wake": Figure(140_000, source="prior"),
    } | more
    return QueueParts(
        queue_error=0.01,
        batch_distance=0.02,
        **{name: Part(value * QUEUE_NS, value) for name, value in shares.items()},
        **given,
    )


@pytest.mark.parametrize(
    ("found", "line"),
    [
        (parts(7.4 / 12.1, 0), "7.4 ms passed while an instance was idle, because of the delay."),
        (
            parts(0, 0.5),
            "6.05 ms passed while an instance was idle, without a reason (slow or lost wake-ups).",
        ),
        (
            parts(0.4, 0.2),
            f"7.26 ms passed while an instance was idle: 4.84 ms because of the delay, 2.42 ms {WITHOUT}.",
        ),
        (
            parts(0, 0.01, 0.5),
            f"practically all passed while every instance was busy; 6.05 ms passed in {FORMED}.",
        ),
    ],
    ids=["delay", "stall", "both", "busy"],
)
def test_one_sentence_says_where_the_time_goes(found: QueueParts, line: str) -> None:
    assert queue_parts_line(found) == f"Of 12.1 ms in the queue, {line}"


def test_nothing_waits() -> None:
    assert queue_parts_line(parts(0, 0, bounds=QueueBounds(0.0, 0.0))) == "Nothing waits in the queue."


def test_the_table_adds_up_and_shows_the_bounds() -> None:
    _, table, backlog = queue_parts_blocks(parts(0.5, 0.1, 0.2))
    assert isinstance(table, Table)
    assert [row[1] for row in table.rows] == ["6.05", "1.21", "2.42", "2.42", "12.1"]
    assert [row[2] for row in table.rows] == ["50 %", "10 %", "20 %", "20 %", "100 %"]
    assert [row[3] for row in table.rows] == ["0–8.00", "0–12.1", "0–12.1", "0–12.1", "counted"]
    assert any("140 us (prior)" in note for note in table.notes)
    assert isinstance(backlog, Paragraph)


def test_a_measured_wake_up_is_no_prior() -> None:
    table = queue_parts_blocks(parts(0.5, 0.1, wake=Figure(80_000)))[1]
    assert isinstance(table, Table)
    assert not any("prior" in note for note in table.notes)


def test_cannot_tell_gives_the_reason_and_the_bounds() -> None:
    found = QueueParts(QueueBounds(QUEUE_NS, 8e6), 0.3, 0.02, Figure(1), refusal="the replay is off")
    said, table = queue_parts_blocks(found)
    assert isinstance(said, Paragraph)
    assert "cannot tell: the replay is off." in said.text
    assert "at most 8 ms of 12.1 ms" in said.text
    assert isinstance(table, Table)
    assert {cell for row in table.rows[:-1] for cell in row[1:3]} == {"-"}
    assert table.rows[0][3] == "0–8.00"


@pytest.mark.parametrize(
    ("bounds", "words"),
    [
        (QueueBounds(QUEUE_NS, 0.0), "none can have passed waiting for the delay"),
        (QueueBounds(QUEUE_NS, QUEUE_NS), "do not rule out that all 12.1 ms"),
        (QueueBounds(QUEUE_NS, 3e6), "at most 3 ms of 12.1 ms"),
    ],
)
def test_bounds_alone(bounds: QueueBounds, words: str) -> None:
    (block,) = queue_bounds_blocks(bounds)
    assert isinstance(block, Paragraph)
    assert words in block.text
    assert "batch that starts" not in block.text


@pytest.mark.parametrize(
    ("backlog", "kind", "words"),
    [
        (0.02, "none", "leaves hardly anybody waiting"),
        (2.34, "some", "leaves 2.34 requests waiting"),
        (-1.5, "clumped", "in clumps"),
        (None, None, ""),
    ],
)
def test_the_backlog_is_told_in_words(backlog: Any, kind: Any, words: str) -> None:
    line = backlog_line(QueueBounds(QUEUE_NS, 0.0, backlog, kind))
    assert words in line
    assert bool(line) == bool(words)


def test_the_report_of_a_load_shows_the_bounds_where_its_configuration_is_known() -> None:
    manifest, _, log = load_run()
    titles = [section.title for section in load_document(manifest, log).sections]
    assert TITLE not in titles
    document = load_document(manifest, log, QueueBounds(QUEUE_NS, 3e6, 0.02, "none"))
    (section,) = [section for section in document.sections if section.title == TITLE]
    (block,) = section.blocks
    assert isinstance(block, Paragraph)
    assert "at most 3 ms of 12.1 ms" in block.text
    assert "tritune simulate RUN" in block.text
