"""Which field or value was meant: the same name elsewhere in the configuration, or a similar one."""

from __future__ import annotations

import difflib
import re
from functools import lru_cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor, EnumDescriptor

# What people write for a field whose name is not similar at all.
_ALSO_CALLED = {
    "batch_size": "max_batch_size",
    "dtype": "data_type",
    "type": "data_type",
    "datatype": "data_type",
    "shape": "dims",
    "inputs": "input",
    "outputs": "output",
    "instances": "instance_group",
    "instance_count": "count",
    "num_instances": "count",
    "gpu": "gpus",
    "device": "kind",
    "queue_size": "max_queue_size",
    "model_name": "name",
    "delay": "max_queue_delay_microseconds",
    "timeout": "default_timeout_microseconds",
    "timeout_microseconds": "default_timeout_microseconds",
}
_ALSO_CALLED_VALUES = {
    "FLOAT": "TYPE_FP32",
    "FLOAT16": "TYPE_FP16",
    "FLOAT32": "TYPE_FP32",
    "FLOAT64": "TYPE_FP64",
    "DOUBLE": "TYPE_FP64",
    "HALF": "TYPE_FP16",
    "INT": "TYPE_INT32",
    "LONG": "TYPE_INT64",
    "BYTES": "TYPE_STRING",
    "BFLOAT16": "TYPE_BF16",
}
_SIMILAR = 0.72  # difflib's ratio: high enough that a wrong suggestion is rare, low enough for two slips


def _plain(name: str) -> str:
    """snake_case in lower case, so that maxBatchSize and MAX_BATCH_SIZE are max_batch_size."""
    return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower().replace("-", "_")


@lru_cache(maxsize=4)
def paths_by_name(root: Descriptor) -> dict[str, tuple[tuple[str, ...], ...]]:
    """Every field name below `root` and the paths of blocks it may stand in, shortest first."""
    found: dict[str, list[tuple[str, ...]]] = {}

    def walk(message: Descriptor, path: tuple[str, ...], above: frozenset[str]) -> None:
        for field in message.fields:
            if not message.GetOptions().map_entry:
                found.setdefault(field.name, []).append(path)
            inner = field.message_type
            if inner is not None and inner.full_name not in above:
                walk(inner, (*path, field.name), above | {inner.full_name})

    walk(root, (), frozenset({root.full_name}))
    return {name: tuple(sorted(paths, key=len)) for name, paths in found.items()}


def also_called(name: str, owner: Descriptor) -> str | None:
    """The field of `owner` that other tools call `name`: shape is dims; None if there is none."""
    other = _ALSO_CALLED.get(_plain(name))
    return other if other in owner.fields_by_name else None


def field(name: str, owner: Descriptor) -> str | None:
    """The field of `owner` that `name` was meant for; None if nothing is near."""
    own = [each.name for each in owner.fields]
    plain = _plain(name)
    if plain in own:
        return plain
    begun = [each for each in own if len(plain) > 3 and each.startswith(plain)]
    close = difflib.get_close_matches(plain, own, n=1, cutoff=_SIMILAR)
    stem = re.sub(r"_(us|ms|ns|sec|seconds|millis|micros|milliseconds)$", "", plain)
    timed = [each for each in own if stem != plain and each == stem + "_microseconds"]
    return next(iter([*timed, *close, *begun]), None)


def elsewhere(name: str, root: Descriptor, here: tuple[str, ...]) -> tuple[str, tuple[tuple[str, ...], ...]]:
    """The name meant (`name` or a similar one) and where it may stand, nearest to `here` first.

    An empty tuple of paths: there is no such field anywhere.
    """
    everywhere = paths_by_name(root)
    plain = _plain(name)
    meant = plain if plain in everywhere else _ALSO_CALLED.get(plain, "")
    if meant not in everywhere:
        meant = next(iter(difflib.get_close_matches(plain, everywhere, n=1, cutoff=_SIMILAR)), "")

    def distance(path: tuple[str, ...]) -> tuple[int, int]:
        shared = 0
        while shared < min(len(path), len(here)) and path[shared] == here[shared]:
            shared += 1
        return (len(here) - shared + len(path) - shared, len(path))

    places = everywhere.get(meant, ())
    plain_places = [path for path in places if "value" not in path]  # a map's values only where nowhere else
    return meant or name, tuple(sorted(plain_places or places, key=distance))


def value(name: str, enum: EnumDescriptor) -> str | None:
    """The value of `enum` that `name` was meant for: FP32 is TYPE_FP32, cpu is KIND_CPU; None if none."""
    known = [each.name for each in enum.values]
    upper = name.upper()
    if upper in known:
        return upper
    for each in known:
        if each.endswith("_" + upper):
            return each
    prefix = known[0].split("_")[0] + "_"
    bare = upper.removeprefix(prefix)
    if (other := _ALSO_CALLED_VALUES.get(bare)) in known:
        return other
    # Without the shared prefix, or every TYPE_x would be similar to every other.
    bares = {each.removeprefix(prefix): each for each in known}
    close = difflib.get_close_matches(bare, bares, n=1, cutoff=_SIMILAR)
    return bares[close[0]] if close else None
