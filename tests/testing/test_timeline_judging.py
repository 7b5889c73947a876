"""What was executed beside the twin, with a twin in place of the real server."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from tritune.model.timeline import ExecutedTimeline, PlannedRequest, Timeline
from tritune.testing.timelines.compare import Replay, is_tie, with_lost_wakeups
from tritune.testing.timelines.generate import random_timeline
from tritune.testing.timelines.judge import judge
from tritune.testing.timelines.repository import serving_config
from tritune.twin.setting import Setting, setting_of
from tritune.twin.simulate import Requests, simulate
from tritune.twin.timing import Draws, Timing
from tritune.units import NS_PER_MS

EAGER = setting_of(serving_config(delay_us=1000, preferred=(4,)), "24.10")
LAZY = setting_of(serving_config(delay_us=1000, preferred=(4,), max_queue_size=100), "24.10")
# A server whose threads take what `compare` takes them to.
TIMING = Timing(service_ns=(20.0 * NS_PER_MS,) * 9, turnaround_ns=40_000, wake_ns=70_000, lost_wakeup_p=0.5)


def played(setting: Setting, timeline: Timeline, lost: tuple[int, ...] = ()) -> ExecutedTimeline:
    heard = np.ones(len(timeline.requests) + 1)
    heard[list(lost)] = 0
    done = simulate(
        setting,
        Requests(
            [request.planned_ns for request in timeline.requests],
            items=[request.items for request in timeline.requests],
        ),
        TIMING,
        draws=Draws(wakeups=heard),
    )
    begin = 7_000_000_000
    return ExecutedTimeline.of(
        (begin + arrived, begin + start, begin + end - 10_000, begin + end)
        for arrived, start, end in zip(
            done.arrived_ns.tolist(), done.start_ns.tolist(), done.server_done_ns.tolist(), strict=True
        )
    )


def timeline_at(*at_ms: float) -> Timeline:
    return Timeline(tuple(PlannedRequest(round(ms * NS_PER_MS), 1) for ms in at_ms))


@pytest.mark.parametrize("setting", [EAGER, LAZY])
@pytest.mark.parametrize("seed", range(5))
def test_a_server_that_is_the_twin_is_identical(setting: Setting, seed: int) -> None:
    timeline = random_timeline(seed)
    judged = judge(setting, timeline, played(setting, timeline))
    assert judged.identical
    assert judged.identical_given_them
    assert judged.lost_wakeups == 0
    assert judged.differs == -1


def test_the_first_execution_that_differs_is_named() -> None:
    timeline = timeline_at(0, 5, 30, 30.3, 200)
    executed = played(EAGER, timeline)
    assert [batch.requests for batch in executed.batches] == [(0,), (1,), (2, 3), (4,)]
    rows = list(executed.requests)
    rows[3] = msgspec.structs.replace(rows[4], queue_start_ns=rows[3].queue_start_ns)
    judged = judge(EAGER, timeline, ExecutedTimeline(tuple(rows)))
    assert not judged.identical
    assert (judged.differs, judged.real) == (2, (2,))
    assert 3 in judged.twin


@pytest.mark.parametrize(("last_ms", "tie"), [(15, False), (20.5, True), (22.5, False)])
def test_a_tie_is_an_event_that_a_millisecond_would_turn(last_ms: float, tie: bool) -> None:
    # The first execution ends at about 21 ms, and the next takes all that is there: request 1, and 2 perhaps.
    setting = setting_of(serving_config(), "24.10")
    timeline = timeline_at(0, 10, last_ms + 0.2)
    assert is_tie(Replay.of(setting, timeline, played(setting, timeline))) == tie


def test_a_lost_wakeup_is_recognised_by_the_starts_alone() -> None:
    timeline = timeline_at(0, 5, 10, 60, 100, 105, 300)
    executed = played(LAZY, timeline, lost=(0,))
    replay = Replay.of(LAZY, timeline, executed)
    assert replay.batches() != tuple(batch.requests for batch in executed.batches)
    explained = with_lost_wakeups(replay, executed)
    assert explained.lost == {0}
    assert explained.batches() == tuple(batch.requests for batch in executed.batches)


def test_a_late_thread_is_no_lost_wakeup() -> None:
    timeline = timeline_at(0, 5, 10, 200)
    executed = played(LAZY, timeline)
    late = [
        msgspec.structs.replace(row, compute_start_ns=row.compute_start_ns + 3 * NS_PER_MS)
        if row.batch
        else row
        for row in executed.requests
    ]
    replay = Replay.of(LAZY, timeline, executed)
    assert with_lost_wakeups(replay, ExecutedTimeline(tuple(late))).lost == frozenset()


def test_what_was_refused_cannot_be_judged() -> None:
    with pytest.raises(ValueError, match="executed"):
        judge(EAGER, timeline_at(0), ExecutedTimeline.of([(0, -1, -1, -1)]))
