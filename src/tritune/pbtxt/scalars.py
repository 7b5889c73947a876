"""The single values of the text format: what C++'s tokenizer accepts as a number, a string, a bool."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.descriptor import FieldDescriptor

_INTEGER = re.compile(r"0[xX][0-9A-Fa-f]+|0[0-7]*|[1-9][0-9]*")
_FLOAT = re.compile(
    r"(?:[0-9]+\.[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?[fF]?|[0-9]+(?:[eE][+-]?[0-9]+[fF]?|[fF])"
)
_LEADING_ZERO = re.compile(r"0[0-9]+")
_ESCAPE = re.compile(
    r"\\(?:[abfnrtv\\?'\"0-7]|[xX][0-9A-Fa-f]|u[0-9A-Fa-f]{4}|U(?:000[0-9A-Fa-f]|0010)[0-9A-Fa-f]{4})"
)

# FieldDescriptor.CPPTYPE_*: the lowest and highest value of each integer type.
INTEGER_RANGES = {1: (-(2**31), 2**31 - 1), 2: (-(2**63), 2**63 - 1), 3: (0, 2**32 - 1), 4: (0, 2**64 - 1)}
FLOATS = (5, 6)
BOOL, ENUM, STRING, MESSAGE = 7, 8, 9, 10

TRUE = ("true", "True", "t")
FALSE = ("false", "False", "f")
FLOAT_NAMES = ("inf", "infinity", "nan")


def integer(token: str) -> int | None:
    """The value of an unsigned integer token: decimal, 0x hexadecimal or 0 octal; None for another token."""
    if not _INTEGER.fullmatch(token):
        return None
    if token[:2] in ("0x", "0X"):
        return int(token, 16)
    return int(token, 8 if token.startswith("0") else 10)


def is_float(token: str) -> bool:
    """Whether a number token is a float: it has a point, an exponent or a trailing f."""
    return _FLOAT.fullmatch(token) is not None


def number_fault(token: str) -> str:
    """Why C++'s tokenizer refuses this number token; empty where it does not."""
    if integer(token) is not None or is_float(token):
        return ""
    if _LEADING_ZERO.fullmatch(token):
        return f"'{token}' starts with 0, so it would have to be octal"
    return f"'{token}' is not a number"


def string_fault(token: str) -> str:
    """The first escape that C++ refuses in this quoted token; empty where there is none."""
    for match in re.finditer(r"\\.", token):
        if not _ESCAPE.match(token, match.start()):
            return match[0]
    return ""


def takes(field: FieldDescriptor) -> str:
    """What a value of this field is, for a sentence: `an integer`, `one of TYPE_BOOL, ...`, `a block`."""
    kind = field.cpp_type
    if kind == MESSAGE:
        return "a block { ... }"
    if kind == ENUM and field.enum_type is not None:
        return f"a name such as {field.enum_type.values[-1].name}"
    if kind == STRING:
        return "a text in quotes"
    if kind == BOOL:
        return "true or false"
    if kind in FLOATS:
        return "a number"
    return "an integer" if INTEGER_RANGES[kind][0] < 0 else "an integer of at least 0"
