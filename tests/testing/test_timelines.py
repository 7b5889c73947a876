"""The timelines that are played on the real server, and the configurations they are played with."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tritune.model.config import QueuePolicy
from tritune.testing.timelines.families import POLICIES, describe, random_family
from tritune.testing.timelines.generate import REQUESTS, first_ms, free_timeline, grid_timeline
from tritune.testing.timelines.repository import config_json, serving_config
from tritune.twin.engine.setting import setting_of


def seeded(*seed: int) -> np.random.Generator:
    return np.random.Generator(np.random.PCG64(seed))


def test_every_rule_gets_its_turn() -> None:
    families = [random_family(number, seeded(1, number)) for number in range(60)]
    assert {family.policy for family in families} == set(POLICIES)
    configs = [family.config for family in families]
    assert {config.max_batch_size for config in configs} == {0, 1, 4, 8}
    assert {count for family in families for count in family.counts} == {1, 2, 3}
    assert all(family.counts[0] < family.counts[1] for family in families)
    settings = [setting_of(config, "24.10") for config in configs]
    assert {setting.eager for setting in settings} == {True, False} == {s.dynamic for s in settings}
    assert {setting.inputs_compared for setting in settings} == {True, False}
    assert any(spec.allow_ragged_batch for config in configs for spec in config.input)
    assert any(len(set(setting.policies)) > 1 for setting in settings)
    # What wakes the instances after a load is one request each.
    limits = {policy.max_queue_size for setting in settings for policy in setting.policies}
    assert min(limits - {0}) > max(max(family.counts) for family in families)


@pytest.mark.parametrize("number", range(20))
def test_a_state_of_chance_is_a_timeline_that_its_configuration_takes(number: int) -> None:
    family = random_family(number, seeded(2, number))
    config = family.with_instances(family.counts[1])
    assert config.instances == family.counts[1]
    for make in (free_timeline, grid_timeline):
        timeline = make(seeded(number), config, shapes=family.shapes)
        assert timeline == make(seeded(number), config, shapes=family.shapes)
        assert timeline != make(seeded(number, 1), config, shapes=family.shapes)
        assert len(timeline.requests) == REQUESTS
        assert timeline.requests[0].planned_ns == 0
        assert {request.items for request in timeline.requests} <= set(
            range(1, min(3, max(1, config.max_batch_size)) + 1)
        )
        assert {request.shape for request in timeline.requests} <= set(range(1, family.shapes + 1))
        levels = setting_of(config, "24.10").priority_levels
        assert max(request.priority for request in timeline.requests) == (levels + 1 if levels else 0)


def test_a_long_first_execution_passes_a_tick_and_arrivals_go_on_behind_it() -> None:
    config = serving_config(default_timeout_us=20_000)
    firsts = [first_ms(seeded(seed), config) for seed in range(60)]
    assert any(ms > 500 for ms in firsts)
    assert max(first_ms(seeded(seed), serving_config()) for seed in range(60)) < 500
    spans = [
        grid_timeline(seeded(seed), config, first_ms=600).requests[-1].planned_ns / 1e6 for seed in range(20)
    ]
    assert np.median(spans) > 600


def test_a_configuration_is_complete() -> None:
    policy = QueuePolicy(default_timeout_microseconds=9, allow_timeout_override=True)
    config = serving_config(
        delay_us=5, preferred=(2, 4), priority_levels=3, max_queue_size=7, level_policies=((2, policy),)
    )
    whole = json.loads(config_json(config))
    block = whole["dynamic_batching"]
    assert block["preferred_batch_size"] == [2, 4]
    assert block["max_queue_delay_microseconds"] == 5
    assert (block["priority_levels"], block["default_priority_level"]) == (3, 3)
    assert block["default_queue_policy"]["max_queue_size"] == 7
    assert block["priority_queue_policy"] == {
        "2": {"max_queue_size": 0, "default_timeout_microseconds": 9, "allow_timeout_override": True}
    }
    assert config_json(config, 1) != config_json(config)
    assert "dynamic_batching" not in json.loads(config_json(serving_config(dynamic=False)))


@pytest.mark.parametrize(
    ("asked", "dims"),
    [({}, [1]), ({"shape_checked": True}, [-1]), ({"ragged": True}, [-1]), ({"max_batch_size": 0}, [1, 1])],
)
def test_the_input_fits_what_requests_bring(asked: dict[str, bool], dims: list[int]) -> None:
    whole = json.loads(config_json(serving_config(**asked)))  # type: ignore[arg-type]
    assert whole["input"][0]["dims"] == dims
    assert whole["input"][0]["allow_ragged_batch"] == ("ragged" in asked)


def test_a_configuration_in_one_line() -> None:
    policy = QueuePolicy(max_queue_size=4, default_timeout_microseconds=80_000, allow_timeout_override=True)
    config = serving_config(
        delay_us=500, preferred=(4, 8), instances=2, priority_levels=3, level_policies=((1, policy),)
    )
    assert (
        describe(config) == "M=8 N=2 D=0.5ms P={4,8} levels=3 level 1: max_queue_size=4 timeout=80ms override"
    )
    assert describe(serving_config(dynamic=False)) == "M=8 N=1 default scheduler"
