"""The measured cells of a tuning, in the order of the report."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tritune.model.config import Change, InstanceGroup, ServingConfig
from tritune.model.measurement import Measurement
from tritune.tune.result import TuneResult


class Cell(msgspec.Struct, frozen=True):
    """One measurement of one setting. `number` is its row in every table and chart of the report.

    `outcome`: before, after, or the outcome of its step. `label` has one line per edited field. `config`
    is right in what decides the capacity (instances, max_batch_size).
    """

    number: int
    outcome: str
    label: tuple[str, ...]
    measurement: Measurement
    config: ServingConfig


def cells(result: TuneResult) -> tuple[Cell, ...]:
    """The baseline's repeats, every measured step in order, and what else confirmed the final setting."""
    found: list[Cell] = []

    def add(
        outcome: str, label: Sequence[str], repeats: Sequence[Measurement], config: ServingConfig
    ) -> None:
        for repeat, measurement in enumerate(repeats):
            lines = ("the same again",) if repeat else tuple(label)
            found.append(Cell(len(found) + 1, outcome, lines, measurement, config))

    best = result.config_before
    add("before", ("as found",), result.before, best)
    for step in result.steps:
        config = _with(step.change, best)
        add(step.outcome, [_short(e) for e in step.edits] or [step.stage], step.measurements, config)
        best = config if step.outcome == "kept" else best
    known = [cell.measurement for cell in found]
    add("after", ("as left",), [m for m in result.after if m not in known], result.config_after)
    return tuple(found)


def _short(edit: str) -> str:
    return edit.removeprefix("dynamic_batching.")


def _with(change: Change, config: ServingConfig) -> ServingConfig:
    """The setting of a step as far as the capacity depends on it."""
    for setting in change.settings:
        if not isinstance(setting.value, int):
            continue
        if setting.path == "max_batch_size":
            config = msgspec.structs.replace(config, max_batch_size=setting.value)
        if setting.path == "instance_group.count":
            group = config.instance_group[0] if config.instance_group else InstanceGroup()
            one = msgspec.structs.replace(group, count=setting.value)
            config = msgspec.structs.replace(config, instance_group=(one,))
    return config
