"""The grammar of protobuf's text format, as C++ (and so Triton) reads it.

It knows no field names: which field takes which value is the reader's business. The rules are those of
https://protobuf.dev/reference/protobuf/textformat-spec/ where the C++ parser follows it (checked against
protoc): one optional `,` or `;` after a field, no trailing comma in a list, `<...>` for `{...}`.
Extension names in brackets are left out: a model configuration has none, so C++ refuses them all.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lark import Lark, Token, Tree

# BAD and UNCLOSED take what no text may contain, so that the lexer itself never fails;
# the rule `never` only keeps them in the lexer.
_GRAMMAR = r"""
document: field*
field: NAME COLON? block separator?
     | NAME COLON? list separator?
     | NAME COLON scalar separator?
?separator: COMMA | SEMICOLON
block: LBRACE field* RBRACE
     | LANGLE field* RANGLE
list: LBRACKET (_item (COMMA _item)*)? RBRACKET
_item: scalar | block
scalar: MINUS? (NUMBER | NAME)
      | STRING+

NAME.5: /[A-Za-z_][A-Za-z0-9_]*/
NUMBER.5: /(?:[0-9]|\.[0-9])(?:[A-Za-z0-9_.]|(?<=[eE])[+-])*/
STRING.5: /"(?:\\[^\n\x00]|[^"\\\n\x00])*"|'(?:\\[^\n\x00]|[^'\\\n\x00])*'/
UNCLOSED.4: /"(?:\\[^\n\x00]|[^"\\\n\x00])*|'(?:\\[^\n\x00]|[^'\\\n\x00])*/
LBRACE.3: "{"
RBRACE.3: "}"
LANGLE.3: "<"
RANGLE.3: ">"
LBRACKET.3: "["
RBRACKET.3: "]"
COLON.3: ":"
COMMA.3: ","
SEMICOLON.3: ";"
MINUS.3: "-"
BAD.1: /[\s\S]/
SPACE.9: /[ \t\n\r\v\f]+/
COMMENT.9: /#[^\n]*/
%ignore SPACE
%ignore COMMENT
never: BAD | UNCLOSED
"""


@lru_cache(maxsize=1)
def _parser() -> Lark:
    from lark import Lark

    return Lark(
        _GRAMMAR,
        start=["document", "never"],
        parser="lalr",
        lexer="basic",
        propagate_positions=True,
        maybe_placeholders=False,
    )


def tokens(text: str) -> list[Token]:
    """Every token in order, without space and comments, then one of type END; columns count from 1."""
    from lark import Token

    line = text.count("\n") + 1
    end = Token("END", "", len(text), line, len(text) - text.rfind("\n"), line, 0, len(text))
    return [*_parser().lex(text), end]


def tree(text: str) -> Tree[Token]:
    """The text as a lark tree with positions. Only for a text that `reader.check` has accepted."""
    return _parser().parse(text, start="document")
