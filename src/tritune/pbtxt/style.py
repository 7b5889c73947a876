"""How a file is written: what a new field must look like to fit in. Ties go to Triton's own examples."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

from tritune.pbtxt.document import Block, Document, Field, Listing


@dataclass(frozen=True)
class Style:
    """Ready pieces: `scalar_colon` stands between a name and its value, `block_gap` before a brace."""

    newline: str
    indent: str
    scalar_colon: str
    block_gap: str
    list_gap: str
    list_pad: str
    list_comma: str
    one_line: bool

    def listing(self, values: tuple[int, ...]) -> str:
        """`[ 4, 8 ]`."""
        return (
            f"[{self.list_pad}{self.list_comma.join(map(str, values))}{self.list_pad}]" if values else "[ ]"
        )


def style_of(document: Document) -> Style:
    """The habits of this file, each by majority."""
    text = document.text
    fields = list(_all(document.fields))
    blocks = [field for field in fields if isinstance(field.value, Block)]
    block_lists = [field for field in fields if isinstance(field.value, Listing) and field.blocks]
    scalars = [field for field in fields if not field.blocks and field.colon is not None]
    inner = [
        text[field.value.start + 1 : field.value.end - 1]
        for field in fields
        if isinstance(field.value, Listing) and not field.blocks and field.value.items
    ]
    outer_blocks = [
        field for field in document.fields if isinstance(field.value, Block) and field.value.fields
    ]
    return Style(
        newline="\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n",
        indent=_most([*_indents(document)], "  "),
        scalar_colon=_most([_gap(text, field) for field in scalars], ": "),
        block_gap=_most([_gap(text, field) for field in blocks], " "),
        list_gap=_most([_gap(text, field) for field in block_lists], " "),
        list_pad=_most([" " if each[:1] in " \t" else "" for each in inner if "\n" not in each], " "),
        list_comma=_most([match[0] for each in inner for match in re.finditer(r",[ ]*(?!\s)", each)], ", "),
        one_line=bool(outer_blocks) and all("\n" not in _value_text(text, field) for field in outer_blocks),
    )


def _all(fields: tuple[Field, ...]) -> Iterator[Field]:
    for field in fields:
        yield field
        for block in field.blocks:
            yield from _all(block.fields)


def _most(seen: list[str], otherwise: str) -> str:
    """The most frequent; the usual one on a tie that it is part of, or where there is none."""
    counts = Counter(seen)
    best = max(counts.values(), default=0)
    return otherwise if counts[otherwise] == best else next(key for key in counts if counts[key] == best)


def _gap(text: str, field: Field) -> str:
    """What stands between a name and its value, on one line; a line break there counts as a space."""
    gap = text[field.start + len(field.name) : field.value.start]
    return gap if re.fullmatch(r"[ \t]*:?[ \t]*", gap) else re.sub(r"[\s#].*", " ", gap, flags=re.DOTALL)


def _value_text(text: str, field: Field) -> str:
    return text[field.value.start : field.value.end]


def _indents(document: Document) -> Iterator[str]:
    """How much further a block's first field starts than the line of its brace, once per block or list."""
    text = document.text
    for field in _all(document.fields):
        nested = [(block.start, block.fields[0].start) for block in field.blocks if block.fields]
        if isinstance(field.value, Listing) and field.blocks:
            nested.append((field.value.start, field.blocks[0].start))
        for opening, start in nested:
            outer, inner = indentation(text, opening), indentation(text, start)
            on_own_line = text[line_start(text, start) : start].strip() == ""
            if on_own_line and len(inner) > len(outer) and inner.startswith(outer):
                yield inner[len(outer) :]


def line_start(text: str, offset: int) -> int:
    """Where the line of this offset begins."""
    return text.rfind("\n", 0, offset) + 1


def line_end(text: str, offset: int) -> int:
    """Where the line of this offset ends: before its line break (`\\r` included), or the end of the text."""
    end = text.find("\n", offset)
    if end < 0:
        return len(text)
    return end - 1 if end > offset and text[end - 1] == "\r" else end


def indentation(text: str, offset: int) -> str:
    """The space that the line of this offset begins with."""
    match = re.compile(r"[ \t]*").match(text, line_start(text, offset))
    return match[0] if match else ""
