"""Put a field into a text or take one out, and leave every other line as it is."""

from __future__ import annotations

import re

from tritune.pbtxt.document import Block, Document, Field, Splice
from tritune.pbtxt.style import Style, indentation, line_end, line_start

_BLANK_OR_COMMENT = re.compile(r"[ \t]*(#[^\n]*)?")
_BLANK_LINE = re.compile(r"[ \t]*\r?\n")


def without(document: Document, field: Field) -> str:
    """The text without `field`.

    Where the field has its lines for itself they go, with the comment at their end, and so does one of two
    blank lines that would meet; comments above stay. Within a line only the field and one space go.
    """
    text = document.text
    begin, end = line_start(text, field.start), line_end(text, field.stop)
    before, after = text[begin : field.start], text[field.stop : end]
    if before.strip() == "" and _BLANK_OR_COMMENT.fullmatch(after):
        return _without_lines(text, begin, end)
    following = after.lstrip()
    if before.strip() and (following[:1] in ("}", ">", "]", "#", "")):
        start, stop = begin + len(before.rstrip()), field.stop
        if text[start - 1] in ",;" and field.stop == field.end and following[:1] in ("}", ">"):
            start -= 1
    else:
        start, stop = field.start, end - len(following)
    return document.spliced([Splice(start, stop, "")])


def _without_lines(text: str, begin: int, end: int) -> str:
    """Cut whole lines; `end` is before the last one's line break."""
    breaks = re.compile(r"\r?\n").match(text, end)
    stop = breaks.end() if breaks else end
    above, below = text[:begin], text[stop:]
    if breaks is None:  # the last line had no line break, so the new last line has none
        return re.sub(r"\r?\n([ \t]*\r?\n)*\Z", "", above)
    blank_above = re.search(r"(?:\A|\n)([ \t]*\r?\n)\Z", above)
    opens = above.strip() == "" or above.rstrip().endswith(("{", "<", "["))
    if (blank_above or opens) and (blank_below := _BLANK_LINE.match(below)):
        return above + below[blank_below.end() :]
    if blank_above and (below.strip() == "" or below.lstrip()[0] in "}>]"):
        return above[: blank_above.start(1)] + below
    return above + below


def at_top(document: Document, style: Style, lines: list[str], anchor: Field | None) -> str:
    """The text with a new top-level field after `anchor`; None: the file has no field yet."""
    text = document.text
    if anchor is None:
        start = "" if text == "" or text.endswith("\n") else style.newline
        return text + start + style.newline.join(lines) + (style.newline if start == "" else "")
    return after(document, style, anchor, lines, indentation(text, anchor.start))


def after(document: Document, style: Style, anchor: Field, lines: list[str], indent: str) -> str:
    """The text with a new field on the line after `anchor`, or behind it where the line goes on."""
    text = document.text
    end = line_end(text, anchor.stop)
    separator = text[anchor.stop - 1] if anchor.stop > anchor.end else ""
    own_line = text[line_start(text, anchor.start) : anchor.start].strip() == ""
    vertical = "".join(style.newline + indent + line for line in lines) + separator
    if _BLANK_OR_COMMENT.fullmatch(text[anchor.stop : end]):
        return document.spliced([Splice(end, end, vertical)])
    if own_line and text[anchor.stop : end].lstrip()[:1] in ("}", ">"):
        return document.spliced([Splice(anchor.stop, anchor.stop, vertical)])
    return document.spliced([Splice(anchor.stop, anchor.stop, " " + " ".join(lines) + separator)])


def in_block(document: Document, style: Style, block: Block, line: str, anchor: Field | None = None) -> str:
    """The text with one more field in `block`: after `anchor`, or as the last one."""
    text = document.text
    inner = text[block.start + 1 : block.end - 1]
    indent = indentation(text, block.start) + style.indent
    if block.fields:
        anchor = anchor or block.fields[-1]
        if "\n" not in inner:
            separator = _separator(text, block) if anchor.stop == anchor.end else ""
            own = text[anchor.stop - 1] if anchor.stop > anchor.end else ""
            return document.spliced([Splice(anchor.stop, anchor.stop, f"{separator} {line}{own}")])
        if text[line_start(text, anchor.start) : anchor.start].strip() == "":
            indent = indentation(text, anchor.start)
        return after(document, style, anchor, [line], indent)
    close = line_start(text, block.end - 1)
    if "\n" in inner and text[close : block.end - 1].strip() == "":
        return document.spliced([Splice(close, close, indent + line + style.newline)])
    return document.spliced([Splice(block.start + 1, block.end - 1, f" {line} ")])


def _separator(text: str, block: Block) -> str:
    """What stands between the fields of a block in one line, if always the same: `,`, `;` or nothing."""
    used = {text[field.end : field.stop].strip() for field in block.fields[:-1]}
    return used.pop() if len(used) == 1 else ""
