"""One load as a calibration takes it: what was served, what was sent, what the server counted meanwhile."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from tritune.model.config import ServingConfig
from tritune.model.measurement import Sender
from tritune.model.requests import RequestLog
from tritune.model.server import BatchStat, ServerWindow


@dataclass(frozen=True)
class CalibrationRun:
    """`window` covers the whole load, `parts` are shorter windows that follow each other within it (none: a
    run that did not read them). `warm_up`: batch statistics of executions before the window, by batch size.
    `concurrency`: requests in flight of a closed loop, 0 for an open one. `source` says in words where it
    comes from.
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
