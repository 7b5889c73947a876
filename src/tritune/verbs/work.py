"""How a verb does the same thing many times and says how far it is; `cli` does it on all cores."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

T = TypeVar("T")
R = TypeVar("R")


class Work(Protocol):
    """What is told to a person, and who does the work."""

    def step(self, text: str) -> None:
        """A new phase begins."""

    def each(self, function: Callable[[T], R], items: Sequence[T], what: str = "") -> list[R]:
        """`function` of each item, in their order; `what` names the items while they are counted."""


class Alone:
    """One after the other, without a word."""

    def step(self, text: str) -> None:
        """Nothing is said."""

    def each(self, function: Callable[[T], R], items: Sequence[T], what: str = "") -> list[R]:  # noqa: ARG002
        """`function` of each item."""
        return [function(item) for item in items]
