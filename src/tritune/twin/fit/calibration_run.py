"""One load as a calibration takes it: what was served, what was sent, what the server counted meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tritune.model.config import ServingConfig
from tritune.model.measurement import Sender
from tritune.model.requests import RequestLog
from tritune.model.server import BatchStat, ServerWindow
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import Requests, Simulated, simulate
from tritune.twin.engine.timing import Timing
from tritune.twin.fit.replay import by_sending, sent_ns


@dataclass(frozen=True)
class CalibrationRun:
    """`window` covers the whole load, `parts` are shorter windows that follow each other within it (none: a
    run that did not read them). `warm_up`: batch statistics of executions before the window, by batch size.
    `concurrency`: requests in flight of a closed loop, 0 for an open one. `own_log`: the log holds what this
    model was sent; false for a step of an ensemble, whose log is the ensemble's. `source` says in words where
    it comes from.
    """

    config: ServingConfig
    config_json: str
    window: ServerWindow
    log: RequestLog
    sender: Sender
    warm_up: Mapping[int, BatchStat] = field(default_factory=dict)
    parts: tuple[ServerWindow, ...] = ()
    triton_version: str = ""
    source: str = ""
    concurrency: int = 0
    own_log: bool = True


def played(run: CalibrationRun, timing: Timing, seed: int) -> Simulated:
    """The run's requests, at the instants at which they were really sent, under other figures.

    A closed loop is played the same way: what was sent when is known. Raises TrituneError (twin-unsupported).
    """
    last = by_sending(run.log)
    load = Requests(sent_ns(last), items=last.items)
    return simulate(setting_of(run.config, run.triton_version), load, timing, seed=seed)
