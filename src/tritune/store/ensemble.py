"""A run folder of an ensemble as the twin calibrates on it: the configuration and counters of every model."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

from tritune.errors import UsageError
from tritune.model.server import ModelKey, Snapshot, window
from tritune.pbtxt.message import view_json
from tritune.store.calibration import calibration_runs
from tritune.store.reader import open_run
from tritune.store.rows import statistics_of
from tritune.twin.ensemble.ensemble_run import EnsembleRun
from tritune.twin.fit.calibration_run import CalibrationRun


def ensemble_run(path: str | Path, step_file: Callable[[str], str]) -> EnsembleRun | None:
    """The run in `path` with what it kept of the ensemble's models; None where it loaded no ensemble.

    `step_file(model)` names the file of a model's configuration. A step without a version of its own runs the
    latest, as in Triton. Raises as `calibration_runs`, and UsageError (not-a-load) where a model is missing.
    """
    stored = open_run(path)
    if stored.manifest.kind != "load" or not view_json(stored.text("config/effective.json") or "{}").ensemble:
        return None
    [whole] = calibration_runs(path)
    shots = [s for s in statistics_of(stored.server()) if s.t_ns <= whole.window.t1_ns]
    asked = {step.model: step.version for step in whole.config.ensemble}
    return EnsembleRun(
        whole,
        {
            model: _model(whole, stored.text(step_file(model)), shots, model, version)
            for model, version in asked.items()
        },
    )


def _model(
    whole: CalibrationRun, config_json: str | None, shots: list[Snapshot], model: str, asked: int
) -> CalibrationRun:
    found = sorted(
        (k for k in (shots[-1].models if shots else ()) if k.model == model), key=lambda k: int(k.version)
    )
    key = ModelKey(model, str(asked)) if asked > 0 else found[-1] if found else None
    inside = [s for s in shots if s.t_ns >= whole.window.t0_ns and key in s.models]
    if config_json is None or key is None or len(inside) < 2:
        raise UsageError(
            f"{whole.source} does not hold the configuration and the counters of {model}, a step of "
            f"{whole.config.name}",
            slug="not-a-load",
            hint="Measure again with this tritune: tritune load URL --model ENSEMBLE --rate R.",
        )
    between = (window(before, after, key) for before, after in pairwise(inside))
    total = window(inside[0], inside[-1], key)
    if total is None:
        raise ValueError("a model that is in both reads has a window")
    before = shots[0].models[key].batch_stats or {} if key in shots[0].models else {}
    return CalibrationRun(
        config=view_json(config_json),
        config_json=config_json,
        window=total,
        log=whole.log,
        sender=whole.sender,
        warm_up={size: stat for size, stat in before.items() if stat.count},
        parts=tuple(part for part in between if part is not None and not part.reset)
        if len(inside) > 2
        else (),
        triton_version=whole.triton_version,
        source=whole.source,
        own_log=False,
    )
