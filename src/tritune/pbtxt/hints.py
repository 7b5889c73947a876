"""Sentences for what Triton refuses: what it is, and what was meant."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from tritune.pbtxt import meant, scalars

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
    from lark import Token

_TEMPLATE = re.compile(r"\$\{[^}\n]*\}|\$\w+|\{\{.*?\}\}|\{%.*?%\}|<%.*?%>|%\w+%")
_QUOTES = "“”„‟‘’‚‛«»″′"
_INVISIBLE = {
    "\ufeff": "a byte order mark (U+FEFF)",
    "\u00a0": "a no-break space (U+00A0)",
    "\u200b": "a zero-width space (U+200B)",
    "\u3000": "a wide space (U+3000)",
}


@dataclass(frozen=True)
class Opened:
    """A block that is open where reading stopped: its field and the line of its brace."""

    field: str
    line: int


def short(token: str) -> str:
    """A token for a sentence: in one line, cut after 40 characters."""
    line = token.split("\n")[0]
    return line if len(line) <= 40 else line[:37] + "..."


def listed(names: Iterable[str]) -> str:
    """`a, b and c`."""
    all_names = list(names)
    return ", ".join(all_names[:-1]) + " and " + all_names[-1] if len(all_names) > 1 else "".join(all_names)


def strange_character(character: str) -> tuple[str, str]:
    """A character that may stand in texts and comments only."""
    if character in _QUOTES:
        return f"{character} is a typographic quote", 'Write plain quotes: "like this".'
    if character in _INVISIBLE:
        return f"there is {_INVISIBLE[character]}", "Remove it; it does not show in most editors."
    if character < " " or character == "\x7f":
        return f"there is a control character (U+{ord(character):04X})", "Remove it."
    return (
        f"'{character}' (U+{ord(character):04X}) may stand only in quoted texts and comments",
        "Write it inside quotes or after a #, or remove it.",
    )


def bad_number(token: str) -> str:
    """What to write instead of a number token that is none."""
    if "_" in token:
        return "Write digits only: " + token.replace("_", "") + "."
    if token.startswith("0") and token.isdigit():
        return f"Write it without the leading 0: {token.lstrip('0') or '0'}."
    if match := re.fullmatch(r"([0-9]+)(us|ms|s|m)", token):
        return f"Write the number alone ({match[1]}), in the unit that the field's name says."
    return "Write digits only."


def _template(at: Token, text: str) -> str:
    match = _TEMPLATE.match(text, at.start_pos or 0)
    return match[0] if match else ""


def not_a_name(
    at: Token, text: str, owner: Descriptor, blocks: tuple[Opened, ...], last: str
) -> tuple[str, str]:
    """Something else where a field's name must stand; `last` is the field read before in this block."""
    block = blocks[-1] if blocks else None
    if at.type == "END" and block is not None:
        return (
            f"the text ends inside the block '{block.field}' opened in line {block.line}",
            "Add the missing }: as many as there are blocks still open ("
            + listed(f"{each.field}, line {each.line}" for each in blocks)
            + ").",
        )
    if template := _template(at, text):
        return f"the placeholder {template} was never filled in", _fill(template)
    if text.startswith("```", at.start_pos or 0):
        return "``` is Markdown, not part of the configuration", "Remove the lines that hold ```."
    if at.type in ("RBRACE", "RANGLE"):
        return f"'{at}' closes a block that was never opened", "Remove it, or look for one } too many above."
    if at.type == "LBRACE":
        return _nameless(text, at, owner, blocks, last)
    if at.type == "RBRACKET" and block is not None:
        return (
            f"']' stands inside the block '{block.field}' opened in line {block.line}",
            f"Close '{block.field}' with a }} before the ].",
        )
    if at.type == "STRING":
        name = at[1:-1]
        return (
            f"{short(at)} stands where a field name must stand",
            f"Field names have no quotes: write {name}: (this is not JSON)."
            if name.isidentifier()
            else "Write the name of a field and a colon before it.",
        )
    if at.type in ("COMMA", "SEMICOLON"):
        return f"there is nothing before this '{at}'", f"Remove the '{at}': one may follow a field, not more."
    if at.type in ("NUMBER", "MINUS") and last:
        return (
            f"'{at}' stands where a field name must stand",
            f"Several values of '{last}' go into brackets: {last}: [ 4, 8 ]; one number has no comma inside.",
        )
    if at.type == "COLON":
        return (
            "':' follows something that is no field name",
            "Field names have no quotes; texts side by side are read as one (this is not JSON).",
        )
    if at == "/":
        return "'/' cannot start anything here", "A comment starts with #."
    return f"'{short(at)}' stands where a field name must stand", "Write the name of a field, or remove it."


def _nameless(
    text: str, at: Token, owner: Descriptor, blocks: tuple[Opened, ...], last: str
) -> tuple[str, str]:
    inside = re.compile(r"\{\s*([A-Za-z_]\w*)").match(text, at.start_pos or 0)
    here = blocks[-1].field if blocks else ""
    what = "a block { has no field name before it" + (f" (inside '{here}')" if here else "")
    takers = [
        field.name
        for field in owner.fields
        if field.message_type is not None
        and (inside is None or inside[1] in field.message_type.fields_by_name)
    ]
    if last in takers:
        return what, f"Write '{last}' before it if it belongs to the '{last}' above: {last} {{ ... }}."
    if not blocks and (at.start_pos == 0 or not text[: at.start_pos].strip()):
        return what, "The fields of the configuration stand without braces around them (this is not JSON)."
    if takers and inside is not None:
        return what, f"Write the field it belongs to: {' or '.join(takers[:3])}."
    return what, "Write the field it belongs to before the brace."


def _fill(template: str) -> str:
    return f"Put a value in place of {template} (fill in the template before the server reads it)."


def unknown_field(name: str, owner: Descriptor, root: Descriptor, blocks: tuple[Opened, ...]) -> str:
    """Where the field belongs, or which one was meant."""
    here = tuple(block.field for block in blocks)
    shown = ".".join(here) or "the top level"
    if other := meant.also_called(name, owner):
        return f"Did you mean '{other}'?"
    exact, paths = meant.elsewhere(name, root, here)
    if exact != name and (similar := meant.field(name, owner)):
        return f"Did you mean '{similar}'?"
    if not paths:
        return f"Remove it, or see which fields {shown} has in Triton's model_config.proto."
    nearest = paths[0]
    if here[: len(nearest)] == nearest:  # a field of a block that is still open around this one
        outer = ".".join(nearest) or "the top level"
        return (
            f"'{exact}' belongs to {outer}: is a }} missing that closes '{blocks[len(nearest)].field}' "
            f"(opened in line {blocks[len(nearest)].line})?"
        )
    places = ["the top level" if not path else ".".join(path) for path in paths[:2]]
    lead = f"'{exact}' belongs in" if exact == name else f"Did you mean '{exact}'? It belongs in"
    inner = nearest[len(here) :] if nearest[: len(here)] == here else ()
    shape = "".join(part + " { " for part in inner) + f"{exact}: ..." + " }" * len(inner)
    example = f": {shape}" if inner else ""
    return f"{lead} {' or '.join(places)}{example}."


def unknown_enum(name: str, enum: EnumDescriptor) -> str:
    """The value that was meant, or all there are."""
    if similar := meant.value(name, enum):
        return f"Write {similar}."
    return f"It is one of {listed(each.name for each in enum.values)}."


def no_colon(name: Token, found: Token, field: FieldDescriptor) -> tuple[str, str]:
    """Every field that is not a block has a colon."""
    what = f"there is no ':' after '{name}'"
    if found.type in ("LBRACE", "LANGLE"):
        return f"'{name}' is not a block", f"Write {name}: and {scalars.takes(field)}."
    if found == "=":
        return what, f"Write ':' instead of '=' after '{name}'."
    return what, f"Write {name}: and {scalars.takes(field)}."


def no_comma(name: Token, found: Token) -> tuple[str, str]:
    """A list that goes on without a comma, or does not end."""
    if found.type in ("END", "RBRACE", "RANGLE", "NAME"):
        return (
            f"the list of '{name}' opened in line {name.line} is not closed with ']'",
            "Add the ].",
        )
    return f"there is no ',' between two values of '{name}'", "Write commas between values: [ 4, 8 ]."


def wrong_value(
    field: FieldDescriptor, found: Token, text: str, blocks: tuple[Opened, ...]
) -> tuple[str, str]:
    """A value of another kind than the field takes."""
    name, kind = field.name, field.cpp_type
    takes = scalars.takes(field)
    if template := _template(found, text):
        return f"the placeholder {template} of '{name}' was never filled in", _fill(template)
    what = f"'{name}' takes {takes}, not {short(found) or 'the end of the text'}"
    if found.type == "END":
        return f"the value of '{name}' is missing: the text ends", f"Write {takes} after '{name}'."
    if found.type == "RBRACKET":
        return f"a value of '{name}' is missing before ']'", "Remove the comma before the ]."
    if found.type == "LBRACKET":
        if kind == scalars.MESSAGE:
            return f"'{name}' takes one block, not a list", f"Write {name} {{ ... }} without brackets."
        return f"'{name}' takes one value, not a list", f"Write {name}: and {takes}, without brackets."
    if found.type == "MINUS":
        return f"'{name}' cannot be negative", f"Write {takes}."
    if kind == scalars.MESSAGE:
        return what, f"Write {name} {{ ... }}."
    if kind == scalars.STRING and found.type in ("NAME", "NUMBER"):
        return what, f'Write {name}: "{found}".'
    if kind == scalars.ENUM and found.type == "STRING" and field.enum_type is not None:
        bare = found[1:-1]
        known = bare if bare in field.enum_type.values_by_name else meant.value(bare, field.enum_type)
        return what, f"Write {known or bare} without quotes."
    if found.type == "STRING" and kind != scalars.STRING:
        bare = found[1:-1]
        if kind == scalars.BOOL:
            return what, f"Write {name}: {bare.lower()}." if bare.lower() in ("true", "false") else what + "."
        return what, f"Write {name}: {bare}." if bare.isdigit() else f"Write {takes}."
    if kind == scalars.BOOL and found.type == "NAME":
        lower = found.lower()
        word = "true" if lower in ("true", "yes", "on") else "false"
        return what, f"Write {name}: {word}."
    if kind in scalars.INTEGER_RANGES and found.type == "NUMBER":
        return what, f"'{name}' has no fractions or exponents; write {_whole(found)}."
    if (
        found.type == "NAME"
        and blocks == ()
        and field.containing_type
        and found in field.containing_type.fields_by_name
    ):
        return f"the value of '{name}' is missing", f"Write {takes} after '{name}:'."
    return what, f"Write {takes}."


def _whole(token: str) -> str:
    try:
        return str(round(float(token.rstrip("fF"))))
    except (ValueError, OverflowError):
        return "digits only"
