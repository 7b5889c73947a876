"""The part of a configuration that decides how requests wait, merge and run."""

from __future__ import annotations

from typing import Any

from tritune.model.config import (
    DynamicBatching,
    EnsembleStep,
    InstanceGroup,
    QueuePolicy,
    ServingConfig,
    TensorSpec,
)


def view(message: Any) -> ServingConfig:
    """The nouns of `tritune.model.config` for an inference.ModelConfig.

    A missing count is 1, as Triton fills it in; TYPE_STRING is BYTES, as in a model's metadata.
    """
    return ServingConfig(
        name=message.name,
        backend=message.backend,
        platform=message.platform,
        max_batch_size=message.max_batch_size,
        dynamic_batching=_batching(message.dynamic_batching)
        if message.HasField("dynamic_batching")
        else None,
        instance_group=tuple(_group(group) for group in message.instance_group),
        input=tuple(_tensor(tensor) for tensor in message.input),
        output=tuple(_tensor(tensor) for tensor in message.output),
        sequence_batching=message.HasField("sequence_batching"),
        ensemble_steps=tuple(step.model_name for step in message.ensemble_scheduling.step),
        ensemble=tuple(_step(step) for step in message.ensemble_scheduling.step),
        decoupled=message.model_transaction_policy.decoupled,
        response_cache=message.response_cache.enable,
        ensemble_in_flight=getattr(message.ensemble_scheduling, "max_inflight_requests", 0),
    )


def _name(message: Any, field: str) -> str:
    """An enum's value by name, or its number where this tritune has no name for it."""
    number = getattr(message, field)
    known = message.DESCRIPTOR.fields_by_name[field].enum_type.values_by_number.get(number)
    return known.name if known is not None else str(number)


def _step(step: Any) -> EnsembleStep:
    return EnsembleStep(
        model=step.model_name,
        version=step.model_version,
        inputs=tuple(sorted(set(step.input_map.values()))),
        outputs=tuple(sorted(set(step.output_map.values()))),
    )


def _tensor(tensor: Any) -> TensorSpec:
    bare = _name(tensor, "data_type").removeprefix("TYPE_")
    return TensorSpec(
        name=tensor.name,
        datatype="BYTES" if bare == "STRING" else bare,
        dims=tuple(tensor.dims),
        optional=getattr(tensor, "optional", False),
        allow_ragged_batch=getattr(tensor, "allow_ragged_batch", False),
        is_shape_tensor=tensor.is_shape_tensor,
    )


def _batching(block: Any) -> DynamicBatching:
    return DynamicBatching(
        preferred_batch_size=tuple(block.preferred_batch_size),
        max_queue_delay_microseconds=block.max_queue_delay_microseconds,
        preserve_ordering=block.preserve_ordering,
        priority_levels=block.priority_levels,
        default_queue_policy=_policy(block.default_queue_policy),
        default_priority_level=block.default_priority_level,
        priority_queue_policy=tuple(
            (level, _policy(policy)) for level, policy in sorted(block.priority_queue_policy.items())
        ),
    )


def _policy(policy: Any) -> QueuePolicy:
    return QueuePolicy(
        timeout_action=_name(policy, "timeout_action"),
        default_timeout_microseconds=policy.default_timeout_microseconds,
        allow_timeout_override=policy.allow_timeout_override,
        max_queue_size=policy.max_queue_size,
    )


def _group(group: Any) -> InstanceGroup:
    return InstanceGroup(
        name=group.name,
        kind=_name(group, "kind"),
        count=group.count or 1,
        gpus=tuple(group.gpus),
        passive=group.passive,
        rate_limited=bool(group.rate_limiter.resources or group.rate_limiter.priority),
    )
