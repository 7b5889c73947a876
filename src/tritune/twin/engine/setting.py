"""What Triton will do with a configuration: the part of it, and of the release, that decides scheduling."""

from __future__ import annotations

import re

import msgspec
import numpy as np

from tritune.errors import TrituneError, UsageError
from tritune.model.config import DynamicBatching, QueuePolicy, ServingConfig
from tritune.twin.engine.state import NEVER, Rules

# The newest release whose batching source was compared (core 73aad7c); later ones are taken to be alike.
READ_UP_TO = (26, 6)
# GetDynamicBatch, open payloads and the dequeue merge were compared from r22.04 on (triton-semantics 6).
OLDEST = (22, 4)
# HasEqualInputs when payloads are merged since 22.09; before, payloads of two shapes could meet.
EQUAL_INPUTS_MERGE = (22, 9)
# 66c61d2: queue policies switch prefetching off. Before, dispatch is always eager.
LAZY = (23, 8)
CANCELLATION = (23, 10)
# 935878a: the queue's lock is no longer held while the batcher waits for a slot.
UNLOCKED = (23, 12)
# 9f1fad2: the 500 ms tick that refuses expired requests, and with it the lost wake-up.
TICKS = (24, 3)


class Policy(msgspec.Struct, frozen=True):
    """What one priority level allows; 0 = no timeout, no limit. Only REJECT is known."""

    max_queue_size: int = 0
    default_timeout_ns: int = 0
    allow_timeout_override: bool = False


class Setting(msgspec.Struct, frozen=True):
    """One way of serving one model, as the twin plays it. Times in ns.

    `dynamic` false: the default scheduler. `preferred` are the sizes Triton runs with, filled in.
    `policies` holds one entry without priority levels, else one for each level from 1 on. `eager`: R is
    filled ahead. `ticks`: the 500 ms check, and lost wake-ups. `shapes_enforced` and `inputs_compared`:
    what makes two requests unfit for one batch (their shape class).
    """

    instances: int = 1
    max_batch_size: int = 0
    dynamic: bool = False
    preferred: tuple[int, ...] = ()
    delay_ns: int = 0
    eager: bool = True
    priority_levels: int = 0
    default_priority_level: int = 0
    policies: tuple[Policy, ...] = (Policy(),)
    shapes_enforced: bool = False
    inputs_compared: bool = False
    ticks: bool = True
    cancels: bool = True

    @property
    def largest(self) -> int:
        """The largest batch in items; a request may not hold more."""
        return max(1, self.max_batch_size)


def setting_of(config: ServingConfig, version: str = "") -> Setting:
    """The Setting that a Triton of this version makes of a configuration.

    `version` is a release ("24.10") or the server's own number ("2.51.0"); empty: as the newest.
    Raises TrituneError (twin-unsupported) for what the twin does not play, UsageError (bad-version).
    """
    release = release_of(version)
    block = config.dynamic_batching
    _refuse(config, block, release)
    compared, enforced = _inputs(config, block)
    common = {
        "instances": config.instances,
        "max_batch_size": config.max_batch_size,
        "ticks": release >= TICKS,
        "cancels": release >= CANCELLATION,
    }
    if block is None:
        return Setting(**common)  # type: ignore[arg-type]
    return Setting(
        **common,  # type: ignore[arg-type]
        dynamic=True,
        preferred=tuple(sorted(set(config.preferred))),
        delay_ns=min(block.max_queue_delay_microseconds * 1000, NEVER // 2),
        eager=release < LAZY or not _has_policy(block),
        priority_levels=block.priority_levels,
        default_priority_level=block.default_priority_level,
        policies=_policies(block),
        shapes_enforced=enforced,
        inputs_compared=compared,
    )


def release_of(version: str) -> tuple[int, int]:
    """(year, month) of a release such as "24.10", or of a server version such as "2.51.0".

    Server versions up to 2.51 rose by one with each month's release; later ones are newer than 24.10,
    which is all that matters here. Empty: the newest release that was read.
    """
    if not version:
        return READ_UP_TO
    match = re.fullmatch(r"(\d+)\.(\d+)(?:\.\d+)?(?:[^\d].*)?", version.strip())
    if match is None:
        raise UsageError(
            f"'{version}' is not a version of Triton",
            slug="bad-version",
            hint="Give a release such as 24.10, or the server's own number such as 2.51.0.",
        )
    major, minor = int(match[1]), int(match[2])
    if major != 2:
        return major, minor
    months = 22 * 12 + 3 + minor - 21  # 2.21 is 22.04
    return months // 12, months % 12 + 1


def rules_of(setting: Setting, wake_ns: int = 0) -> Rules:
    """The figures that the rules read. `wake_ns`: how long the batcher thread takes to wake up."""
    most = setting.largest
    preferred = sorted(size for size in set(setting.preferred) if size <= most)
    is_preferred = np.zeros(most + 1, np.int64)
    is_preferred[preferred] = 1
    # GetDynamicBatch: upper_bound, else the smallest, else 0.
    following = [
        next((p for p in preferred if p > size), preferred[0] if preferred else 0) for size in range(most + 1)
    ]
    by_level = setting.policies if setting.priority_levels == 0 else (Policy(), *setting.policies)
    return Rules(
        dynamic=int(setting.dynamic),
        eager=int(setting.eager),
        instances=setting.instances,
        max_batch=most,
        # backend_model.cc: the default scheduler has neither a delay nor a merge.
        delay_ns=setting.delay_ns if setting.dynamic else 0,
        max_preferred=preferred[-1] if preferred else 0,
        shapes_enforced=int(setting.shapes_enforced),
        inputs_compared=int(setting.inputs_compared),
        levels=setting.priority_levels,
        ticks=int(setting.ticks),
        cancels=int(setting.cancels),
        wake_ns=wake_ns,
        is_preferred=is_preferred,
        next_preferred=np.array(following, np.int64),
        max_queue_size=np.array([p.max_queue_size for p in by_level], np.int64),
        default_timeout_ns=np.array([p.default_timeout_ns for p in by_level], np.int64),
        timeout_override=np.array([int(p.allow_timeout_override) for p in by_level], np.int64),
    )


def _has_policy(block: DynamicBatching) -> bool:
    # scheduler_utils.cc:PriorityQueue, support_prefetching_.
    policy = block.default_queue_policy
    return bool(
        block.priority_levels
        or policy.default_timeout_microseconds
        or policy.allow_timeout_override
        or policy.max_queue_size
    )


def _policies(block: DynamicBatching) -> tuple[Policy, ...]:
    if block.priority_levels == 0:
        return (_policy(block.default_queue_policy),)
    own = dict(block.priority_queue_policy)
    levels = range(1, block.priority_levels + 1)
    return tuple(_policy(own.get(level, block.default_queue_policy)) for level in levels)


def _policy(policy: QueuePolicy) -> Policy:
    return Policy(
        max_queue_size=policy.max_queue_size,
        default_timeout_ns=min(policy.default_timeout_microseconds * 1000, NEVER // 2),
        allow_timeout_override=policy.allow_timeout_override,
    )


def _inputs(config: ServingConfig, block: DynamicBatching | None) -> tuple[bool, bool]:
    """Are inputs compared, is a shape enforced? backend_model.cc:SetConfiguredScheduler."""
    if block is None:
        return False, False
    enforced = any(
        tensor.is_shape_tensor or (-1 in tensor.dims and not tensor.allow_ragged_batch)
        for tensor in config.input
    )
    return enforced or any(tensor.optional for tensor in config.input), enforced


def _refuse(config: ServingConfig, block: DynamicBatching | None, release: tuple[int, int]) -> None:
    policies = [block.default_queue_policy, *dict(block.priority_queue_policy).values()] if block else []
    lazy = block is not None and _has_policy(block) and release >= LAZY
    reasons = (
        (
            bool(config.ensemble_steps),
            "an ensemble without its models; name a run of tritune load on it, which keeps theirs",
        ),
        (config.sequence_batching, "the sequence batcher"),
        (config.response_cache, "the response cache"),
        (any(g.rate_limited for g in config.instance_group), "the rate limiter"),
        (config.backend == "tensorrt" and config.instances > 1, "instances that share one thread (TensorRT)"),
        (block is not None and block.preserve_ordering, "preserve_ordering"),
        (
            any(p.timeout_action == "DELAY" and p.default_timeout_microseconds for p in policies),
            "the timeout action DELAY",
        ),
        (release < OLDEST, "a Triton older than 22.04"),
        (
            lazy and release < UNLOCKED,
            "queue policies in Triton 23.08 to 23.11, where they block new requests",
        ),
        (
            release < EQUAL_INPUTS_MERGE and block is not None and block.max_queue_delay_microseconds > 0,
            "a queue delay in a Triton older than 22.09",
        ),
    )
    for applies, what in reasons:
        if applies:
            raise TrituneError(
                f"the twin cannot play model {config.name}: it does not know {what}",
                slug="twin-unsupported",
                hint="Measure this one with tritune load or sweep.",
            )
