"""Run folders as the twin calibrates on them: a load, or what a tuning measured."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

from tritune.errors import UsageError
from tritune.model.server import ModelKey, ServerWindow, Snapshot, window
from tritune.pbtxt.message import view_json
from tritune.stats.trust import doubt
from tritune.store.reader import StoredRun, open_run
from tritune.store.rows import statistics_of
from tritune.twin.fit.calibration_run import CalibrationRun

EFFECTIVE = "config/effective.json"


def calibration_runs(path: str | Path) -> tuple[CalibrationRun, ...]:
    """A load run: itself. A tune run: its baseline first, then every setting it measured, as far as neither
    was cut short and both can be believed.

    Raises TrituneError: not-a-run, run-cut, run-unreadable; UsageError: not-a-load (no measurement or no
    configuration in it), trials-without-config (a tune run of a tritune that kept no configurations).
    """
    stored = open_run(path)
    if stored.manifest.kind == "load":
        return (_run(open_run(path, whole=True)),)
    trials = [trial for trial in stored.trials() if _believable(trial)]
    if not trials:
        raise UsageError(
            f"{path} holds no measured setting that can be believed",
            slug="not-a-load",
            hint="Measure with tritune load, at a rate that the server answers.",
        )
    if any(trial.file(EFFECTIVE) is None for trial in trials):
        raise UsageError(
            f"{path} was written by a tritune that did not keep the configuration of every trial",
            slug="trials-without-config",
            hint="Tune again, or name run folders of tritune load.",
        )
    return tuple(_run(trial) for trial in trials)


def _believable(trial: StoredRun) -> bool:
    measured = trial.manifest.measurement
    return (
        trial.manifest.status == "complete"
        and measured is not None
        and measured.window is not None
        and not doubt(measured)
    )


def _run(stored: StoredRun) -> CalibrationRun:
    measured, config_json = stored.manifest.measurement, stored.text(EFFECTIVE)
    if measured is None or measured.window is None or not config_json:
        raise UsageError(
            f"{stored.path} does not hold both a measurement and the configuration that was served",
            slug="not-a-load",
            hint="Name a run folder of tritune load.",
        )
    key = ModelKey(measured.window.model, measured.window.version)
    shots = statistics_of(stored.server())
    first = shots[0].models.get(key) if shots else None
    before = (first.batch_stats or {}) if first is not None else {}
    return CalibrationRun(
        config=view_json(config_json),
        config_json=config_json,
        window=measured.window,
        log=stored.requests(),
        sender=measured.sender,
        warm_up={size: stat for size, stat in before.items() if stat.count},
        parts=_parts([shot for shot in shots if key in shot.models], measured.window),
        triton_version=stored.manifest.server_version,
        source=str(stored.path),
        concurrency=measured.workload.concurrency or 0,
    )


def _parts(shots: list[Snapshot], whole: ServerWindow) -> tuple[ServerWindow, ...]:
    """The windows between the reads that lie in the run's window; none where nothing was read in between."""
    key = ModelKey(whole.model, whole.version)
    inside = [shot for shot in shots if whole.t0_ns <= shot.t_ns <= whole.t1_ns]
    if len(inside) < 3:
        return ()
    found = (window(before, after, key) for before, after in pairwise(inside))
    return tuple(part for part in found if part is not None and not part.reset)
