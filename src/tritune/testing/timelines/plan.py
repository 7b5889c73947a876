"""Which timelines are played: about two thirds of them chosen so that nothing in them hangs by a thread."""

from __future__ import annotations

from collections.abc import Iterator

import msgspec
import numpy as np

from tritune.model.config import QueuePolicy, ServingConfig
from tritune.model.timeline import Timeline
from tritune.testing.timelines.compare import is_tie
from tritune.testing.timelines.families import Family, describe, random_family
from tritune.testing.timelines.generate import first_ms, free_timeline, grid_timeline
from tritune.testing.timelines.repository import serving_config
from tritune.testing.timelines.steer import planned, steered
from tritune.twin.engine.setting import setting_of

STEERED = 2
FREE = 1
# A real server is not punctual: what is to be clear of ties when measured is planned with more room.
_ROOM_NS = (1_600_000, -1_600_000, 800_000, -800_000)
_CANDIDATES = 8
# The batcher sleeps 500 ms on an empty queue and 500 ms on a full server before it looks for what has timed
# out (WaitForPayloadSlotAvailable): only an execution longer than both sees that.
_PAST_A_TICK_MS = (1_060, 1_250)
_TICK_CONFIGS = (
    serving_config(default_timeout_us=80_000),
    serving_config(default_timeout_us=200_000, allow_timeout_override=True, delay_us=8_000, preferred=(4,)),
    serving_config(
        priority_levels=2, level_policies=((2, QueuePolicy(default_timeout_microseconds=80_000)),)
    ),
)


class Plan(msgspec.Struct, frozen=True):
    """One timeline to play. `tie`: the twin's flag, beforehand; `candidates`: how many were drawn for it.

    `family` numbers the configurations that share a scheduler; `steered`: executions last as long as keeps
    them away from other events, otherwise at random.
    """

    family: int
    policy: str
    config: ServingConfig
    timeline: Timeline
    steered: bool
    tie: bool
    candidates: int

    @property
    def name(self) -> str:
        """The configuration in one line."""
        return describe(self.config)


def plans(families: int, seed: int, version: str) -> Iterator[Plan]:
    """STEERED + FREE timelines for each of a family's instance counts; the same arguments, the same plans.

    A steered timeline is the first of up to 8 candidates in which no arrival or completion, moved by up to
    1.6 ms, changes a batch or a refusal; the last one where there is none. A free one is taken as drawn.
    Behind the families come a few that see a tick of timeouts.
    """
    for number in range(families):
        random = np.random.Generator(np.random.PCG64([seed, number]))
        family = random_family(number, random)
        for count in family.counts:
            config = family.with_instances(count)
            for _ in range(STEERED):
                yield _steered(number, family, config, random, version)
            for _ in range(FREE):
                timeline = free_timeline(random, config, shapes=family.shapes)
                tie = is_tie(planned(setting_of(config, version), timeline))
                yield Plan(number, family.policy, config, timeline, False, tie, 1)
    for number, config in enumerate(_TICK_CONFIGS, families):
        random = np.random.Generator(np.random.PCG64([seed, number, 1]))
        family = Family(config, "tick", (1,))
        for _ in range(STEERED):
            yield _steered(number, family, config, random, version, random.uniform(*_PAST_A_TICK_MS))


def _steered(
    number: int,
    family: Family,
    config: ServingConfig,
    random: np.random.Generator,
    version: str,
    busy_ms: float = 0,
) -> Plan:
    """`busy_ms`: how long the first execution takes, drawn where it is 0."""
    setting = setting_of(config, version)
    for candidate in range(1, _CANDIDATES + 1):
        first = busy_ms or first_ms(random, config)
        grid = grid_timeline(random, config, shapes=family.shapes, first_ms=first)
        timeline, replay = steered(setting, grid, random, first)
        if not is_tie(replay, _ROOM_NS):
            return Plan(number, family.policy, config, timeline, True, False, candidate)
    return Plan(number, family.policy, config, timeline, True, is_tie(replay), candidate)
