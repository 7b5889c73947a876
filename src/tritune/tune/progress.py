"""A change as it is shown and as it adds up: field by field, old and new."""

from __future__ import annotations

from collections.abc import Sequence

from tritune.model.config import Change, ServingConfig, Setting, Value


def edits(change: Change, before: ServingConfig, after: ServingConfig) -> tuple[str, ...]:
    """`field: old -> new`, one line per field, in Triton's names."""
    return tuple(f"{s.path}: {_show(s.path, before)} -> {_show(s.path, after)}" for s in change.settings)


def _show(path: str, config: ServingConfig) -> str:
    value = current(path, config)
    if value is None:
        return "(none)"
    return f"[ {', '.join(map(str, value))} ]" if isinstance(value, tuple) else str(value)


def current(path: str, config: ServingConfig) -> Value:
    """The value of a field of PATHS as the file would say it; None where it is not there or the default."""
    block = config.dynamic_batching
    if path == "max_batch_size":
        return config.max_batch_size
    if path == "instance_group.count":
        return config.instance_group[0].count if config.instance_group else 1
    if block is None:
        return None
    if path == "dynamic_batching":
        return "{}"
    if path.endswith("preferred_batch_size"):
        auto = (config.max_batch_size,)
        return None if block.preferred_batch_size in ((), auto) else block.preferred_batch_size
    return block.max_queue_delay_microseconds or None


def combined(kept: Sequence[Change]) -> Change:
    """The kept moves as one change: the last value of each field counts."""
    last: dict[str, Setting] = {}
    for change in kept:
        for setting in change.settings:
            if setting.path == "dynamic_batching":
                last = {p: s for p, s in last.items() if not p.startswith("dynamic_batching")}
            last[setting.path] = setting
    return Change(tuple(last.values()))
