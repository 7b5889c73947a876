"""A model's configuration as the scheduler sees it, and a change to it. Field names are Triton's own."""

from __future__ import annotations

from typing import Literal

import msgspec


class TensorSpec(msgspec.Struct, frozen=True):
    """One tensor; `dims` without the batch dimension, -1 = variable; `datatype` is FP32 for TYPE_FP32."""

    name: str
    datatype: str
    dims: tuple[int, ...]
    optional: bool = False
    allow_ragged_batch: bool = False
    is_shape_tensor: bool = False


class QueuePolicy(msgspec.Struct, frozen=True):
    """default_queue_policy; any value but the defaults (timeout_action apart) means lazy dispatch."""

    timeout_action: str = "REJECT"
    default_timeout_microseconds: int = 0
    allow_timeout_override: bool = False
    max_queue_size: int = 0


class DynamicBatching(msgspec.Struct, frozen=True):
    """The dynamic_batching block. `preferred_batch_size` is empty where the file gives none."""

    preferred_batch_size: tuple[int, ...] = ()
    max_queue_delay_microseconds: int = 0
    preserve_ordering: bool = False
    priority_levels: int = 0
    default_queue_policy: QueuePolicy = QueuePolicy()
    default_priority_level: int = 0
    priority_queue_policy: tuple[tuple[int, QueuePolicy], ...] = ()


class InstanceGroup(msgspec.Struct, frozen=True):
    """One instance_group entry; `count` is per GPU where `gpus` are named.

    `rate_limited`: it names resources or a priority, which a server with --rate-limit arbitrates.
    """

    name: str = ""
    kind: str = "KIND_AUTO"
    count: int = 1
    gpus: tuple[int, ...] = ()
    passive: bool = False
    rate_limited: bool = False

    @property
    def instances(self) -> int:
        """How many instances this group really makes."""
        return 0 if self.passive else self.count * max(1, len(self.gpus))


class EnsembleStep(msgspec.Struct, frozen=True):
    """One step of an ensemble: a model, and the ensemble's tensors that it takes and makes.

    `version` -1: the latest one that is served. The names are the values of input_map and output_map.
    """

    model: str
    version: int = -1
    inputs: tuple[str, ...] = ()
    outputs: tuple[str, ...] = ()


class ServingConfig(msgspec.Struct, frozen=True):
    """What decides how requests wait, merge and run; the rest of the configuration is left out.

    `ensemble_steps` names the models of `ensemble`, in its order; `ensemble_in_flight`: how many requests
    each of them may hold before the one before it blocks (max_inflight_requests), 0 = no limit.
    """

    name: str
    backend: str = ""
    platform: str = ""
    max_batch_size: int = 0
    dynamic_batching: DynamicBatching | None = None
    instance_group: tuple[InstanceGroup, ...] = ()
    input: tuple[TensorSpec, ...] = ()
    output: tuple[TensorSpec, ...] = ()
    sequence_batching: bool = False
    ensemble_steps: tuple[str, ...] = ()
    ensemble: tuple[EnsembleStep, ...] = ()
    decoupled: bool = False
    response_cache: bool = False
    ensemble_in_flight: int = 0

    @property
    def instances(self) -> int:
        """Instances that execute requests, at least 1."""
        return max(1, sum(group.instances for group in self.instance_group))

    @property
    def preferred(self) -> tuple[int, ...]:
        """The preferred sizes that Triton runs with: {max_batch_size} where the block names none."""
        if self.dynamic_batching is None or self.max_batch_size <= 0:
            return ()
        return self.dynamic_batching.preferred_batch_size or (self.max_batch_size,)


Value = int | tuple[int, ...] | Literal["{}"] | None


class Setting(msgspec.Struct, frozen=True):
    """One field and its new value: None removes the field, "{}" makes an empty block.

    `path` is one of SIMULATED_PATHS; true and false are 1 and 0. `instance_group.count` means the count of
    the only instance group.
    """

    path: str
    value: Value

    def __str__(self) -> str:
        if self.value is None:
            return f"{self.path}: removed"
        shown = f"[ {', '.join(map(str, self.value))} ]" if isinstance(self.value, tuple) else self.value
        return f"{self.path}: {shown}"


PATHS = (
    "max_batch_size",
    "dynamic_batching",
    "dynamic_batching.preferred_batch_size",
    "dynamic_batching.max_queue_delay_microseconds",
    "instance_group.count",
)
# What a simulation can set beside those that a tuning tries.
SIMULATED_PATHS = (
    *PATHS,
    "dynamic_batching.priority_levels",
    "dynamic_batching.default_priority_level",
    "dynamic_batching.preserve_ordering",
    "dynamic_batching.default_queue_policy.max_queue_size",
    "dynamic_batching.default_queue_policy.default_timeout_microseconds",
    "dynamic_batching.default_queue_policy.allow_timeout_override",
)


class Change(msgspec.Struct, frozen=True):
    """One declared move: usually one field, at most what must move together."""

    settings: tuple[Setting, ...]

    def __str__(self) -> str:
        return ", ".join(str(setting) for setting in self.settings)
