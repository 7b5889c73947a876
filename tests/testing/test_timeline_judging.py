"""What was executed beside the twin, with a twin in place of the real server."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest

from tritune.model.timeline import (
    NEVER,
    QUEUE_FULL,
    TIMED_OUT,
    ExecutedTimeline,
    PlannedRequest,
    Timeline,
)
from tritune.testing.timelines.compare import Replay, is_tie, with_lost_wakeups
from tritune.testing.timelines.generate import free_timeline
from tritune.testing.timelines.judge import judge
from tritune.testing.timelines.repository import serving_config
from tritune.twin.engine.setting import Setting, setting_of
from tritune.twin.engine.simulate import Outcome, Requests, simulate
from tritune.twin.engine.timing import Draws, Timing
from tritune.units import NS_PER_MS

CONFIGS = {
    "eager": serving_config(delay_us=1000, preferred=(4,)),
    "lazy": serving_config(delay_us=1000, preferred=(4,), max_queue_size=100),
    "shapes": serving_config(delay_us=1000, shape_checked=True, instances=2),
    "full": serving_config(max_queue_size=2),
    "timeouts": serving_config(default_timeout_us=20_000, allow_timeout_override=True),
    "levels": serving_config(priority_levels=2, max_batch_size=4),
    "no batching": serving_config(max_batch_size=0),
}
EAGER = setting_of(CONFIGS["eager"], "24.10")
LAZY = setting_of(CONFIGS["lazy"], "24.10")
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
            shape=[request.shape for request in timeline.requests],
            priority=[request.priority for request in timeline.requests],
            timeout_ns=[request.timeout_ns for request in timeline.requests],
        ),
        TIMING,
        draws=Draws(wakeups=heard),
    )
    begin = 7_000_000_000
    columns = zip(done.arrived_ns.tolist(), done.start_ns.tolist(), done.server_done_ns.tolist(), strict=True)
    return ExecutedTimeline.of(
        [
            (begin + arrived, begin + start, begin + end - 10_000, begin + end)
            if start >= 0
            else (begin + arrived, NEVER, NEVER, begin + end)
            for arrived, start, end in columns
        ],
        [{Outcome.QUEUE_FULL: QUEUE_FULL, Outcome.TIMED_OUT: TIMED_OUT}.get(o, "") for o in done.outcome],
    )


def timeline_at(*at_ms: float) -> Timeline:
    return Timeline(tuple(PlannedRequest(round(ms * NS_PER_MS), 1) for ms in at_ms))


@pytest.mark.parametrize("name", CONFIGS)
@pytest.mark.parametrize("seed", range(3))
def test_a_server_that_is_the_twin_is_identical(name: str, seed: int) -> None:
    random = np.random.Generator(np.random.PCG64(seed))
    timeline = free_timeline(random, CONFIGS[name], shapes=2 if name == "shapes" else 1)
    setting = setting_of(CONFIGS[name], "24.10")
    executed = played(setting, timeline)
    judged = judge(setting, timeline, executed)
    assert judged.identical
    assert judged.identical_given_them
    assert (judged.lost_wakeups, judged.differs, judged.late_ms) == (0, -1, 0)
    assert judged.nature.batches == len(executed.batches)
    refusals = [request.refusal for request in executed.requests]
    assert judged.nature.queue_full == refusals.count(QUEUE_FULL)
    assert judged.nature.timed_out == refusals.count(TIMED_OUT)


@pytest.mark.parametrize("why", [QUEUE_FULL, TIMED_OUT])
def test_who_was_refused_is_compared(why: str) -> None:
    timeline = timeline_at(0, 1, 2, 3, 60)
    setting = setting_of(
        serving_config(max_queue_size=2) if why == QUEUE_FULL else serving_config(default_timeout_us=5_000),
        "24.10",
    )
    executed = played(setting, timeline)
    refusals = [request.refusal for request in executed.requests]
    assert refusals.count(why) == (1 if why == QUEUE_FULL else 3)
    assert judge(setting, timeline, executed).identical
    rows = list(executed.requests)
    rows[3] = msgspec.structs.replace(rows[3], refusal=TIMED_OUT if why == QUEUE_FULL else QUEUE_FULL)
    judged = judge(setting, timeline, ExecutedTimeline(tuple(rows)))
    assert not judged.identical
    assert (judged.differs, judged.refused_by_one) == (-1, (3,))


def test_an_event_that_would_turn_a_refusal_makes_a_tie() -> None:
    # The third to wait is refused if it comes before the first execution ends, at about 20 ms.
    setting = setting_of(serving_config(max_queue_size=2), "24.10")
    for third_ms, tie in ((10.0, False), (19.6, True)):
        timeline = timeline_at(0, 2, 4, third_ms)
        replay = Replay.of(setting, timeline, played(setting, timeline))
        assert replay.refusals() == {3: QUEUE_FULL}
        assert is_tie(replay) == tie


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


def test_what_was_neither_executed_nor_refused_cannot_be_judged() -> None:
    with pytest.raises(ValueError, match="executed"):
        judge(EAGER, timeline_at(0), ExecutedTimeline.of([(0, -1, -1, -1)]))
