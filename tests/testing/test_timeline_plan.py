"""Which timelines are chosen, and how executions are made to end away from everything else."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from tritune.model.timeline import PlannedRequest, Timeline
from tritune.testing.timelines.compare import is_tie
from tritune.testing.timelines.generate import grid_timeline
from tritune.testing.timelines.plan import FREE, STEERED, Plan, plans
from tritune.testing.timelines.power import notices
from tritune.testing.timelines.repository import serving_config
from tritune.testing.timelines.steer import OVERHEAD_NS, planned, steered
from tritune.twin.engine.setting import setting_of
from tritune.units import NS_PER_MS


def test_a_plan_takes_as_long_as_the_longest_of_each_batch_asks_for() -> None:
    setting = setting_of(serving_config(), "24.10")
    services_ms = (50, 7, 9, 3)
    timeline = Timeline(
        tuple(
            PlannedRequest(at * NS_PER_MS, ms * NS_PER_MS)
            for at, ms in zip((0, 10, 20, 90), services_ms, strict=True)
        )
    )
    replay = planned(setting, timeline)
    assert replay.batches() == ((0,), (1, 2), (3,))
    took = np.array(replay.free_ns) - replay.simulated().batch_start_ns - OVERHEAD_NS
    assert took.tolist() == [50 * NS_PER_MS, 9 * NS_PER_MS, 3 * NS_PER_MS]


@pytest.mark.parametrize("instances", [1, 2])
def test_steering_keeps_ends_away_from_arrivals_and_the_plan_gives_them_back(instances: int) -> None:
    config = serving_config(delay_us=8_000, preferred=(4,), instances=instances)
    setting = setting_of(config, "24.10")
    random = np.random.Generator(np.random.PCG64(3))
    timeline, replay = steered(setting, grid_timeline(random, config), random, 40)
    again = planned(setting, timeline)
    assert again.batches() == replay.batches()
    assert again.free_ns == replay.free_ns
    arrivals = np.array([request.planned_ns for request in timeline.requests])
    ends = np.array(replay.free_ns)
    near = np.abs(ends[:, None] - arrivals).min(axis=1)
    assert np.mean(near >= NS_PER_MS) > 0.9
    assert ends[0] - replay.simulated().batch_start_ns[0] >= 40 * NS_PER_MS


def test_the_same_seed_gives_the_same_plans_and_their_flags_are_the_twins() -> None:
    *drawn, _, _, _, _, _, _ = every = list(plans(1, 7, "24.10"))
    assert every == list(plans(1, 7, "24.10"))
    assert [plan.steered for plan in drawn] == ([True] * STEERED + [False] * FREE) * 2
    assert [plan.config.instances for plan in drawn[::3]] == sorted({plan.config.instances for plan in drawn})
    assert msgspec.json.decode(msgspec.json.encode(drawn), type=list[Plan]) == drawn
    for plan in drawn:
        assert plan.tie == is_tie(planned(setting_of(plan.config, "24.10"), plan.timeline))
        assert plan.candidates >= 1


def test_the_last_ones_see_a_tick_of_timeouts() -> None:
    last = list(plans(0, 7, "24.10"))
    assert {plan.policy for plan in last} == {"tick"}
    replays = [planned(setting_of(plan.config, "24.10"), plan.timeline) for plan in last]
    assert [notices(replay, "the tick of timeouts") for replay in replays] == [True] * len(last) != []
