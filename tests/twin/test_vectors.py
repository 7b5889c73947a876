"""The acceptance vectors of the specification: what the real server executed on the same timelines."""

from __future__ import annotations

import numpy as np
import pytest
from twin_play import LAZY, behind_busy, config, even, ms, play, sizes

from tritune.twin.engine.simulate import Requests

TRICKLE_9 = np.arange(20) * 10 + 40.0


@pytest.mark.parametrize(
    ("vector", "given", "times", "expected"),
    [
        ("V1", config(0), np.arange(1, 6) * 20, [5]),
        ("V2", config(0, (4,)), np.arange(1, 8) * 20, [4, 3]),
        ("V3", config(0, (2, 4, 8)), np.arange(1, 21) * 10, [2, 8, 8, 2]),
        ("V4", config(1), [50, 50, 50, 100], [3, 1]),
        ("V4 without delay", config(0), [50, 50, 50, 100], [4]),
        (
            "V8",
            config(1, (4,)),
            [51, 52, 53, 54, 105, 106, 107, 108, 159, 160, 161, 162],
            [8, 4],
        ),
        (
            "V8 without delay",
            config(0, (4,)),
            [51, 52, 53, 54, 105, 106, 107, 108, 159, 160, 161, 162],
            [4, 4, 4],
        ),
        ("V9", config(1), TRICKLE_9, [8, 1, 8, 3]),
        ("V10", config(20), TRICKLE_9, [8, 3, 8, 1]),
        ("V11", config(0, (2, 4, 8), LAZY), TRICKLE_9, [8, 8, 4]),
        ("V12", config(1, (), LAZY), [50, 50, 50, 100], [4]),
    ],
)
def test_batches_behind_a_busy_instance(
    vector: str, given: object, times: object, expected: list[int]
) -> None:
    assert sizes(behind_busy(given, times), skip=1) == expected, vector  # type: ignore[arg-type]


def test_v5_an_idle_instance_waits_for_the_delay_of_the_oldest() -> None:
    done = play(config(100), Requests(ms([0, 10, 20])), even(5))
    assert sizes(done) == [3]
    assert done.batch_start_ns.tolist() == ms([100]).tolist()


def test_v6_a_preferred_size_ends_the_wait() -> None:
    done = play(config(100, (4,)), Requests(ms([0, 10, 20, 30])), even(5))
    assert sizes(done) == [4]
    assert done.batch_start_ns.tolist() == ms([30]).tolist()


def test_v7_a_request_that_does_not_fit_closes_the_batch_before_it() -> None:
    done = play(config(100, (4,)), Requests(ms([0, 30]), items=3), even(5))
    assert sizes(done) == [3, 3]
    assert done.batch_start_ns.tolist() == ms([30, 130]).tolist()


def test_v13_two_instances() -> None:
    done = play(config(0, instances=2), Requests(ms(np.arange(6) * 20)), even(100))
    assert sizes(done) == [1, 1, 4]


def test_v14_the_default_scheduler_never_merges() -> None:
    done = behind_busy(config(dynamic=False), [50, 60, 70], items=[1, 2, 8])
    assert sizes(done, skip=1) == [1, 2, 8]
    assert (done.batch_requests == 1).all()
