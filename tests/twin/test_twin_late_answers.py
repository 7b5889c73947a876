"""A request that a scan drops is answered when the batcher next wakes up, behind the wait for the delay."""

from __future__ import annotations

import pytest
from twin_play import MS, config, ms, play

from tritune.model.config import QueuePolicy
from tritune.twin.engine.simulate import Outcome, Requests
from tritune.twin.engine.timing import Timing

EXPIRES = QueuePolicy(default_timeout_microseconds=20_000)
# A thread wakes up after the instant that it waits for; at that very instant nothing has timed out yet.
TIMING = Timing((5.0 * MS,) * 9, wake_ns=70_000)


@pytest.mark.parametrize(
    ("delay_ms", "times", "answers"),
    [
        # Nobody else waits: the scan ends without a wait.
        (100, [0], [20]),
        # The scan at 20 drops the first and waits for what the second may wait: 10 ms. A 24.10 does so too.
        (100, [0, 10], [30, 30]),
        # An arrival wakes the batcher, and the first is answered then; the second as late as the third.
        (100, [0, 10, 25], [25, 45, 45]),
    ],
)
def test_when_it_is_answered(delay_ms: float, times: list[float], answers: list[float]) -> None:
    done = play(config(delay_ms, (8,), EXPIRES, dims=-1), Requests(ms(times)), TIMING)
    assert (done.outcome == Outcome.TIMED_OUT).all()
    assert done.server_done_ns / 1e6 == pytest.approx(answers, abs=0.2)
