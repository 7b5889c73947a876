"""Which missing rule a timeline would notice, on the acceptance vectors that were made for one rule each."""

from __future__ import annotations

import pytest

from tritune.model.timeline import PlannedRequest, Timeline
from tritune.testing.timelines.power import RULES, notices
from tritune.testing.timelines.repository import serving_config
from tritune.testing.timelines.steer import planned
from tritune.testing.timelines.vectors import VECTORS
from tritune.twin.engine.setting import setting_of
from tritune.units import NS_PER_MS


@pytest.mark.parametrize(
    ("name", "noticed", "unnoticed"),
    [
        ("V1", {"payloads that grow"}, {"the delay", "merging and freezing at dequeue"}),
        ("V3", {"preferred sizes"}, {"the delay"}),
        ("V4", {"the wake filter", "the delay"}, {"preferred sizes"}),
        ("V5", {"the delay"}, {"lazy dispatch"}),
        ("V9", {"merging and freezing at dequeue"}, {"priority levels"}),
        ("V11", {"lazy dispatch"}, {"the tick of timeouts"}),
        ("V14", set(), set(RULES)),
    ],
)
def test_a_vector_notices_what_it_was_made_for(name: str, noticed: set[str], unnoticed: set[str]) -> None:
    vector = next(vector for vector in VECTORS if vector.name == name)
    replay = planned(setting_of(vector.config, "24.10"), vector.timeline)
    found = {rule for rule in RULES if notices(replay, rule)}
    assert noticed <= found
    assert not unnoticed & found


def test_policies_are_noticed_where_they_refuse_or_order() -> None:
    def found(requests: list[PlannedRequest], **policy: object) -> set[str]:
        setting = setting_of(serving_config(**policy), "24.10")  # type: ignore[arg-type]
        replay = planned(setting, Timeline(tuple(requests)))
        return {rule for rule in RULES if notices(replay, rule)}

    busy = [PlannedRequest(0, 50 * NS_PER_MS)]

    def behind(count: int, **more: int) -> list[PlannedRequest]:
        return [PlannedRequest((5 + i) * NS_PER_MS, 5 * NS_PER_MS, **more) for i in range(count)]

    assert "max_queue_size" in found(busy + behind(4), max_queue_size=2)
    assert "timeouts" in found(busy + behind(2), default_timeout_us=20_000)
    own = behind(2, timeout_ns=20 * NS_PER_MS)
    override = {"default_timeout_us": 90_000, "allow_timeout_override": True}
    assert "the tick of timeouts" not in found(busy + behind(2), default_timeout_us=20_000)
    long = [PlannedRequest(0, 1_100 * NS_PER_MS)]
    assert "the tick of timeouts" in found(long + behind(2), default_timeout_us=20_000)
    assert "timeouts of a request's own" in found(busy + own, **override)
    assert "timeouts of a request's own" not in found(busy + own, default_timeout_us=90_000)
    mixed = [*behind(1, priority=2), PlannedRequest(9 * NS_PER_MS, 5 * NS_PER_MS, items=8, priority=1)]
    assert "priority levels" in found(busy + mixed, priority_levels=2)
    shapes = [*behind(1), PlannedRequest(9 * NS_PER_MS, 5 * NS_PER_MS, shape=2)]
    assert "shape classes" in found(busy + shapes, shape_checked=True)
