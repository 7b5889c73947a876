"""The sentences about a model that cannot be used; one wording for the real server and the shipped fake."""

from __future__ import annotations

import difflib
from collections.abc import Sequence

from tritune.errors import TrituneError, UsageError
from tritune.model.facts import IndexEntry

_MAX_LISTED = 12


def unusable(url: str, model: str, version: str, index: Sequence[IndexEntry], said: str = "") -> TrituneError:
    """Why `model` (in `version`, where one was asked for) does not answer: unknown, or not ready."""
    entries = [entry for entry in index if entry.name == model]
    if not entries:
        return unknown_model(url, model, [entry.name for entry in index])
    if version and version not in [entry.version for entry in entries]:
        known = _listed([e.version for e in entries if e.version])
        return UsageError(
            f"model '{model}' at {url} has no version {version}",
            slug="unknown-version",
            hint=f"Versions there: {known}." if known else "No version of it is loaded.",
        )
    chosen = next((e for e in entries if e.version == version), entries[-1]) if version else entries[-1]
    if chosen.state == "READY":
        return TrituneError(
            f"model '{model}' at {url} is ready and cannot be read: {said or 'no reason given'}",
            slug="model-unreadable",
        )
    return not_ready(url, chosen)


def unknown_model(url: str, model: str, known: Sequence[str]) -> TrituneError:
    """No such model: names those there are, and the one that was probably meant."""
    names = sorted(set(known))
    close = difflib.get_close_matches(model, names, n=1)
    hint = f"Did you mean '{close[0]}'? " if close else ""
    hint += f"Models there: {_listed(names)}." if names else "The repository is empty."
    return UsageError(f"there is no model '{model}' at {url}", slug="unknown-model", hint=hint)


def not_ready(url: str, entry: IndexEntry) -> TrituneError:
    """The model is in the repository and does not serve: its state and the server's reason."""
    version = f" version {entry.version}" if entry.version else ""
    state = f"it is {entry.state}" if entry.state else "it is not loaded"
    reason = first_line(entry.reason)
    return TrituneError(
        f"model '{entry.name}'{version} at {url} is not ready: {state}{f' ({reason})' if reason else ''}",
        slug="model-not-ready",
        hint="Wait for the load to end, and try again."
        if entry.state == "LOADING"
        else "Load it, or repair what the reason names; the server's log says more.",
    )


def first_line(reason: str) -> str:
    """The reason without the stack trace that a python model's has behind it."""
    return reason.strip().split("\n", 1)[0].strip().rstrip(";")


def _listed(names: Sequence[str]) -> str:
    more = len(names) - _MAX_LISTED
    return ", ".join(names[:_MAX_LISTED]) + (f" and {more} more" if more > 0 else "")
