"""What the twin says a timeline puts to the test, on the acceptance vectors, where that is known."""

from __future__ import annotations

import pytest

from tritune.testing.timelines.nature import nature_of
from tritune.testing.timelines.steer import planned
from tritune.testing.timelines.vectors import VECTORS
from tritune.twin.engine.setting import setting_of


@pytest.mark.parametrize(
    ("name", "counts"),
    [
        # A payload of 1 that three join one after the other, and so on: 5 in the end.
        ("V1", {"batches": 2, "several": 1, "grown": 4, "merged": 0, "frozen": 0}),
        # Three payloads of 4, two of them taken together.
        ("V8", {"batches": 3, "merged": 1}),
        ("V8-no-delay", {"batches": 4, "merged": 0}),
        # 8, 1, 8, 3: the payload of 1 did not fit and stayed behind alone.
        ("V9", {"batches": 5}),
        ("V5", {"batches": 1, "several": 1, "grown": 0}),
        ("V14", {"batches": 4, "several": 0, "grown": 0, "delay_waits": 0}),
    ],
)
def test_a_vectors_nature(name: str, counts: dict[str, int]) -> None:
    vector = next(vector for vector in VECTORS if vector.name == name)
    replay = planned(setting_of(vector.config, "24.10"), vector.timeline)
    nature = nature_of(replay)
    assert {key: getattr(nature, key) for key in counts} == counts
    if name == "V9":
        assert nature.frozen >= 1
    if name == "V5":
        assert nature.delay_waits >= 1
