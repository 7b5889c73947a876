"""The story of a tuning: what was tried, what it did, what was kept, and why."""

from __future__ import annotations

from typing import Literal

import msgspec

from tritune.diagnose.result import Diagnosis
from tritune.model.config import Change, ServingConfig
from tritune.model.measurement import Comparison, Measurement
from tritune.model.slo import Slo
from tritune.model.workload import Workload

Outcome = Literal["kept", "undone", "aborted", "failed", "not tried"]
Status = Literal["met", "not met", "already met", "advice", "undecided", "cut"]


class StepResult(msgspec.Struct, frozen=True):
    """One declared move. `edits` are lines like `max_queue_delay_microseconds: 100000 -> 500`."""

    stage: str
    change: Change
    edits: tuple[str, ...]
    reason: str
    outcome: Outcome
    why: str
    comparison: Comparison | None = None
    measurements: tuple[Measurement, ...] = ()


class TuneResult(msgspec.Struct, frozen=True, kw_only=True):
    """Everything that a report needs. `diff` is the unified diff of config.pbtxt, may be empty.

    `before_whole` and `after_whole` are the cells of each together: what the SLO is judged by. `cut` says why
    a tuning with the status "cut" ended early.
    """

    status: Status
    url: str
    server_version: str
    model: str
    version: str
    workload: Workload
    slo: Slo
    before: tuple[Measurement, ...]
    after: tuple[Measurement, ...]
    before_whole: Measurement
    after_whole: Measurement | None
    config_before: ServingConfig
    config_after: ServingConfig
    change: Change
    diff: str
    diagnosis: Diagnosis | None
    steps: tuple[StepResult, ...]
    reloads: int
    cut: str = ""
    next_commands: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()
    views: tuple[View, ...] = ()


class View(msgspec.Struct, frozen=True):
    """An independent witness of before and after: its name, what it measures, p99 in ns (None = not had)."""

    name: str
    what: str
    before_p99_ns: float | None
    after_p99_ns: float | None
