"""The settings whose queues bench_queue_parts.py splits, and the synthetic device that serves them."""

from __future__ import annotations

import json
from typing import Any

import msgspec

# S(b) = 8 + b ms, executions vary by 3 %.
MAX_BATCH, BASE_MS, PER_ITEM_MS, NOISE_CV = 8, 8.0, 1.0, 0.03
# Lazy dispatch: a limit that is never reached.
NO_LIMIT = 1_000_000


class Setting(msgspec.Struct, frozen=True):
    """`load`: share of what all instances answer with full batches."""

    delay_us: int
    instances: int
    contention: float
    lazy: bool
    load: float

    @property
    def rate_per_s(self) -> float:
        slowest_ms = (BASE_MS + PER_ITEM_MS * MAX_BATCH) * (1 + self.contention * (self.instances - 1))
        return round(self.load * self.instances * MAX_BATCH / slowest_ms * 1000)

    def __str__(self) -> str:
        return (
            f"delay {self.delay_us / 1000:g} ms, {self.instances} x, contention {self.contention:g}, "
            f"{'lazy' if self.lazy else 'eager'}, load {self.load:g}"
        )


SETTINGS = tuple(
    Setting(*row)
    for row in (
        (0, 1, 0, False, 0.2),
        (0, 1, 0, False, 0.6),
        (0, 1, 0, True, 0.5),
        (1000, 1, 0, False, 0.4),
        (5000, 1, 0, False, 0.7),
        (5000, 1, 0, True, 0.4),
        (20_000, 1, 0, False, 0.3),
        (20_000, 1, 0, True, 0.7),
        (5000, 2, 0.3, False, 0.5),
        (0, 2, 0.3, False, 0.85),
        (20_000, 2, 0, True, 0.2),
        (1000, 4, 0.3, False, 0.6),
        (0, 4, 0, True, 0.3),
        (5000, 4, 0, True, 0.3),
        (20_000, 4, 0.3, False, 0.4),
    )
)


def config_json(model: str, setting: Setting) -> str:
    batching: dict[str, Any] = {"max_queue_delay_microseconds": setting.delay_us}
    if setting.lazy:
        batching["default_queue_policy"] = {"max_queue_size": NO_LIMIT}
    device = {
        "base_ms": BASE_MS,
        "per_item_ms": PER_ITEM_MS,
        "noise_cv": NOISE_CV,
        "contention": setting.contention,
    }
    tensor = {"data_type": "TYPE_FP32", "dims": [4]}
    return json.dumps(
        {
            "name": model,
            "backend": "python",
            "max_batch_size": MAX_BATCH,
            "input": [{"name": "x", **tensor}],
            "output": [{"name": "y", **tensor}],
            "instance_group": [{"kind": "KIND_CPU", "count": setting.instances}],
            "dynamic_batching": batching,
            "parameters": {key: {"string_value": str(value)} for key, value in device.items()},
        }
    )
