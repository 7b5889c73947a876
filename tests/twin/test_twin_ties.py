"""Ties are flagged where an event is near a decision, and only there."""

from __future__ import annotations

import pytest
from twin_play import behind_busy, config, even, ms, play

from tritune.twin.simulate import Requests
from tritune.twin.ties import ties


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
