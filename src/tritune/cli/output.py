"""stdout is data, stderr is conversation."""

from __future__ import annotations

import sys
from typing import Any

import msgspec

from tritune.errors import ExitCode
from tritune.model.load import INTERRUPTED, TERMINATED


def print_json(kind: str, value: Any) -> None:
    """One JSON object on stdout: {"schema": "tritune.<kind>/1", ...the value's fields}."""
    body = msgspec.to_builtins(value)
    fields = body if isinstance(body, dict) else {"items": body}
    sys.stdout.write(
        msgspec.json.format(msgspec.json.encode({"schema": f"tritune.{kind}/1", **fields}), indent=2).decode()
    )
    sys.stdout.write("\n")


def cut_code(cut: str) -> ExitCode:
    """The exit code of a run that was cut short for this reason."""
    codes = {INTERRUPTED: ExitCode.INTERRUPTED, TERMINATED: ExitCode.TERMINATED}
    return codes.get(cut, ExitCode.FAILED)


def say(text: str) -> None:
    """A line of conversation."""
    sys.stderr.write(text + "\n")
