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
    shape_checked: bool = False,
    dynamic: bool = True,
) -> ServingConfig:
    """A configuration of the model MODEL; with `shape_checked` its input has a variable dimension."""
    batching = DynamicBatching(
        preferred_batch_size=preferred,
        max_queue_delay_microseconds=delay_us,
        priority_levels=priority_levels,
        default_queue_policy=QueuePolicy(
            max_queue_size=max_queue_size, default_timeout_microseconds=default_timeout_us
        ),
    )
    return ServingConfig(
        name=MODEL,
        backend="python",
        max_batch_size=MAX_BATCH_SIZE,
        dynamic_batching=batching if dynamic else None,
        instance_group=(InstanceGroup(kind="KIND_CPU", count=instances),),
        input=(TensorSpec("x", "FP32", (-1 if shape_checked else 1,)),),
        output=(TensorSpec("y", "FP32", (1,)),),
    )


def config_json(config: ServingConfig) -> str:
    """The complete ModelConfig for a load; the default priority level is the lowest one."""
    whole: dict[str, Any] = {
        "name": config.name,
        "backend": config.backend,
        "max_batch_size": config.max_batch_size,
        "input": [_tensor(spec) for spec in config.input],
        "output": [_tensor(spec) for spec in config.output],
        "instance_group": [{"kind": group.kind, "count": group.count} for group in config.instance_group],
    }
    if (block := config.dynamic_batching) is not None:
        policy = block.default_queue_policy
        whole["dynamic_batching"] = {
            "preferred_batch_size": list(block.preferred_batch_size),
            "max_queue_delay_microseconds": block.max_queue_delay_microseconds,
            "priority_levels": block.priority_levels,
            "default_priority_level": block.priority_levels,
            "default_queue_policy": {
                "max_queue_size": policy.max_queue_size,
                "default_timeout_microseconds": policy.default_timeout_microseconds,
                "allow_timeout_override": policy.allow_timeout_override,
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
