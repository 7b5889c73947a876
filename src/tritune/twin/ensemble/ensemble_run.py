"""One load of an ensemble as a calibration takes it: what the client saw, and what each model counted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tritune.twin.fit.calibration_run import CalibrationRun


@dataclass(frozen=True)
class EnsembleRun:
    """`whole`: the ensemble itself. `models`: by name, each model that its steps use, with the counters of
    the same time; its log is that of the ensemble's requests, because nobody else sends any.
    """

    whole: CalibrationRun
    models: Mapping[str, CalibrationRun]
