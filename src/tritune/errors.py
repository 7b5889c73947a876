"""The one error base: every sentence a user can meet has a slug, a hint and an exit code.

Only `tritune.cli` prints these. Foreign errors are translated where they enter (the acting packages).
"""

from __future__ import annotations

from enum import IntEnum


class ExitCode(IntEnum):
    """What the process says to a script; the same for every verb."""

    OK = 0
    FAILED = 1
    USAGE = 2
    OBJECTIVE_NOT_MET = 3
    NOT_TRUSTWORTHY = 4
    INTERRUPTED = 130
    TERMINATED = 143


class TrituneError(Exception):
    """Something a user must know: what and where in `message`, what to do in `hint`.

    `slug` names the entry in docs/messages.md and never changes; `message` is one sentence.
    """

    def __init__(
        self,
        message: str,
        *,
        slug: str,
        hint: str = "",
        exit_code: ExitCode = ExitCode.FAILED,
    ) -> None:
        super().__init__(message)
        self.message = message
        self.slug = slug
        self.hint = hint
        self.exit_code = exit_code


class UsageError(TrituneError):
    """The command line, a file or a value given by the user cannot be used as it is (exit 2)."""

    def __init__(self, message: str, *, slug: str, hint: str = "") -> None:
        super().__init__(message, slug=slug, hint=hint, exit_code=ExitCode.USAGE)
