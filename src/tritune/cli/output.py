"""stdout is data, stderr is conversation."""

from __future__ import annotations

import sys
from typing import Any

import msgspec


def print_json(kind: str, value: Any) -> None:
    """One JSON object on stdout: {"schema": "tritune.<kind>/1", ...the value's fields}."""
    body = msgspec.to_builtins(value)
    fields = body if isinstance(body, dict) else {"items": body}
    sys.stdout.write(
        msgspec.json.format(msgspec.json.encode({"schema": f"tritune.{kind}/1", **fields}), indent=2).decode()
    )
    sys.stdout.write("\n")


def say(text: str) -> None:
    """A line of conversation."""
    sys.stderr.write(text + "\n")
