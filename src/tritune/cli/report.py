"""`tritune report RUN`."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from tritune.errors import ExitCode


def report(
    run: Path,
    /,
    *,
    format: Literal["text", "markdown", "json", "html"] = "text",  # noqa: A002 - the option's name
    out: Path | None = None,
    force: bool = False,
) -> int:
    """Show a run again: as text, Markdown, JSON, or one self-contained HTML page.

    Parameters
    ----------
    run
        A run folder.
    format
        How. HTML goes to a file (--out, default RUN/report.html), the others to stdout unless --out is given.
    out
        The file to write.
    force
        Overwrite it where it exists.
    """
    return ExitCode.OK
