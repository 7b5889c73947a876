"""The settings and rates that bench-fidelity asks about, drawn beforehand."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import numpy as np

from tritune.model.workload import Bursts
from tritune.units import NS_PER_MS

# One synthetic device per contention: S(b) = 16 + 2 b ms, executions vary by 3 %.
CONTENTIONS = (0.0, 0.3, 0.7)
BASE_MS, PER_ITEM_MS, NOISE_CV, MAX_BATCH = 16.0, 2.0, 0.03, 16
DELAYS_US = (0, 500, 2000, 5000, 20_000)
PREFERRED: tuple[tuple[int, ...], ...] = ((), (8,), (4, 8), (4, 8, 16))
INSTANCES = (1, 1, 2, 2, 3, 4)
LOADS = (0.2, 0.9)
BURSTS = Bursts(ratio=4, dwell_ns=300 * NS_PER_MS, duty=0.25)
# Lazy dispatch: a queue limit that is never reached.
NO_LIMIT = 1_000_000


class Point(msgspec.Struct, frozen=True):
    """One question: a setting, a share of its capacity, a pattern of arrivals; `seed` draws the plan."""

    contention: float
    instances: int
    delay_us: int
    preferred: tuple[int, ...]
    lazy: bool
    load: float
    on_off: bool
    seed: int

    @property
    def rate_per_s(self) -> float:
        """`load` times the items/s with every instance busy on the largest batch it takes."""
        largest = max(self.preferred) if self.preferred and not self.delay_us else MAX_BATCH
        return float(round(self.load * capacity(self.contention, self.instances, largest)))

    def __str__(self) -> str:
        sizes = ",".join(map(str, self.preferred)) or "none"
        return (
            f"contention {self.contention:g}, {self.instances} x, delay {self.delay_us} us, "
            f"preferred {sizes}, "
            f"{'lazy' if self.lazy else 'eager'}, {'on/off' if self.on_off else 'Poisson'}, "
            f"load {self.load:.2f} = {self.rate_per_s:g}/s"
        )


def capacity(contention: float, instances: int, largest: int = MAX_BATCH) -> float:
    """Items/s with every instance busy on batches of `largest`."""
    batch_ms = (BASE_MS + PER_ITEM_MS * largest) * (1 + contention * (instances - 1))
    return instances * largest / batch_ms * 1000


def points(each: int = 12, seed: int = 20261130) -> list[Point]:
    """`each` points per device. Every value of a field comes equally often; the pairing is drawn."""
    found = []
    for number, contention in enumerate(CONTENTIONS):
        draw = np.random.Generator(np.random.PCG64([seed, number]))

        def spread(values: Any, draw: np.random.Generator = draw) -> list[Any]:
            return [values[i % len(values)] for i in draw.permutation(each)]

        loads = np.linspace(*LOADS, each)
        columns = zip(
            spread(INSTANCES),
            spread(DELAYS_US),
            spread(PREFERRED),
            spread((False, False, True)),
            draw.permutation(loads),
            spread((False, False, True)),
            strict=True,
        )
        for place, (instances, delay_us, preferred, lazy, load, on_off) in enumerate(columns):
            plan_seed = 1000 * (number + 1) + place
            found.append(
                Point(
                    contention, instances, delay_us, preferred, lazy, round(float(load), 3), on_off, plan_seed
                )
            )
    return found


def model_name(contention: float) -> str:
    """The model of the device with this contention."""
    return f"device{round(contention * 10)}"


def config_json(
    contention: float,
    *,
    instances: int = 1,
    delay_us: int = 0,
    preferred: tuple[int, ...] = (),
    lazy: bool = False,
) -> str:
    """The complete ModelConfig for a load."""
    parameters = {
        "base_ms": BASE_MS,
        "per_item_ms": PER_ITEM_MS,
        "noise_cv": NOISE_CV,
        "contention": contention,
        "device": f"fidelity{round(contention * 10)}",
    }
    batching: dict[str, Any] = {
        "preferred_batch_size": list(preferred),
        "max_queue_delay_microseconds": delay_us,
    }
    if lazy:
        batching["default_queue_policy"] = {"max_queue_size": NO_LIMIT}
    tensor = {"data_type": "TYPE_FP32", "dims": [4]}
    return json.dumps(
        {
            "name": model_name(contention),
            "backend": "python",
            "max_batch_size": MAX_BATCH,
            "input": [{"name": "x", **tensor}],
            "output": [{"name": "y", **tensor}],
            "instance_group": [{"kind": "KIND_CPU", "count": instances}],
            "dynamic_batching": batching,
            "parameters": {key: {"string_value": str(value)} for key, value in parameters.items()},
        }
    )
