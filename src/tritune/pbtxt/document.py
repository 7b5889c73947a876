"""A config.pbtxt as fields with their places in the text, so that an edit touches nothing else.

Places are character offsets into `Document.text`; text that no field covers (comments, blank lines, odd
spacing) is simply never touched.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tritune.pbtxt.grammar import tree

if TYPE_CHECKING:
    from lark import Token, Tree


@dataclass(frozen=True)
class Scalar:
    """A single value: a number with its sign, a name, or texts side by side."""

    start: int
    end: int


@dataclass(frozen=True)
class Block:
    """`{ ... }` or `< ... >`: `start` is the opening sign, `end` after the closing one."""

    start: int
    end: int
    fields: tuple[Field, ...]


@dataclass(frozen=True)
class Listing:
    """`[ ... ]` with the values in it."""

    start: int
    end: int
    items: tuple[Scalar | Block, ...]


@dataclass(frozen=True)
class Field:
    """A name and its value. `end` is after the value, `stop` after the separator where there is one."""

    name: str
    start: int
    end: int
    stop: int
    colon: int | None
    value: Scalar | Block | Listing

    @property
    def blocks(self) -> tuple[Block, ...]:
        """The blocks of the value, whether it is one or a list of them."""
        if isinstance(self.value, Block):
            return (self.value,)
        if isinstance(self.value, Listing):
            return tuple(item for item in self.value.items if isinstance(item, Block))
        return ()


@dataclass(frozen=True)
class Splice:
    """Put `text` in place of what is between two offsets."""

    start: int
    end: int
    text: str


@dataclass(frozen=True)
class Document:
    """The text and its top-level fields in order."""

    text: str
    fields: tuple[Field, ...]

    def find(self, path: str) -> tuple[Field, ...]:
        """Every field at a dotted path, in order, through blocks and lists of blocks."""
        *outer, last = path.split(".")
        here = self.fields
        for name in outer:
            here = tuple(
                inner
                for field in here
                if field.name == name
                for block in field.blocks
                for inner in block.fields
            )
        return tuple(field for field in here if field.name == last)

    def spliced(self, splices: Iterable[Splice]) -> str:
        """The text after non-overlapping splices, whose offsets all refer to the text as it is now."""
        text = self.text
        for splice in sorted(splices, key=lambda each: (each.start, each.end), reverse=True):
            text = text[: splice.start] + splice.text + text[splice.end :]
        return text


def document(text: str) -> Document:
    """The document of a text that `reader.check` has accepted."""
    return Document(text, tuple(_field(child) for child in _trees(tree(text))))


def _trees(node: Tree[Token]) -> list[Tree[Token]]:
    from lark import Tree

    return [child for child in node.children if isinstance(child, Tree)]


def _field(node: Tree[Token]) -> Field:
    from lark import Token

    (value,) = _trees(node)
    tokens = {child.type: child for child in node.children if isinstance(child, Token)}
    name = tokens["NAME"]
    separator = tokens.get("COMMA") or tokens.get("SEMICOLON")
    colon = tokens.get("COLON")
    end = value.meta.end_pos
    return Field(
        name=str(name),
        start=name.start_pos or 0,
        end=end,
        stop=end if separator is None else separator.end_pos or end,
        colon=None if colon is None else colon.start_pos,
        value=_value(value),
    )


def _value(node: Tree[Token]) -> Scalar | Block | Listing:
    start, end = node.meta.start_pos, node.meta.end_pos
    if node.data == "block":
        return Block(start, end, tuple(_field(child) for child in _trees(node)))
    if node.data == "list":
        items = (_value(child) for child in _trees(node))
        return Listing(start, end, tuple(item for item in items if not isinstance(item, Listing)))
    return Scalar(start, end)
