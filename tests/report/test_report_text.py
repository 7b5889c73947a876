"""Terminal and Markdown: a first screen that fits, colour only where wanted, nothing active."""

from __future__ import annotations

import io
import re

import msgspec
import pytest
import sample

from tritune.report.content.diagnosis import diagnosis_document
from tritune.report.content.document import Code, Document, Paragraph, Section, Table, Verdict
from tritune.report.content.load import load_document
from tritune.report.content.tuning import tuning_document
from tritune.report.render.markdown import escape, markdown
from tritune.report.render.text import print_text

FIRST_SCREEN = """\
Tuning of sample_prices  version 1 on http://sample.invalid:8000, Triton 2.51.0

✔ SLO MET  p99 112 ms (108–117) -> 14.3 ms (13.7–14.9) at 200 requests/s; SLO p99 <= 30 ms met.

Cause: Requests wait for a batch that does not fill: the queue delay is far longer than a batch
takes to run. Confidence: high.
Changed:
  • dynamic_batching.preferred_batch_size: [ 8, 16 ] -> (none)
  • dynamic_batching.max_queue_delay_microseconds: 100000 -> (none)
  (95 % interval)                         before                 after
  ────────────────────────────────────────────────────────────────────
  p50                        41.2 ms (40.6–41.8)   6.10 ms (6.01–6.19)
  p95                            101 ms (99–104)   11.3 ms (11.0–11.6)
  p99                           112 ms (108–117)   14.3 ms (13.7–14.9)
  failed requests                      0 of 6000             0 of 6000
  items in the mean batch                   8.85                  1.49
  load (share of capacity)                  16 %               <= 25 %
Others saw this p99: Triton's latency summary 111 ms -> 13.4 ms; hey 0.1.4, closed loop 108 ms -> -.
5 changes tried (2 kept, 2 undone, 1 aborted), 1 not tried (the report says why); 8 reloads of the
model.
Undo now: tritune restore http://sample.invalid:8000 --model sample_prices
"""


class Terminal(io.StringIO):
    encoding = "utf-8"

    def isatty(self) -> bool:
        return True


class Latin(io.StringIO):
    encoding = "ascii"


def shown(document: Document, *, full: bool = False) -> list[str]:
    stream = io.StringIO()
    print_text(document, stream, full=full, width=100)
    return [line.rstrip() for line in stream.getvalue().splitlines()]


def test_the_first_screen_of_a_tuning() -> None:
    assert shown(tuning_document(sample.tune_result())) == FIRST_SCREEN.splitlines()


def test_first_screens_fit_24_lines_of_100_columns() -> None:
    manifest, _, log = sample.load_run()
    long = msgspec.structs.replace(sample.tune_result(), model="m" * 60, url="http://" + "h" * 60 + ":8000")
    for document in (
        tuning_document(sample.tune_result()),
        tuning_document(long),
        load_document(manifest, log),
        diagnosis_document([sample.diagnosis()], url=sample.URL),
    ):
        lines = shown(document)
        assert len(lines) <= 24
        assert max(map(len, lines)) <= 100


def test_the_full_text_holds_every_section_and_no_line_is_too_long() -> None:
    document = tuning_document(sample.tune_result())
    lines = shown(document, full=True)
    assert max(map(len, lines)) <= 100
    for section in document.sections:
        assert section.title.upper() in lines
    assert any("64 of 2100 (61 timeout, 3 connection)" in line for line in lines)


def test_colour_only_on_a_terminal_and_never_with_no_color(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TERM", "xterm-256color")
    monkeypatch.delenv("NO_COLOR", raising=False)
    document = tuning_document(sample.tune_result())
    terminal, pipe = Terminal(), io.StringIO()
    print_text(document, terminal)
    print_text(document, pipe)
    assert "\x1b[1;32m" in terminal.getvalue()
    assert "\x1b" not in pipe.getvalue()
    monkeypatch.setenv("NO_COLOR", "1")
    plain = Terminal()
    print_text(document, plain)
    assert not re.search(r"\x1b\[[\d;]*3[0-7]m", plain.getvalue())


def test_a_stream_without_unicode_still_gets_every_word() -> None:
    stream = Latin()
    print_text(tuning_document(sample.tune_result()), stream, full=True)
    text = stream.getvalue()
    text.encode("ascii")
    assert "14.3 ms (13.7-14.9)" in text
    assert "?" not in text.replace("(?)", "")


def hostile() -> Document:
    return Document(
        kind="tune",
        title="\x1b[2J[bold]x[/bold]",
        verdict=Verdict("ok", "good"),
        headline="a\rb\x07",
        summary=(Paragraph("| a * b _c_ <img> `x|y` [l](u)"),),
        sections=(Section("s", (Table(("a",), (("1 | 2",),)), Code("diff", "```\n+x"))),),
    )


def test_names_cannot_drive_the_terminal() -> None:
    text = "\n".join(shown(hostile(), full=True))
    assert not re.search(r"[\x00-\x08\x0b-\x1f\x7f]", text)
    assert "?[2J[bold]x[/bold]" in text


def test_names_cannot_become_markdown() -> None:
    text = markdown(hostile())
    assert r"\| a \* b \_c\_ \<img\> `x|y` \[l\](u)" in text
    assert "| 1 \\| 2 |" in text
    assert "````diff\n```\n+x\n````" in text


@pytest.mark.parametrize(
    ("text", "escaped"),
    [("a`b", "a\\`b"), ("1. x", "1\\. x"), ("- x", "\\- x"), ("`a_b` c_d", "`a_b` c\\_d")],
)
def test_markdown_escapes(text: str, escaped: str) -> None:
    assert escape(text) == escaped


def test_markdown_tables_are_whole_and_charts_become_tables() -> None:
    document = tuning_document(sample.tune_result())
    text = markdown(document)
    for block in text.split("\n\n"):
        if block.startswith("| "):
            widths = {len(re.findall(r"(?<!\\)\|", line)) for line in block.splitlines()}
            assert len(widths) == 1
    assert "| percentile | before 1, ms | before 2, ms | after 1, ms | after 2, ms |" in text
    assert "$schema" not in text
