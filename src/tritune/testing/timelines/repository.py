"""The repository and the configurations that timelines are played with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tritune.model.config import DynamicBatching, InstanceGroup, QueuePolicy, ServingConfig, TensorSpec

MODEL = "timed"
MAX_BATCH_SIZE = 8


def serving_config(
    *,
    delay_us: int = 0,
    preferred: tuple[int, ...] = (),
    instances: int = 1,
    max_queue_size: int = 0,
    priority_levels: int = 0,
    default_timeout_us: int = 0,
    allow_timeout_override: bool = False,
    level_policies: tuple[tuple[int, QueuePolicy], ...] = (),
    max_batch_size: int = MAX_BATCH_SIZE,
    shape_checked: bool = False,
    ragged: bool = False,
    dynamic: bool = True,
) -> ServingConfig:
    """A configuration of the model MODEL; the default priority level is the lowest one.

    With `shape_checked` or `ragged` its input has a variable dimension. Without a batch dimension
    (max_batch_size 0) the input keeps the two dimensions that requests are sent with.
    """
    batching = DynamicBatching(
        preferred_batch_size=preferred,
        max_queue_delay_microseconds=delay_us,
        priority_levels=priority_levels,
        default_priority_level=priority_levels,
        default_queue_policy=QueuePolicy(
            max_queue_size=max_queue_size,
            default_timeout_microseconds=default_timeout_us,
            allow_timeout_override=allow_timeout_override,
        ),
        priority_queue_policy=level_policies,
    )
    rows = () if max_batch_size else (1,)
    width = -1 if shape_checked or ragged else 1
    return ServingConfig(
        name=MODEL,
        backend="python",
        max_batch_size=max_batch_size,
        dynamic_batching=batching if dynamic else None,
        instance_group=(InstanceGroup(kind="KIND_CPU", count=instances),),
        input=(TensorSpec("x", "FP32", (*rows, width), allow_ragged_batch=ragged),),
        output=(TensorSpec("y", "FP32", (*rows, 1)),),
    )


def config_json(config: ServingConfig, load: int = 0) -> str:
    """The complete ModelConfig for a load; another number `load` makes it another one, loaded in full."""
    whole: dict[str, Any] = {
        "name": config.name,
        "backend": config.backend,
        "max_batch_size": config.max_batch_size,
        "input": [_input(spec) for spec in config.input],
        "output": [_tensor(spec) for spec in config.output],
        "instance_group": [{"kind": group.kind, "count": group.count} for group in config.instance_group],
        "parameters": {"load": {"string_value": str(load)}},
    }
    if (block := config.dynamic_batching) is not None:
        whole["dynamic_batching"] = {
            "preferred_batch_size": list(block.preferred_batch_size),
            "max_queue_delay_microseconds": block.max_queue_delay_microseconds,
            "priority_levels": block.priority_levels,
            "default_priority_level": block.default_priority_level,
            "default_queue_policy": _policy(block.default_queue_policy),
            "priority_queue_policy": {
                str(level): _policy(policy) for level, policy in block.priority_queue_policy
            },
        }
    return json.dumps(whole)


def write_repository(folder: Path) -> Path:
    """folder/models with the model MODEL, one instance and an empty dynamic_batching block."""
    repository = folder / "models"
    version = repository / MODEL / "1"
    version.mkdir(parents=True)
    source = Path(__file__).with_name("timed_model.py")
    (version / "model.py").write_bytes(source.read_bytes())
    # JSON is not pbtxt: the file says as little as is needed, the load brings the rest.
    (repository / MODEL / "config.pbtxt").write_text(
        f'name: "{MODEL}"\nbackend: "python"\nmax_batch_size: {MAX_BATCH_SIZE}\n'
        'input [ { name: "x" data_type: TYPE_FP32 dims: [ 1 ] } ]\n'
        'output [ { name: "y" data_type: TYPE_FP32 dims: [ 1 ] } ]\n'
        "instance_group [ { kind: KIND_CPU count: 1 } ]\ndynamic_batching { }\n"
    )
    return repository


def _tensor(spec: TensorSpec) -> dict[str, Any]:
    return {"name": spec.name, "data_type": f"TYPE_{spec.datatype}", "dims": list(spec.dims)}


def _input(spec: TensorSpec) -> dict[str, Any]:
    return _tensor(spec) | {"allow_ragged_batch": spec.allow_ragged_batch}


def _policy(policy: QueuePolicy) -> dict[str, Any]:
    return {
        "max_queue_size": policy.max_queue_size,
        "default_timeout_microseconds": policy.default_timeout_microseconds,
        "allow_timeout_override": policy.allow_timeout_override,
    }
