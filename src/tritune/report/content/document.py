"""What every report is made of: a verdict, a headline, a first screen, and sections of blocks."""

from __future__ import annotations

from typing import Any, Literal

import msgspec

# The version of the JSON form. A reader may rely on: fields are added, never renamed, within a version.
SCHEMA_VERSION = 1

Tone = Literal["good", "bad", "warn", "neutral"]
Align = Literal["left", "right"]


class Verdict(msgspec.Struct, frozen=True):
    """The answer in two or three words; `tone` decides colour and sign, never the meaning alone."""

    label: str
    tone: Tone


class Paragraph(msgspec.Struct, frozen=True, tag="paragraph"):
    """Plain sentences. `backticks` mark what a machine would read literally."""

    text: str


class Bullets(msgspec.Struct, frozen=True, tag="bullets"):
    """A list of plain sentences."""

    items: tuple[str, ...]


class Table(msgspec.Struct, frozen=True, tag="table"):
    """Rows of ready text; `alignment` holds one entry per column. Raises ValueError where lengths differ.

    `wide`: more columns than a screen of 100 characters holds; a text rendering then turns each row into
    a short list.
    """

    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    alignment: tuple[Align, ...] = ()
    title: str = ""
    notes: tuple[str, ...] = ()
    wide: bool = False

    def __post_init__(self) -> None:
        width = len(self.columns)
        if any(len(row) != width for row in self.rows) or len(self.alignment) not in (0, width):
            raise ValueError(f"the table '{self.title}' has {width} columns, and a row or alignment differs")

    @property
    def prose(self) -> bool:
        """Whether it holds sentences rather than figures: every column is said to stand left."""
        return bool(self.alignment) and "right" not in self.alignment

    def align(self, column: int) -> Align:
        """Left for the first column and right for the others, unless said otherwise."""
        return self.alignment[column] if self.alignment else "left" if column == 0 else "right"


class Chart(msgspec.Struct, frozen=True, tag="chart"):
    """A Vega-Lite specification that holds its data; `fallback` says the same without a picture.

    `reading` explains what only the picture shows (bars, marks); `notes` belong to the figures themselves.
    `narrow`: half the width of a page is enough, so that two may stand side by side.
    """

    title: str
    alt: str
    spec: dict[str, Any]
    fallback: Table
    reading: str = ""
    notes: tuple[str, ...] = ()
    narrow: bool = False


class Code(msgspec.Struct, frozen=True, tag="code"):
    """Text to be read or copied exactly."""

    language: str
    text: str
    title: str = ""


Block = Paragraph | Bullets | Table | Chart | Code


class Section(msgspec.Struct, frozen=True):
    """A heading and what belongs to it."""

    title: str
    blocks: tuple[Block, ...]


class Document(msgspec.Struct, frozen=True, kw_only=True):
    """A report. `summary` with title, verdict and headline is the first screen: it must stand alone."""

    schema_version: int = SCHEMA_VERSION
    kind: Literal["tune", "load", "diagnosis", "simulation"]
    title: str
    context: str = ""
    verdict: Verdict
    headline: str
    summary: tuple[Block, ...] = ()
    sections: tuple[Section, ...] = ()
