"""The timelines that are played on the real server."""

from __future__ import annotations

import json

from tritune.testing.timelines.generate import REQUESTS, random_timeline, settings
from tritune.testing.timelines.repository import config_json, serving_config


def test_all_combinations_are_there_once_and_neighbours_share_what_needs_a_reload() -> None:
    found = list(settings())
    assert len({config_json(setting.config) for setting in found}) == len(found) == 4 * 4 * 2 * 2
    for one, two in zip(found[::2], found[1::2], strict=True):
        first, second = json.loads(config_json(one.config)), json.loads(config_json(two.config))
        assert first.pop("instance_group") != second.pop("instance_group")
        assert first == second


def test_a_seed_is_a_timeline() -> None:
    timeline = random_timeline(5)
    assert timeline == random_timeline(5) != random_timeline(6)
    first, *rest = timeline.requests
    assert len(timeline.requests) == REQUESTS
    assert first.planned_ns == 0
    assert 50e6 <= first.service_ns <= 250e6
    assert {request.items for request in rest} == {1, 2, 3}
    assert all(5e6 <= request.service_ns <= 30e6 and request.priority == 0 for request in rest)
    assert {request.priority for request in random_timeline(5, priority_levels=2).requests} == {1, 2}


def test_a_configuration_is_complete() -> None:
    config = json.loads(
        config_json(serving_config(delay_us=5, preferred=(2, 4), priority_levels=3, max_queue_size=7))
    )
    block = config["dynamic_batching"]
    assert block["preferred_batch_size"] == [2, 4]
    assert block["max_queue_delay_microseconds"] == 5
    assert (block["priority_levels"], block["default_priority_level"]) == (3, 3)
    assert block["default_queue_policy"]["max_queue_size"] == 7
    assert "dynamic_batching" not in json.loads(config_json(serving_config(dynamic=False)))
