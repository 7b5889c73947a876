"""docs/messages.md and the source agree: an entry for every slug, no entry for a slug that is gone."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import tritune
from tritune.model.load import BY_HAND

SOURCE = Path(tritune.__file__).parent
PAGE = Path(__file__).parents[2] / "docs" / "messages.md"
# These describe a diagnosis, not a failure.
NOT_ERRORS = ("Finding", "Restored")


def calls() -> Iterator[tuple[str, ast.Call]]:
    for file in sorted(SOURCE.rglob("*.py")):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Call):
                yield f"{file.relative_to(SOURCE)}:{node.lineno}", node


def slugs_in_source() -> set[str]:
    """Every string within the expression of a `slug=` argument, and the words for what ended by hand."""
    found = set(BY_HAND)
    for _, call in calls():
        for keyword in call.keywords:
            if keyword.arg == "slug" and getattr(call.func, "id", "") not in NOT_ERRORS:
                strings = [n.value for n in ast.walk(keyword.value) if isinstance(n, ast.Constant)]
                found.update(s for s in strings if isinstance(s, str))
    return found


def entries() -> dict[str, str]:
    parts = re.split(r"^## (.*)$", PAGE.read_text(), flags=re.MULTILINE)[1:]
    return dict(zip(parts[::2], (text.strip() for text in parts[1::2]), strict=True))


def test_every_message_has_an_entry_and_every_entry_a_message() -> None:
    assert set(entries()) == slugs_in_source()


def test_entries_are_in_order_and_say_something() -> None:
    page = entries()
    assert list(page) == sorted(page)
    assert all(len(text.split()) >= 12 for text in page.values())
    assert all(re.fullmatch(r"[a-z]+(-[a-z]+)*", slug) for slug in page)


def test_every_error_names_its_slug_in_the_call() -> None:
    """A positional or computed slug would escape the comparison above."""
    for place, call in calls():
        if getattr(call.func, "id", "") in ("TrituneError", "UsageError"):
            assert any(keyword.arg == "slug" for keyword in call.keywords), place
