"""Rules that the vectors do not reach, by hand-made timelines; sections are those of the specification."""

from __future__ import annotations

import numpy as np
import pytest
from twin_play import LAZY, MS, behind_busy, config, even, ms, play, sizes

from tritune.model.config import QueuePolicy
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import Outcome, Requests
from tritune.twin.engine.timing import Draws, Timing


def groups(simulated, values) -> list[list[int]]:  # type: ignore[no-untyped-def]
    """The values of the requests in each batch after the busy one."""
    values = np.asarray(values)
    return [values[simulated.batch[1:] == k].tolist() for k in range(1, len(simulated.batch_start_ns))]


# 1.3: two payloads per instance are formed ahead; while there are two they do not grow.
def test_at_most_two_payloads_per_instance_wait_formed() -> None:
    done = behind_busy(config(0, (2,), largest=2), np.arange(1, 12) * 10)
    formed = done.joined_ns < ms(300)
    assert formed[1:].tolist() == [True] * 3 + [False] * 8
    assert sizes(done, skip=1) == [2, 2, 2, 2, 2, 1]


# 1.5: one more small group may join an open payload of a preferred size (overshoot).
def test_a_dispatched_batch_of_the_preferred_size_takes_one_more() -> None:
    given = config(40, (4,), dims=-1)
    assert sizes(behind_busy(given, [50, 50, 50, 50, 52, 270]), skip=1) == [5, 1]
    # What comes early enough is merged when the instance takes them: seen on the real server.
    assert sizes(behind_busy(given, [50, 50, 50, 50, 52, 54]), skip=1) == [6]


# 1.5: the largest preferred size holds only for what is in Q at that instant.
def test_the_largest_preferred_size_is_taken_of_what_waits_at_once() -> None:
    wake = Timing((5.0 * MS,) * 9, wake_ns=MS // 10)
    done = play(config(0, (2, 4)), Requests(ms([0.0] * 7)), wake)
    assert sizes(done) == [4, 2, 1]


@pytest.mark.parametrize("largest", [0, 1])
def test_a_delay_means_nothing_without_batches(largest: int) -> None:
    done = play(config(50, largest=largest), Requests(ms([0, 10, 20])), even(2, 1))
    assert sizes(done) == [1, 1, 1]
    assert (done.queue_ns() == 0).all()


def test_a_slow_wake_up_merges_requests_that_are_near() -> None:
    near = Requests(ms([0, 0.05, 0.09, 0.2]))
    assert sizes(play(config(0), near, Timing((5.0 * MS,) * 9, wake_ns=MS // 10))) == [3, 1]
    assert sizes(play(config(0), near, even(5))) == [1, 3]


# 1.6: the wake filter does not apply where shapes are enforced.
def test_an_enforced_shape_lets_the_dispatched_batch_grow() -> None:
    assert sizes(behind_busy(config(1, dims=-1), [50, 50, 50, 100]), skip=1) == [4]
    assert sizes(behind_busy(config(1, dims=-1, ragged=True), [50, 50, 50, 100]), skip=1) == [3, 1]


def test_a_dispatched_batch_of_no_preferred_size_is_joined_at_once() -> None:
    """Waking up at 290, the batcher does not wait for the newcomer's own delay."""
    assert sizes(behind_busy(config(20, dims=-1), [50, 50, 50, 290]), skip=1) == [4]
    # Of a preferred size it is left alone: the newcomer waits out its delay, and then runs alone.
    done = behind_busy(config(20, (3, 8), dims=-1), [50, 50, 50, 290])
    assert sizes(done, skip=1) == [3, 1]
    assert done.batch_start_ns[-1] == ms(310)


def test_the_wake_up_threshold_counts_what_the_payload_lacks() -> None:
    """At 400 the open payload holds 4 and one request waits; three more make the preferred size of 8."""
    times = [210] * 4 + [220] * 4 + [230] * 4 + [240, 402, 403, 404]
    planned = ms([0, *times])
    done = play(config(200, (4, 8)), Requests(planned), even(5), batch_ends_ns=ms([400]))
    assert sizes(done, skip=1) == [8, 8]
    assert done.joined_ns[-4:].tolist() == ms([404] * 4).tolist()


def test_a_payload_exactly_as_old_as_the_delay_is_not_frozen() -> None:
    times = [50] * 4 + [60] * 4 + [299] * 4 + [304.5] * 4
    assert sizes(behind_busy(config(1, (4, 8)), times), skip=1) == [8, 8]
    times[8:12] = [298.999] * 4
    assert sizes(behind_busy(config(1, (4, 8)), times), skip=1) == [8, 4, 4]


# 1.8
SHAPES = [1, 1, 2, 2, 1, 3, 3, 3]


def test_another_shape_closes_the_batch() -> None:
    done = behind_busy(config(0, dims=-1), np.arange(1, 9) * 20, shape=SHAPES)
    assert groups(done, SHAPES) == [[1, 1], [2, 2], [1], [3, 3, 3]]
    ragged = behind_busy(config(0, dims=-1, ragged=True), np.arange(1, 9) * 20, shape=SHAPES)
    assert groups(ragged, SHAPES) == [SHAPES]


def test_another_shape_sends_the_batch_before_the_delay_is_over() -> None:
    done = play(config(100, dims=-1), Requests(ms([0, 20, 40]), shape=[1, 2, 2]), even(5))
    assert sizes(done) == [1, 2]
    assert done.batch_start_ns.tolist() == ms([20, 120]).tolist()


def test_payloads_of_two_shapes_do_not_merge() -> None:
    """The second payload is frozen by the attempt (1.6)."""
    times, shapes = [50, 60, 61], [1, 1, 2]
    done = behind_busy(config(1, (2,), dims=-1), times, shape=shapes)
    assert groups(done, shapes) == [[1, 1], [2]]


def test_a_payload_closed_by_a_shape_does_not_freeze_the_next() -> None:
    """The first is marked (MarkSaturated): its dequeue tries no merge, and the second still grows."""
    times, shapes = [50, 50, 50.5, 304.5], [1, 1, 2, 2]
    assert groups(behind_busy(config(1, dims=-1), times, shape=shapes), shapes) == [[1, 1], [2, 2]]


# 1.9
def test_priorities_are_served_level_by_level_and_may_share_a_batch() -> None:
    given = [3, 3, 0, 2, 2, 1, 1, 0, 9]
    block = config(0, largest=4, priority_levels=3, default_priority_level=3)
    done = behind_busy(block, np.arange(1, 10) * 20, priority=given)
    level = [p if 1 <= p <= 3 else 3 for p in given]
    assert groups(done, level) == [[2, 2, 1, 1], [3, 3, 3, 3], [3]]


def test_priorities_are_ignored_without_levels() -> None:
    done = behind_busy(config(0, largest=4), np.arange(1, 6) * 20, priority=[3, 3, 3, 1, 1])
    assert groups(done, [3, 3, 3, 1, 1]) == [[3, 3, 3, 1], [1]]


# 1.10
def test_requests_over_the_limit_are_refused_at_once() -> None:
    done = behind_busy(config(0, policy=QueuePolicy(max_queue_size=3)), np.arange(1, 6) * 20)
    assert done.outcome[1:].tolist() == [Outcome.OK] * 3 + [Outcome.QUEUE_FULL] * 2
    assert done.done_ns[-1] == ms(100)
    assert np.isinf(done.latency_ns()[-1])


def test_the_limit_counts_requests_not_items() -> None:
    done = behind_busy(config(0, policy=QueuePolicy(max_queue_size=3)), [20, 40, 60, 80], items=2)
    assert (done.outcome[1:] == Outcome.QUEUE_FULL).tolist() == [False, False, False, True]


TIMEOUT = QueuePolicy(default_timeout_microseconds=100_000)


def test_a_timeout_is_answered_late_when_the_instance_is_free() -> None:
    done = behind_busy(config(0, policy=TIMEOUT), [50, 250])
    assert done.outcome.tolist() == [Outcome.OK, Outcome.TIMED_OUT, Outcome.OK]
    assert done.done_ns[1] == ms(300)
    assert done.start_ns[1] == -1


def test_a_timeout_is_answered_at_the_tick_while_the_instance_is_busy() -> None:
    load = Requests(ms([0, 50]))
    long = even(5), ms([1500])
    done = play(config(0, policy=TIMEOUT), load, long[0], batch_ends_ns=long[1])
    # The batcher slept from 0 as empty, found the request and no slot at 500, and refuses at 1000.
    assert done.done_ns[1] == ms(1000)
    before = play(setting_of(config(0, policy=TIMEOUT), "24.02"), load, long[0], batch_ends_ns=long[1])
    assert before.done_ns[1] == ms(1500)


def test_the_tick_comes_every_half_second() -> None:
    load = Requests(ms([0, 50, 1100]))
    done = play(config(0, policy=TIMEOUT), load, even(5), batch_ends_ns=ms([3000]))
    assert done.done_ns[1:].tolist() == ms([1000, 1500]).tolist()


def test_the_batcher_wakes_up_for_a_timeout_before_the_delay_is_over() -> None:
    timing = Timing((5.0 * MS,) * 9, wake_ns=MS // 20)
    policy = QueuePolicy(default_timeout_microseconds=5000)
    done = play(config(100, policy=policy), Requests([0]), timing)
    assert done.outcome[0] == Outcome.TIMED_OUT
    assert ms(5) < done.done_ns[0] < ms(5.2)


def test_a_cancel_is_not_seen_in_what_was_scanned_already() -> None:
    """The cursor stays where it is while no timeout of the pending batch has come (IsCursorValid)."""
    policy = QueuePolicy(default_timeout_microseconds=1_000_000)
    load = Requests(ms([0, 50]), give_up_ns=[20 * MS, 0], cancels=True)
    done = play(config(100, policy=policy, dims=-1), load, even(5))
    assert done.outcome.tolist() == [Outcome.ABANDONED, Outcome.OK]
    # Without a timeout every scan begins anew.
    done = play(config(100, policy=LAZY, dims=-1), load, even(5))
    assert done.outcome.tolist() == [Outcome.CANCELLED, Outcome.OK]


def test_a_request_may_shorten_the_timeout_only_where_that_is_allowed() -> None:
    times = [150, 250]
    asked = {"timeout_ns": [20 * MS, 20 * MS]}
    assert behind_busy(config(0, policy=QueuePolicy("REJECT", 200_000)), times, **asked).outcome[1] == 0
    done = behind_busy(config(0, policy=QueuePolicy("REJECT", 200_000, True)), times, **asked)
    assert done.outcome[1:].tolist() == [Outcome.TIMED_OUT] * 2
    # A longer one, or one without a default, changes nothing.
    assert behind_busy(config(0, policy=QueuePolicy("REJECT", 0, True)), times, **asked).outcome[1] == 0
    long = {"timeout_ns": 900 * MS}
    assert behind_busy(config(0, policy=QueuePolicy("REJECT", 20_000, True)), times, **long).outcome[1] == 2


def test_timeouts_do_not_reach_formed_payloads_before_lazy_mode() -> None:
    old = behind_busy(setting_of(config(0, policy=TIMEOUT), "23.07"), [50, 60])
    assert (old.outcome == Outcome.OK).all()
    new = behind_busy(setting_of(config(0, policy=TIMEOUT), "24.10"), [50, 60])
    assert new.outcome[1:].tolist() == [Outcome.TIMED_OUT] * 2


def test_a_client_that_left_is_executed_all_the_same() -> None:
    load = {"give_up_ns": 30 * MS}
    for given in (config(0), config(0, policy=LAZY), config(dynamic=False)):
        done = behind_busy(given, [50, 60], **load)
        assert done.outcome[1:].tolist() == [Outcome.ABANDONED] * 2
        assert done.batch_requests.sum() == 3
        assert np.isinf(done.latency_ns()[1:]).all()


def test_a_cancel_that_reaches_the_server_helps_in_lazy_mode_only() -> None:
    def outcome(given: object) -> list[int]:
        setting = given if not hasattr(given, "dynamic_batching") else setting_of(given)  # type: ignore[arg-type]
        load = Requests(ms([0, 50, 60]), give_up_ns=[0, 30 * MS, 30 * MS], cancels=True)
        return play(setting, load, even(5), batch_ends_ns=ms([300])).outcome[1:].tolist()  # type: ignore[arg-type]

    assert outcome(config(0, policy=LAZY)) == [Outcome.CANCELLED] * 2
    assert outcome(config(0)) == [Outcome.ABANDONED] * 2
    assert outcome(config(dynamic=False)) == [Outcome.ABANDONED] * 2
    assert outcome(setting_of(config(0, policy=LAZY), "23.12")) == [Outcome.CANCELLED] * 2


# 1.4
def lose(*completions: int) -> Draws:
    wakeups = np.ones(50)
    wakeups[list(completions)] = 0.0
    return Draws(wakeups=wakeups)


LOSING = Timing((20.0 * MS,) * 9, lost_wakeup_p=0.5)


def test_a_lost_wake_up_costs_half_a_second() -> None:
    pair = Requests(ms([0, 5]))
    lazy = play(config(0, policy=LAZY), pair, LOSING, draws=lose(0))
    assert lazy.start_ns[1] == ms(520)
    assert lazy.stall_ns[1] == ms(500)
    assert lazy.busy_wait_ns[1] == ms(15)
    eager = play(config(0), pair, LOSING, draws=lose(0))
    assert eager.start_ns[1] == ms(20)
    older = play(setting_of(config(0, policy=LAZY), "24.01"), pair, LOSING, draws=lose(0))
    assert older.start_ns[1] == ms(20)


def test_the_next_arrival_rescues_a_lost_wake_up() -> None:
    done = play(config(0, policy=LAZY), Requests(ms([0, 5, 90])), LOSING, draws=lose(0))
    assert done.start_ns[1:].tolist() == ms([90, 90]).tolist()


def test_another_idle_instance_makes_the_race_harmless() -> None:
    done = play(config(0, policy=LAZY, instances=2), Requests(ms([0, 5, 10])), LOSING, draws=lose(0, 1, 2))
    assert done.stall_ns.tolist()[:2] == [0, 0]
    # The third waited while both were busy; the first completion was lost, the second found a free instance.
    assert done.start_ns[2] == ms(25)


# Contention, overheads, replay.
def test_contention_stretches_by_the_others_active_at_the_start() -> None:
    timing = Timing((10.0 * MS,) * 9, contention=(0.5,))
    done = play(config(0, instances=3), Requests(ms([0, 1, 2])), timing)
    assert (done.batch_done_ns - done.batch_start_ns).tolist() == ms([10, 15, 20]).tolist()


def test_overheads_are_added_where_they_belong() -> None:
    timing = Timing((10.0 * MS,) * 9, send_ns=MS, reply_ns=2 * MS, turnaround_ns=3 * MS)
    done = play(config(0), Requests(ms([0, 5])), timing)
    assert done.arrived_ns.tolist() == ms([1, 6]).tolist()
    assert done.done_ns.tolist() == ms([13, 26]).tolist()
    assert done.start_ns[1] == ms(14)


def test_replay_ends_batches_when_they_really_ended() -> None:
    load = Requests(ms([0, 5, 6, 40]))
    done = play(config(0), load, even(10), batch_ends_ns=ms([33, 47]))
    assert done.batch_start_ns.tolist() == ms([0, 33, 47]).tolist()
    assert done.batch_done_ns.tolist() == ms([33, 47, 57]).tolist()
    assert sizes(done) == [1, 2, 1]


def test_common_draws_make_settings_comparable() -> None:
    """The same noise for the k-th batch of either setting, however many batches there are."""
    noise = Draws(noise=np.array([1.0, 3.0, 0.5, 2.0]))
    one = play(config(0), Requests(ms([0, 100, 200, 300])), even(10), draws=noise)
    two = play(config(20), Requests(ms([0, 100, 200, 300])), even(10), draws=noise)
    for done in (one, two):
        assert (done.batch_done_ns - done.batch_start_ns).tolist() == ms([10, 30, 5, 20]).tolist()
