"""A document as JSON, for programs: the content model itself, with `schema_version`."""

from __future__ import annotations

import msgspec

from tritune.report.content.document import Document


def json_text(document: Document) -> str:
    """Indented JSON with a final newline; blocks carry their `type`. `parse` reads it back."""
    return msgspec.json.format(msgspec.json.encode(document), indent=2).decode() + "\n"


def parse(text: str | bytes) -> Document:
    """The document of `json_text`. Unknown fields are ignored; msgspec.ValidationError for anything else."""
    return msgspec.json.decode(text, type=Document)
