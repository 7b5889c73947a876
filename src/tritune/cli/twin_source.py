"""What `tritune simulate` starts from: run folders, a profile file, or a file and figures typed by hand."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from tritune.errors import UsageError
from tritune.stats.trust import doubt
from tritune.store.calibration import calibration_runs
from tritune.store.ensemble import ensemble_run
from tritune.store.profiles import read_profile
from tritune.store.reader import open_run
from tritune.store.runs import MANIFEST
from tritune.twin.ensemble.chain_answer import EnsembleSimulation
from tritune.verbs.load import step_file
from tritune.verbs.simulate import Basis, Question, from_runs, from_saved, from_typed
from tritune.verbs.simulate_ensemble import simulate_ensemble_run
from tritune.verbs.work import Work


def of_sources(sources: Sequence[Path], question: Question, work: Work) -> Basis:
    """Run folders, the first of which is the reference, or one profile file.

    Raises TrituneError as `open_run`, `calibration_runs` and `read_profile`; UsageError (one-profile).
    """
    profiles = [path for path in sources if path.is_file() and path.name != MANIFEST]
    if not profiles:
        runs = [run for path in sources for run in calibration_runs(path)]
        return from_runs(runs, question, why_doubted=_doubt(sources[0]), work=work)
    if len(sources) > 1:
        raise UsageError(
            f"{profiles[0]} is a file, and a profile stands alone",
            slug="one-profile",
            hint="Name one profile, or run folders only; several runs are calibrated on together.",
        )
    return from_saved(read_profile(profiles[0]), question)


def of_ensemble(sources: Sequence[Path], question: Question, work: Work) -> EnsembleSimulation | None:
    """The answer for a load run of an ensemble; None where the first source is anything else.

    Raises as `ensemble_run` and `simulate_ensemble_run`; UsageError (ensemble-one-run).
    """
    if not sources or (sources[0].is_file() and sources[0].name != MANIFEST):
        return None
    run = ensemble_run(sources[0], step_file)
    if run is None:
        return None
    if len(sources) > 1:
        raise UsageError(
            f"{sources[0]} is a run of an ensemble, and those are calibrated on one by one",
            slug="ensemble-one-run",
            hint="Name one run folder.",
        )
    return simulate_ensemble_run(run, question, why_doubted=_doubt(sources[0]), work=work)


def of_figures(config: Path, service: str, question: Question) -> Basis:
    """A config.pbtxt and service times typed by hand."""
    try:
        text = config.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{config} cannot be read: {error}", slug="config-unreadable") from error
    return from_typed(text, service, question, path=str(config))


def _doubt(path: Path) -> str:
    measured = open_run(path).manifest.measurement
    return (doubt(measured) or "") if measured is not None else ""
