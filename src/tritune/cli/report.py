"""`tritune report RUN`."""

from __future__ import annotations

import io
import sys
from pathlib import Path
from typing import Annotated, Literal

import msgspec
from cyclopts import Parameter

from tritune.errors import ExitCode, TrituneError, UsageError
from tritune.report.content.document import Document
from tritune.store.reader import StoredRun
from tritune.twin.ask.queue_bounds import QueueBounds


def report(
    run: Path,
    /,
    *,
    style: Annotated[Literal["text", "markdown", "json", "html"], Parameter(name="--format")] = "text",
    out: Path | None = None,
    force: bool = False,
) -> int:
    """Show a run again: as text, Markdown, JSON, or one self-contained HTML page.

    Parameters
    ----------
    run
        A run folder.
    style
        How. HTML goes to a file (--out, default RUN/report.html), the others to stdout unless --out is given.
    out
        The file to write.
    force
        Overwrite it where it exists.
    """
    from tritune.cli.output import say
    from tritune.report.render.html import html
    from tritune.report.render.json import json_text
    from tritune.report.render.markdown import markdown
    from tritune.report.render.text import print_text
    from tritune.store.reader import open_run

    document = document_of(open_run(run))
    if style == "text" and out is None:
        print_text(document, sys.stdout, full=True)
        return ExitCode.OK
    if style == "text":
        text = io.StringIO()
        print_text(document, text, full=True)
        content = text.getvalue()
    else:
        render = {"html": html, "json": json_text, "markdown": markdown}[style]
        content = render(document)
    if style == "html" and out is None:
        out, force = run / "report.html", True
    if out is None:
        sys.stdout.write(content)
        return ExitCode.OK
    write_document(out, content, force=force)
    say(f"Wrote {out}")
    return ExitCode.OK


def document_of(stored: StoredRun) -> Document:
    """The report of a run folder, whichever verb wrote it. Fails for a tuning cut before it had a story."""
    from tritune.report.content.load import load_document
    from tritune.report.content.tuning import tuning_document
    from tritune.tune.result import TuneResult

    manifest = stored.manifest
    if manifest.kind == "load" and manifest.measurement is not None:
        return load_document(manifest, stored.requests(), _queue(stored))
    story = stored.file("tune.json")
    if story is None:
        raise TrituneError(
            f"the run {stored.path} was cut short before it had a result: {manifest.cut or 'no reason kept'}",
            slug="run-cut",
            hint="What it measured is in its folder trials/: `tritune report` shows each of them.",
        )
    try:
        return tuning_document(msgspec.json.decode(story, type=TuneResult))
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise TrituneError(
            f"{stored.path / 'tune.json'} cannot be read: {error}",
            slug="run-unreadable",
            hint="It was written by another version of tritune, or was damaged.",
        ) from error


def _queue(stored: StoredRun) -> QueueBounds | None:
    """What the counters say of the queue; None where they say nothing, or the configuration was not kept."""
    from tritune.pbtxt.message import view_json
    from tritune.twin.ask.queue_bounds import queue_bounds

    measurement, config = stored.manifest.measurement, stored.text("config/effective.json")
    window = measurement.window if measurement else None
    if config is None or window is None or not window.counters.success.count:
        return None
    view = view_json(config)
    return None if view.ensemble_steps else queue_bounds(view, window)  # an ensemble has no queue of its own


def write_document(out: Path, content: str, *, force: bool) -> None:
    """Raises UsageError (file-exists) without `force`, TrituneError (file-not-writable)."""
    if out.exists() and not force:
        raise UsageError(f"{out} exists", slug="file-exists", hint="Add --force to overwrite it.")
    try:
        out.write_text(content, encoding="utf-8", newline="\n")
    except OSError as error:
        raise TrituneError(f"{out} cannot be written: {error.strerror}", slug="file-not-writable") from error
