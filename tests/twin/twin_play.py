"""Short ways to play small timelines; both by the compiled and by the interpreted rules, which must agree."""

from __future__ import annotations

from dataclasses import fields

import numpy as np

from tritune.model.config import DynamicBatching, InstanceGroup, QueuePolicy, ServingConfig, TensorSpec
from tritune.twin.engine.setting import Setting, setting_of
from tritune.twin.engine.simulate import Load, Requests, Simulated, simulate
from tritune.twin.engine.timing import Timing

MS = 1_000_000
LAZY = QueuePolicy(max_queue_size=100)


def config(
    delay_ms: float = 0,
    preferred: tuple[int, ...] = (),
    policy: QueuePolicy = QueuePolicy(),  # noqa: B008 - frozen
    *,
    largest: int = 8,
    instances: int = 1,
    dims: int = 1,
    ragged: bool = False,
    dynamic: bool = True,
    **block: object,
) -> ServingConfig:
    return ServingConfig(
        name="m",
        max_batch_size=largest,
        dynamic_batching=DynamicBatching(
            preferred_batch_size=preferred,
            max_queue_delay_microseconds=round(delay_ms * 1000),
            default_queue_policy=policy,
            **block,  # type: ignore[arg-type]
        )
        if dynamic
        else None,
        instance_group=(InstanceGroup(count=instances),),
        input=(TensorSpec("INPUT", "FP32", (dims,), allow_ragged_batch=ragged),),
    )


def ms(times: object) -> np.ndarray:
    return np.rint(np.asarray(times, float) * MS).astype(np.int64)


def even(service_ms: float, largest: int = 8) -> Timing:
    """Every batch takes the same time."""
    return Timing((service_ms * MS,) * (largest + 1))


def play(setting: Setting | ServingConfig, load: Load, timing: Timing, **more: object) -> Simulated:
    """What the compiled rules do, after making sure that the interpreted ones do the same."""
    if isinstance(setting, ServingConfig):
        setting = setting_of(setting)
    compiled = simulate(setting, load, timing, **more)  # type: ignore[arg-type]
    interpreted = simulate(setting, load, timing, interpreted=True, **more)  # type: ignore[arg-type]
    assert_same(compiled, interpreted)
    return compiled


def assert_same(one: Simulated, other: Simulated) -> None:
    for column in fields(one):
        np.testing.assert_array_equal(
            getattr(one, column.name), getattr(other, column.name), err_msg=column.name
        )


# A busy instance: the first execution takes 300 ms, all later ones 5 ms.
BUSY_MS = 300


def behind_busy(setting: Setting | ServingConfig, times_ms: object, **columns: object) -> Simulated:
    """Requests that arrive while request 0, sent at 0, runs for 300 ms."""
    times = np.concatenate([[0], np.asarray(times_ms, float)])
    for name, values in columns.items():
        columns[name] = np.concatenate(
            [[1 if name == "items" else 0], np.broadcast_to(values, len(times) - 1)]
        )
    return play(
        setting,
        Requests(ms(times), **columns),
        even(5),
        batch_ends_ns=ms([BUSY_MS]),  # type: ignore[arg-type]
    )


def sizes(simulated: Simulated, skip: int = 0) -> list[int]:
    return simulated.batch_items[skip:].tolist()
