"""Find the first thing Triton would refuse in a config.pbtxt, exactly where its C++ parser finds it.

Python's own text_format is more lenient in places and gives other positions, so this follows C++'s
TextFormat parser step by step: look one token ahead, then the field's name, whether it may stand here
(again), its colon, its value, one separator.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NoReturn

from tritune.pbtxt import hints, scalars
from tritune.pbtxt.errors import PbtxtError
from tritune.pbtxt.grammar import tokens

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, EnumDescriptor, FieldDescriptor
    from lark import Token

_CLOSES = {"LBRACE": "RBRACE", "LANGLE": "RANGLE"}
_SIGNS = {"RBRACE": "}", "RANGLE": ">"}


def check(text: str, root: Descriptor, path: str) -> None:
    """Return if C++ would read `text` as a `root`; raise PbtxtError at the first thing it would refuse."""
    _Reader(text, root, path).document()


class _Reader:
    def __init__(self, text: str, root: Descriptor, path: str) -> None:
        self.text = text
        self.root = root
        self.path = path
        self.rest = iter(tokens(text))
        self.blocks: list[hints.Opened] = []
        self.now = self.look(next(self.rest))

    # The tokens.

    def fail(self, at: Token, what: str, hint: str) -> NoReturn:
        raise PbtxtError(what, path=self.path, line=at.line or 1, column=at.column or 1, hint=hint)

    def look(self, token: Token) -> Token:
        """`token`, unless C++'s tokenizer would stumble over it."""
        if token.type == "NUMBER" and (fault := scalars.number_fault(token)):
            self.fail(token, fault, hints.bad_number(token))
        if token.type == "STRING" and (fault := scalars.string_fault(token)):
            self.fail(
                token,
                f"the text {hints.short(token)} contains the escape {fault}, which does not exist",
                "Write a backslash as \\\\.",
            )
        if token.type == "UNCLOSED":
            self.fail(
                token,
                f"the text {hints.short(token)} has no closing quote on this line",
                f"End it with {token[0]}; a text cannot go on in the next line.",
            )
        if token.type == "BAD" and not (" " < token < "\x7f"):
            what, hint = hints.strange_character(token)
            self.fail(token, what, hint)
        return token

    def take(self) -> Token:
        taken = self.now
        if taken.type != "END":
            self.now = self.look(next(self.rest))
        return taken

    def took(self, kind: str) -> bool:
        if self.now.type != kind:
            return False
        self.take()
        return True

    # The structure.

    def document(self) -> None:
        seen: dict[str, Token] = {}
        while self.now.type != "END":
            self.field(self.root, seen)

    def where(self) -> str:
        """The block we are in, as a dotted path; empty at the top level."""
        return ".".join(block.field for block in self.blocks)

    def field(self, owner: Descriptor, seen: dict[str, Token]) -> None:
        name = self.now
        if name.type != "NAME":
            what, hint = hints.not_a_name(
                name, self.text, owner, tuple(self.blocks), next(reversed(seen), "")
            )
            self.fail(name, what, hint)
        self.take()
        field = owner.fields_by_name.get(str(name))
        if field is None:
            here = self.where()
            self.fail(
                name,
                f"{here or 'a model configuration'} has no field '{name}'",
                hints.unknown_field(str(name), owner, self.root, tuple(self.blocks)),
            )
        self.may_stand(name, field, seen)
        if field.cpp_type == scalars.MESSAGE:
            self.took("COLON")
        elif not self.took("COLON"):
            what, hint = hints.no_colon(name, self.now, field)
            self.fail(self.now, what, hint)
        present = self.values(name, field)
        if present:
            seen[str(name)] = name
        if not self.took("SEMICOLON"):
            self.took("COMMA")

    def may_stand(self, name: Token, field: FieldDescriptor, seen: dict[str, Token]) -> None:
        """Refuse a second value for a field or a oneof. A value equal to the default does not count (C++)."""
        if field.is_repeated:
            return
        if first := seen.get(field.name):
            self.fail(
                name,
                f"'{field.name}' is given twice, first in line {first.line}",
                "Keep one of the two"
                + (" and move what both hold into it." if field.cpp_type == scalars.MESSAGE else "."),
            )
        if field.containing_oneof is None:
            return
        for other in field.containing_oneof.fields:
            if first := seen.get(other.name):
                self.fail(
                    name,
                    f"'{field.name}' cannot stand beside '{other.name}' (line {first.line}): "
                    f"only one of {hints.listed(f.name for f in field.containing_oneof.fields)} is allowed",
                    f"Remove '{field.name}' or '{other.name}'.",
                )

    def values(self, name: Token, field: FieldDescriptor) -> bool:
        """Read the value or the list of them; whether the field counts as present afterwards."""
        if not (field.is_repeated and self.now.type == "LBRACKET"):
            return self.value(name, field)
        self.take()
        if self.took("RBRACKET"):
            return True
        while True:
            self.value(name, field, in_list=True)
            if self.took("RBRACKET"):
                return True
            if not self.took("COMMA"):
                what, hint = hints.no_comma(name, self.now)
                self.fail(self.now, what, hint)

    def value(self, name: Token, field: FieldDescriptor, *, in_list: bool = False) -> bool:
        if field.cpp_type == scalars.MESSAGE:
            self.block(name, field)
            return True
        start = self.now
        kind = field.cpp_type
        if kind in scalars.INTEGER_RANGES:
            present = self.integer(field, *scalars.INTEGER_RANGES[kind]) != 0
        elif kind in scalars.FLOATS:
            present = self.float(field)
        elif kind == scalars.BOOL:
            present = self.bool(field)
        elif kind == scalars.ENUM and field.enum_type is not None:
            present = self.enum(field, field.enum_type) != 0
        else:
            if start.type != "STRING":
                self.wrong(field)
            present = False
            while self.now.type == "STRING":
                present = len(self.take()) > 2 or present
        return present or field.has_presence or in_list

    def block(self, name: Token, field: FieldDescriptor) -> None:
        opening = self.now
        message = field.message_type
        if opening.type not in _CLOSES or message is None:
            self.wrong(field)
        self.take()
        self.blocks.append(hints.Opened(field.name, opening.line or 1))
        seen: dict[str, Token] = {}
        while self.now.type not in ("RBRACE", "RANGLE"):
            self.field(message, seen)
        if not self.took(_CLOSES[opening.type]):
            sign = _SIGNS[_CLOSES[opening.type]]
            self.fail(
                self.now,
                f"'{name}' is opened with '{opening}' in line {opening.line} but closed with '{self.now}'",
                f"Close it with '{sign}'.",
            )
        self.blocks.pop()

    # Single values.

    def wrong(self, field: FieldDescriptor) -> NoReturn:
        what, hint = hints.wrong_value(field, self.now, self.text, tuple(self.blocks))
        self.fail(self.now, what, hint)

    def integer(self, field: FieldDescriptor, low: int, high: int) -> int:
        start = self.now
        negative = low < 0 and self.took("MINUS")
        size = scalars.integer(self.now) if self.now.type == "NUMBER" else None
        if size is None:
            self.wrong(field)
        value = -size if negative else size
        if not low <= value <= high:
            self.fail(
                start,
                f"{value} is too {'small' if value < low else 'large'} for '{field.name}'",
                f"'{field.name}' takes integers from {low} to {high}.",
            )
        self.take()
        return value

    def float(self, field: FieldDescriptor) -> bool:
        self.took("MINUS")
        if self.now.type == "NUMBER":
            decimal = str(int(self.now)) == self.now if self.now.isdigit() else scalars.is_float(self.now)
            if not decimal:
                self.fail(
                    self.now,
                    f"'{field.name}' takes a decimal number, not {self.now}",
                    "Write it without a leading 0.",
                )
        elif self.now.type != "NAME" or self.now.lower() not in scalars.FLOAT_NAMES:
            self.wrong(field)
        token = self.take().lower()
        return token in scalars.FLOAT_NAMES or float(token.rstrip("f")) != 0

    def bool(self, field: FieldDescriptor) -> bool:
        start = self.now
        if start.type == "NUMBER":
            return self.integer(field, 0, 1) == 1
        if start.type != "NAME" or start not in scalars.TRUE + scalars.FALSE:
            self.wrong(field)
        return self.take() in scalars.TRUE

    def enum(self, field: FieldDescriptor, enum: EnumDescriptor) -> int:
        if self.now.type in ("NUMBER", "MINUS"):
            return self.integer(field, *scalars.INTEGER_RANGES[1])
        if self.now.type != "NAME":
            self.wrong(field)
        known = enum.values_by_name.get(str(self.now))
        if known is None:
            self.fail(
                self.now,
                f"'{field.name}' knows no value {self.now}",
                hints.unknown_enum(str(self.now), enum),
            )
        self.take()
        return known.number
