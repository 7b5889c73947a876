"""A document as GitHub Markdown, for a pull request or an incident channel; charts become their tables."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import assert_never

from tritune.report.content.document import Block, Bullets, Chart, Code, Document, Paragraph, Table

# What Markdown or a browser behind it would act on. Backticks stay: the content means them.
_ACTIVE = re.compile(r"([\\*_\[\]<>|#~&])")
_LINE_START = re.compile(r"^(\s*\d*)([-+.)])(\s)")


def markdown(document: Document) -> str:
    """The whole document, every chart as its fallback table."""
    return "\n\n".join(_parts(document)) + "\n"


def _parts(document: Document) -> Iterator[str]:
    yield f"# {escape(document.title)}"
    if document.context:
        yield escape(document.context)
    yield f"**{escape(document.verdict.label)}**: {escape(document.headline)}"
    for block in document.summary:
        yield from _block(block)
    for section in document.sections:
        yield f"## {escape(section.title)}"
        for block in section.blocks:
            yield from _block(block)


def escape(text: str) -> str:
    """Text that shows as it is; what stands between backticks is code already and needs no escape."""
    pieces = text.replace("\n", " ").split("`")
    if len(pieces) % 2 == 0:
        # An odd number of backticks marks no code: show them.
        return _ACTIVE.sub(r"\\\1", text.replace("\n", " ")).replace("`", "\\`")
    shown = [_ACTIVE.sub(r"\\\1", piece) if i % 2 == 0 else f"`{piece}`" for i, piece in enumerate(pieces)]
    return _LINE_START.sub(r"\1\\\2\3", "".join(shown))


def _cell(text: str) -> str:
    # A table cell ends at every bar, one inside code too.
    pieces = escape(text).split("`")
    return "`".join(p.replace("|", "\\|") if i % 2 else p for i, p in enumerate(pieces))


def _block(block: Block) -> Iterator[str]:
    match block:
        case Paragraph():
            yield escape(block.text)
        case Bullets():
            yield "\n".join(f"- {escape(item)}" for item in block.items)
        case Table():
            yield from _table(block)
        case Chart():
            yield f"**{escape(block.title)}**"
            yield escape(block.alt)
            yield from _table(block.fallback)
            yield from (escape(note) for note in block.notes)
        case Code():
            if block.title:
                yield f"**{escape(block.title)}**"
            longest = max((len(run) for run in re.findall(r"`+", block.text)), default=0)
            fence = "`" * max(3, longest + 1)
            yield f"{fence}{block.language}\n{block.text.rstrip()}\n{fence}"
        case _:
            assert_never(block)


def _table(table: Table) -> Iterator[str]:
    if table.title:
        yield f"**{escape(table.title)}**"
    rule = ["---:" if table.align(i) == "right" else "---" for i in range(len(table.columns))]
    lines = [[_cell(c) for c in table.columns], rule, *([_cell(c) for c in row] for row in table.rows)]
    yield "\n".join(f"| {' | '.join(line)} |" for line in lines)
    yield from (escape(note) for note in table.notes)
