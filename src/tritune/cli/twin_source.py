"""What `tritune simulate` starts from: a run folder, or a file and figures typed by hand."""

from __future__ import annotations

from pathlib import Path

from tritune.cli.output import say
from tritune.errors import UsageError
from tritune.store.earlier import batches_before
from tritune.store.reader import open_run
from tritune.verbs.simulate import Question, Simulation, simulate_run, simulate_typed


def of_run(run: Path, question: Question) -> Simulation:
    """The answer calibrated on a whole run folder."""
    stored = open_run(run, whole=True)
    measurement = stored.manifest.measurement
    version = measurement.window.version if measurement and measurement.window else ""
    return simulate_run(
        stored.manifest,
        stored.text("config/effective.json") or "",
        stored.requests(),
        batches_before(stored.server(), stored.manifest.model, version),
        question,
        source=str(run),
        progress=say,
    )


def of_figures(config: Path, service: str, question: Question) -> Simulation:
    """The answer from a config.pbtxt and service times typed by hand."""
    try:
        text = config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{config} cannot be read: {error}", slug="config-unreadable") from error
    return simulate_typed(text, service, question, path=str(config), progress=say)
