"""Random configurations to play timelines with: every rule of the scheduler gets its turn."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np

from tritune.model.config import InstanceGroup, QueuePolicy, ServingConfig
from tritune.testing.timelines.repository import serving_config

# Arrivals of steered timelines lie on this grid; delays and timeouts longer than that end beside it.
GRID_MS = 6
DELAYS_MS = (0.5, 1, 2, 8, 14, 20, 26, 38)
TIMEOUTS_MS = (14, 20, 38, 80)
PREFERRED: tuple[tuple[int, ...], ...] = ((), (2,), (4,), (3, 6), (4, 8), (2, 4, 8))
# What the queue's policy is about, in turn; "eager" has none.
POLICIES = (
    "eager",
    "timeout",
    "eager",
    "levels",
    "full",
    "eager",
    "override",
    "limit",
    "eager",
    "level policies",
)
# One of so many families, an eager one, has no dynamic batcher at all.
_PLAIN = 20
_NEVER_FULL = 1_000
# One more than there are instances: what wakes the instances after a load must not be refused.
_LEAST_LIMIT = 4


class Family(msgspec.Struct, frozen=True):
    """A configuration, the instance counts that it is played with, and how many shapes requests have."""

    config: ServingConfig
    policy: str
    counts: tuple[int, ...]
    shapes: int = 1

    def with_instances(self, count: int) -> ServingConfig:
        """The configuration with so many instances; Triton changes the count in place."""
        group = (InstanceGroup(kind="KIND_CPU", count=count),)
        return msgspec.structs.replace(self.config, instance_group=group)


def random_family(number: int, random: np.random.Generator) -> Family:
    """A family whose queue policy is POLICIES[number] (in turn); all else is drawn."""
    policy = POLICIES[number % len(POLICIES)]
    largest = int(random.choice((0, 1, 4, 8), p=(0.06, 0.06, 0.3, 0.58)))
    shape = str(random.choice(("fixed", "checked", "ragged"), p=(0.6, 0.25, 0.15)))
    fitting = [sizes for sizes in PREFERRED if not sizes or sizes[-1] <= largest]
    delay_ms = float(random.choice(DELAYS_MS)) if random.random() < 0.7 else 0.0
    counts = sorted(random.choice((1, 2, 3), 2, replace=False).tolist())
    config = serving_config(
        delay_us=round(delay_ms * 1000),
        preferred=fitting[random.integers(len(fitting))],
        max_batch_size=largest,
        shape_checked=shape == "checked",
        ragged=shape == "ragged",
        dynamic=number % _PLAIN != _PLAIN - 2,
        **_policy(policy, random),
    )
    return Family(config, policy, tuple(counts), 1 if shape == "fixed" else int(random.integers(2, 4)))


def _policy(policy: str, random: np.random.Generator) -> dict[str, Any]:
    timeout_us = int(random.choice(TIMEOUTS_MS)) * 1000
    limit = int(random.integers(_LEAST_LIMIT, 7))
    levels = int(random.integers(2, 4))
    match policy:
        case "limit":
            return {"max_queue_size": _NEVER_FULL}
        case "full":
            return {"max_queue_size": limit}
        case "timeout":
            return {"default_timeout_us": timeout_us}
        case "override":
            return {"default_timeout_us": timeout_us, "allow_timeout_override": True}
        case "levels":
            return {"priority_levels": levels}
        case "level policies":
            own = QueuePolicy(
                max_queue_size=limit,
                default_timeout_microseconds=timeout_us,
                allow_timeout_override=bool(random.random() < 0.5),
            )
            level = int(random.integers(1, levels + 1))
            return {"priority_levels": levels, "level_policies": ((level, own),)}
    return {}


def describe(config: ServingConfig) -> str:
    """The configuration in one line."""
    block = config.dynamic_batching
    head = f"M={config.max_batch_size} N={config.instances}"
    if block is None:
        return f"{head} default scheduler"
    spec = config.input[0]
    words = [
        head,
        f"D={block.max_queue_delay_microseconds / 1000:g}ms",
        f"P={{{','.join(map(str, block.preferred_batch_size))}}}",
        *(["ragged"] if spec.allow_ragged_batch else ["shapes"] if -1 in spec.dims else []),
        *([f"levels={block.priority_levels}"] if block.priority_levels else []),
        *_words(block.default_queue_policy),
    ]
    for level, policy in block.priority_queue_policy:
        words += [f"level {level}:", *_words(policy)]
    return " ".join(words)


def _words(policy: QueuePolicy) -> list[str]:
    words = []
    if policy.max_queue_size:
        words.append(f"max_queue_size={policy.max_queue_size}")
    if policy.default_timeout_microseconds:
        words.append(f"timeout={policy.default_timeout_microseconds / 1000:g}ms")
    if policy.allow_timeout_override:
        words.append("override")
    return words
