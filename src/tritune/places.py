"""Where tritune keeps what outlives a command, by the XDG rules."""

from __future__ import annotations

import os
from pathlib import Path

from tritune.errors import TrituneError


def state_folder() -> Path:
    """`$XDG_STATE_HOME/tritune`, else ~/.local/state/tritune: journal, servers, logs. Not made here."""
    return _xdg("XDG_STATE_HOME", ".local", "state") / "tritune"


def cache_folder() -> Path:
    """$TRITUNE_CACHE, else `$XDG_CACHE_HOME/tritune`, else ~/.cache/tritune: what can be made again."""
    if own := os.environ.get("TRITUNE_CACHE"):
        return Path(own).absolute()
    return _xdg("XDG_CACHE_HOME", ".cache") / "tritune"


def _xdg(variable: str, *otherwise: str) -> Path:
    """The folder that a variable names, else one in the home; XDG says to ignore a relative path."""
    named = Path(os.environ.get(variable, ""))
    if named.is_absolute():
        return named
    try:
        return Path.home().joinpath(*otherwise)
    except RuntimeError as error:
        raise TrituneError(
            f"there is no home directory to keep things in, and {variable} is not set",
            slug="no-home",
            hint=f"Set {variable} to a folder that stays.",
        ) from error
