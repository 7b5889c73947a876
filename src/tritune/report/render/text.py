"""A document for a terminal: the first screen, or all of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import Any, TextIO, assert_never

import msgspec
from rich import box
from rich.console import Console, Group, RenderableType
from rich.padding import Padding
from rich.table import Table as RichTable
from rich.text import Text

from tritune.report.content.document import Block, Bullets, Chart, Code, Document, Paragraph, Table, Tone

WIDTH = 100
_TONES: dict[Tone, tuple[str, str]] = {
    "good": ("✔", "bold green"),
    "bad": ("✘", "bold red"),
    "warn": ("!", "bold yellow"),
    "neutral": ("•", "bold cyan"),
}
# For streams that cannot say these signs.
_PLAIN = str.maketrans(
    {"–": "-", "·": "-", "✔": "+", "✘": "x", "•": "*", "─": "-", "━": "-", "×": "x", "…": ".", "█": "#"}
)


def print_text(
    document: Document, stream: TextIO | None = None, *, full: bool = False, width: int | None = None
) -> None:
    """Write the first screen (or, with `full`, everything) to `stream`, stdout unless named.

    Colour only on a terminal and never with NO_COLOR; at most 100 columns wide unless `width` says
    otherwise. On a stream that is not UTF-8 the signs are replaced by plain ones.
    """
    stream = stream or sys.stdout
    plain = not (stream.encoding or "utf-8").lower().replace("-", "").startswith("utf8")
    console = Console(
        file=stream,
        width=width,
        no_color=bool(os.environ.get("NO_COLOR")),
        highlight=False,
        emoji=False,
        markup=False,
        soft_wrap=False,
    )
    if width is None:
        console.width = min(WIDTH, console.width) if console.is_terminal else WIDTH
    document = _without_controls(document)
    parts = list(_first_screen(document))
    if full:
        for section in document.sections:
            parts += [Text(), Text(section.title.upper(), style="bold"), Text()]
            for block in section.blocks:
                parts += [*_block(block), Text()]
    if not plain:
        console.print(Group(*parts))
        return
    with console.capture() as capture:
        console.print(Group(*parts))
    stream.write(capture.get().translate(_PLAIN).encode(stream.encoding, "replace").decode(stream.encoding))


def _without_controls(document: Document) -> Document:
    """The same document where no text can move the cursor or recolour the terminal.

    Names come from a server, and a terminal obeys what it is sent.
    """

    def clean(value: Any) -> Any:
        if isinstance(value, str):
            return "".join(c if c == "\n" or c.isprintable() else "?" for c in value)
        if isinstance(value, dict):
            return {key: clean(item) for key, item in value.items()}
        return [clean(item) for item in value] if isinstance(value, list | tuple) else value

    return msgspec.convert(clean(msgspec.to_builtins(document)), Document)


def _first_screen(document: Document) -> Iterator[RenderableType]:
    sign, style = _TONES[document.verdict.tone]
    yield Text.assemble((document.title, "bold"), "  ", (document.context, "dim"))
    yield Text()
    yield Text.assemble(
        (f"{sign} {document.verdict.label.upper()}", style), "  ", (document.headline, "bold")
    )
    yield Text()
    for block in document.summary:
        yield from _block(block)


def _inline(text: str) -> Text:
    """`code` in another colour, the backticks gone."""
    shown = Text()
    for number, piece in enumerate(text.split("`")):
        shown.append(piece, style="cyan" if number % 2 else "")
    return shown


def _block(block: Block) -> Iterator[RenderableType]:
    match block:
        case Paragraph():
            yield _inline(block.text)
        case Bullets():
            yield from (_bullet(item) for item in block.items)
        case Table():
            yield from _records(block) if block.wide or block.prose else _table(block)
        case Chart():
            yield Text(block.title, style="bold")
            yield from _table(block.fallback)
            yield from (Text(note, style="dim") for note in block.notes)
        case Code():
            if block.title:
                yield Text(block.title, style="bold")
            yield Padding(_code(block), (0, 0, 0, 2), expand=False)
        case _:
            assert_never(block)


def _bullet(item: str) -> RenderableType:
    grid = RichTable.grid(padding=(0, 1, 0, 0))
    grid.add_column(width=3, justify="right")
    grid.add_column(ratio=1, overflow="fold")
    grid.add_row("•", _inline(item))
    return grid


def _table(table: Table) -> Iterator[RenderableType]:
    if table.title:
        yield Text(table.title, style="bold")
    shown = RichTable(box=box.SIMPLE_HEAD, show_edge=False, pad_edge=False, header_style="bold")
    for number, column in enumerate(table.columns):
        shown.add_column(Text(column), justify=table.align(number), overflow="fold")
    for row in table.rows:
        shown.add_row(*(_inline(cell) for cell in row))
    yield Padding(shown, (0, 0, 0, 2), expand=False)
    yield from (Padding(Text(note, style="dim"), (0, 0, 0, 2), expand=False) for note in table.notes)


def _records(table: Table) -> Iterator[RenderableType]:
    """A table of sentences, or one too wide for a screen, as a short list per row."""
    if table.title:
        yield Text(table.title, style="bold")
    # What names the row: its first cell of sentences; number, setting and outcome of a measurement.
    names = 1 if table.prose else 3
    for row in table.rows:
        head, rest = row[:names], list(zip(table.columns, row, strict=True))[names:]
        title = _inline("  ".join(head))
        title.stylize("bold")
        yield Padding(title, (0, 0, 0, 2), expand=False)
        if table.prose:
            lines = [_inline(f"{name}: {cell}") for name, cell in rest]
        else:
            lines = [Text(" · ".join(f"{name} {cell}" for name, cell in rest))]
        yield from (Padding(line, (0, 0, 0, 6), expand=False) for line in lines)
    yield from (Padding(Text(note, style="dim"), (0, 0, 0, 2), expand=False) for note in table.notes)


def _code(block: Code) -> Text:
    shown = Text(overflow="fold")
    for number, line in enumerate(block.text.rstrip().splitlines()):
        style = ""
        if block.language == "diff":
            style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
        shown.append(("\n" if number else "") + line, style=style)
    return shown
