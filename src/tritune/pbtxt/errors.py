"""What is wrong with a config.pbtxt, and where."""

from __future__ import annotations

from tritune.errors import UsageError


class PbtxtError(UsageError):
    """Triton would refuse this text: `message` begins with path:line:column, `hint` names what was meant.

    Lines and columns count from 1, columns in characters (a tab is one). The place is the start of the
    offending name or value; for something missing at the end it is the end of the text.
    """

    def __init__(self, what: str, *, path: str, line: int, column: int, hint: str) -> None:
        super().__init__(f"{path}:{line}:{column}: {what}", slug="bad-pbtxt", hint=hint)
        self.path = path
        self.line = line
        self.column = column
