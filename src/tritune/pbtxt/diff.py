"""A change as a unified diff that `patch -p1` and `git apply` accept."""

from __future__ import annotations

import difflib
import re

from tritune.model.config import Change
from tritune.pbtxt.edit import edit


def unified_diff(before: str, after: str, path: str) -> str:
    """The difference with three lines of context and `a/`, `b/` before `path`; empty where there is none.

    Lines end at `\\n` only, so `\\r\\n` stays; a missing line break at the end is marked as git does.
    """
    shown = re.sub(r"^(?:\./|/)+", "", path.replace("\\", "/"))
    tab = "\t" if " " in shown else ""  # ends a name with spaces, for patch and git alike
    lines = difflib.unified_diff(
        _lines(before), _lines(after), f"a/{shown}{tab}", f"b/{shown}{tab}", lineterm="\n"
    )
    return "".join(
        line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n" for line in lines
    )


def change_diff(text: str, change: Change, path: str) -> str:
    """`text` before and after `change`, as `verbs.ports.Differ`. Errors as `edit.edit`."""
    return unified_diff(text, edit(text, change, path), path)


def _lines(text: str) -> list[str]:
    return re.findall(r"[^\n]*\n|[^\n]+\Z", text)
