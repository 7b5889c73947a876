"""Ties are flagged where an event is near a decision, and only there."""

from __future__ import annotations

import pytest
from twin_play import BUSY_MS, LAZY, MS, behind_busy, config, even, ms, play

from tritune.model.config import ServingConfig
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import Requests, simulate
from tritune.twin.engine.ties import batcher_first, ties
from tritune.twin.engine.timing import Timing
from tritune.twin.engine.variant import variant


@pytest.mark.parametrize(("last_ms", "tied"), [(280, False), (299.5, True), (300.5, True), (310, False)])
def test_an_arrival_near_a_completion_is_a_tie(last_ms: float, tied: bool) -> None:
    done = behind_busy(config(0), [50, 100, last_ms])
    assert ties(done)[1] == tied


@pytest.mark.parametrize(("second_ms", "tied"), [(20, False), (100.9, True), (99.2, True), (101.1, False)])
def test_an_arrival_near_the_end_of_the_delay_is_a_tie(second_ms: float, tied: bool) -> None:
    done = play(config(100), Requests(ms([0, second_ms])), even(5))
    assert ties(done)[0] == tied


def test_what_brings_a_decision_about_is_no_tie() -> None:
    done = play(config(0), Requests(ms([0, 50, 100])), even(5))
    assert not ties(done).any()


def test_two_events_at_one_instant_are_a_tie() -> None:
    done = play(config(0), Requests(ms([0, 50, 50])), even(5))
    assert ties(done).tolist() == [False, True, True]


def test_the_distance_can_be_chosen() -> None:
    done = behind_busy(config(0), [50, 100, 290])
    assert not ties(done).any()
    assert ties(done, within_ns=11_000_000)[1]


FOUR = Requests(ms([0, 50, 50, 50, 100]))
BUSY = {"batch_ends_ns": ms([BUSY_MS])}


@pytest.mark.parametrize(
    ("given", "marked"),
    [
        # V4: the wake filter holds the last request back; a batcher that is faster adds it to the three.
        (config(1), [False, True, False]),
        # Nothing is held back without a delay.
        (config(0), [False, False]),
        # All stay in the queue until the instance is free: that race is the lost wake-up.
        (config(1, (), LAZY), [False, False]),
        (config(dynamic=False), [False] * 5),
    ],
)
def test_a_batch_that_a_faster_batcher_would_change_is_marked(
    given: ServingConfig, marked: list[bool]
) -> None:
    assert batcher_first(setting_of(given), FOUR, even(5), **BUSY).tolist() == marked


def test_a_batcher_that_waits_for_a_slot_cannot_be_faster() -> None:
    # Two payloads of 1 (P = {1} closes each) fill R; two more requests wait in the queue.
    done = play(config(0, (1,)), Requests(ms([0, 10, 20, 30, 40])), even(5), **BUSY)
    assert (done.batch_requests == 1).all()
    assert not batcher_first(
        setting_of(config(0, (1,))), Requests(ms([0, 10, 20, 30, 40])), even(5), **BUSY
    ).any()


def test_a_variant_calls_what_replaces_a_rule_from_within_the_rules_too() -> None:
    seen: list[int] = []

    def replaced(rules: dict[str, object]) -> dict[str, object]:
        def sleep(*event: object) -> None:
            seen.append(event[2])  # type: ignore[arg-type]
            rules["sleep"](*event)  # type: ignore[operator]

        return {"sleep": sleep}

    setting = setting_of(config(10))
    timing = Timing((5.0 * MS,) * 9)
    usual = simulate(setting, FOUR, timing)
    watched = simulate(setting, FOUR, timing, run=variant(replaced))  # type: ignore[arg-type]
    assert watched.batch.tolist() == usual.batch.tolist()
    assert seen
