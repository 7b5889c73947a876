"""A declared change applied to a configuration: what an edited file and an override must both amount to."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from tritune.errors import TrituneError
from tritune.model.config import SIMULATED_PATHS, Change, Setting

# Triton's fields are narrower than Python's integers: the lowest and highest value of each path.
_RANGES = {
    "max_batch_size": (0, 2**31 - 1),
    "dynamic_batching.preferred_batch_size": (1, 2**31 - 1),
    "dynamic_batching.max_queue_delay_microseconds": (0, 2**64 - 1),
    "instance_group.count": (1, 2**31 - 1),
    "dynamic_batching.priority_levels": (0, 2**64 - 1),
    "dynamic_batching.default_priority_level": (0, 2**64 - 1),
    "dynamic_batching.preserve_ordering": (0, 1),
    "dynamic_batching.default_queue_policy.max_queue_size": (0, 2**32 - 1),
    "dynamic_batching.default_queue_policy.default_timeout_microseconds": (0, 2**64 - 1),
    "dynamic_batching.default_queue_policy.allow_timeout_override": (0, 1),
}


def apply(change: Change, message: Any) -> Any:
    """A new message with `change` applied; `message` stays as it is.

    Raises TrituneError "several-instance-groups" where instance_group.count has no single meaning,
    "other-scheduler" where dynamic_batching would silently replace the model's scheduler, and
    "bad-setting" for a path or value that is none.
    """
    result = type(message)()
    result.CopyFrom(message)
    for setting in all_settings(change, message):
        _set(result, setting)
    return result


def all_settings(change: Change, message: Any) -> tuple[Setting, ...]:
    """The settings of `change`, with the auto-filled preferred size dropped before max_batch_size changes.

    Triton fills preferred_batch_size with max_batch_size where the block names none, and refuses a
    preferred size above the maximum (semantics 5; safety rule 2). So exactly {old maximum} goes; sizes
    that somebody chose stay.
    """
    maximum = message.max_batch_size
    new = [setting.value for setting in change.settings if setting.path == "max_batch_size"]
    filled = list(message.dynamic_batching.preferred_batch_size) == [maximum]
    if new and (new[-1] or 0) != maximum and filled:
        return (Setting("dynamic_batching.preferred_batch_size", None), *change.settings)
    return change.settings


def pin_versions(message: Any, versions: Iterable[str | int]) -> Any:
    """A new message whose version_policy serves exactly `versions`, in ascending order."""
    result = type(message)()
    result.CopyFrom(message)
    numbers = sorted({int(version) for version in versions})
    if not numbers:
        raise TrituneError(
            "no version of the model is served, so none can be pinned",
            slug="no-version-to-pin",
            hint="Load the model first.",
        )
    result.version_policy.specific.versions[:] = numbers
    return result


def _set(message: Any, setting: Setting) -> None:
    path, value = setting.path, setting.value
    _validate(setting)
    if path.startswith("dynamic_batching"):
        _set_batching(message, path, value)
    elif path == "instance_group.count":
        _set_count(message, value)
    elif value is None:
        message.ClearField(path)
    else:
        setattr(message, path, value)


def _set_batching(message: Any, path: str, value: Any) -> None:
    scheduler = message.WhichOneof("scheduling_choice")
    if value is not None and scheduler not in (None, "dynamic_batching"):
        raise TrituneError(
            f"the model is scheduled by {scheduler}, so it cannot have dynamic_batching",
            slug="other-scheduler",
            hint=f"Remove {scheduler} first, if that is what you want.",
        )
    if path == "dynamic_batching":
        message.ClearField("dynamic_batching")
        if value == "{}":
            message.dynamic_batching.SetInParent()
        return
    *within, field = path.removeprefix("dynamic_batching.").split(".")
    if value is None and scheduler != "dynamic_batching":
        return
    block = message.dynamic_batching
    for name in within:
        block = getattr(block, name)
    if value is None:
        block.ClearField(field)
        return
    block.SetInParent()
    if isinstance(value, tuple):
        block.preferred_batch_size[:] = value
    else:
        setattr(block, field, value)


def _set_count(message: Any, value: Any) -> None:
    groups = message.instance_group
    if len(groups) > 1:
        raise TrituneError(
            f"the model has {len(groups)} instance groups, so 'instance_group.count' names none of them",
            slug="several-instance-groups",
            hint="Change the count of one group by hand.",
        )
    if value is None:
        if groups:
            groups[0].ClearField("count")
    else:
        (groups[0] if groups else groups.add()).count = value


def _validate(setting: Setting) -> None:
    path, value = setting.path, setting.value
    if path in SIMULATED_PATHS and value is None:
        return
    if path == "dynamic_batching":
        fits = value == "{}"
    elif path in _RANGES:
        low, high = _RANGES[path]
        values = value if isinstance(value, tuple) else (value,)
        fits = isinstance(value, tuple) == path.endswith("preferred_batch_size") and all(
            isinstance(each, int) and low <= each <= high for each in values
        )
    else:
        fits = False
    if not fits:
        raise TrituneError(
            f"'{setting}' is not a setting that can be changed",
            slug="bad-setting",
            hint=f"These can: {', '.join(SIMULATED_PATHS)}.",
        )
