"""Timelines and what was executed."""

from __future__ import annotations

import pytest

from tritune.model.timeline import NEVER, Batch, ExecutedTimeline, PlannedRequest, Timeline


def test_requests_with_one_compute_start_are_one_execution() -> None:
    executed = ExecutedTimeline.of(
        [(0, 50, 90, 92), (1, 10, 20, 25), (2, 50, 90, 95), (3, NEVER, NEVER, NEVER), (4, 10, 20, 24)]
    )
    assert [request.batch for request in executed.requests] == [1, 0, 1, NEVER, 0]
    assert executed.batches == (Batch((1, 4), 10, 20, 25), Batch((0, 2), 50, 90, 95))
    timeline = Timeline(tuple(PlannedRequest(i, 1, items=i + 1) for i in range(5)))
    assert executed.sizes(timeline) == (7, 4)


def test_a_timeline_is_in_order() -> None:
    with pytest.raises(ValueError, match="order"):
        Timeline((PlannedRequest(1, 1), PlannedRequest(0, 1)))
