"""What must hold for every configuration, every load and every chance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from twin_play import MS, assert_same, play

from tritune.twin.engine.setting import Policy, Setting
from tritune.twin.engine.simulate import Outcome, Requests, Simulated, simulate
from tritune.twin.engine.timing import Timing

US = 1000


@dataclass(frozen=True)
class Case:
    setting: Setting
    load: Requests
    timing: Timing
    seed: int

    def play(self) -> Simulated:
        return play(self.setting, self.load, self.timing, seed=self.seed)

    @property
    def level(self) -> np.ndarray:
        asked = np.asarray(self.load.priority)
        fits = (asked >= 1) & (asked <= self.setting.priority_levels)
        return np.where(fits, asked, self.setting.default_priority_level)


@st.composite
def policies(draw: st.DrawFn) -> Policy:
    return Policy(
        max_queue_size=draw(st.sampled_from([0, 0, 2, 5])),
        default_timeout_ns=draw(st.sampled_from([0, 0, 3 * MS, 20 * MS])),
        allow_timeout_override=draw(st.booleans()),
    )


@st.composite
def cases(draw: st.DrawFn, *, plain: bool = False) -> Case:
    """Any configuration that setting_of could make; `plain`: eager, without delay and wake-up time."""
    largest = draw(st.integers(0, 9))
    levels = 0 if plain else draw(st.sampled_from([0, 0, 2, 3]))
    rules = tuple(Policy() if plain else draw(policies()) for _ in range(max(1, levels)))
    policy = rules[0]
    compared = draw(st.booleans())
    setting = Setting(
        instances=draw(st.integers(1, 4)),
        max_batch_size=largest,
        dynamic=draw(st.booleans()) or draw(st.booleans()),
        preferred=tuple(sorted(draw(st.sets(st.integers(1, largest), min_size=1)))) if largest else (),
        delay_ns=0 if plain else draw(st.sampled_from([0, 100 * US, 2 * MS, 12 * MS])),
        eager=not levels and policy == Policy(),
        priority_levels=levels,
        default_priority_level=levels and draw(st.integers(1, levels)),
        policies=rules,
        inputs_compared=compared,
        shapes_enforced=compared and draw(st.booleans()),
        ticks=plain or draw(st.booleans()),
    )
    count = draw(st.integers(1, 40))
    rng = np.random.default_rng(draw(st.integers(0, 2**32)))
    gap_ns = draw(st.sampled_from([50 * US, 500 * US, 3 * MS]))
    step = draw(st.sampled_from([1, US, MS]))  # coarse steps make many events meet at one instant
    planned = np.cumsum(rng.exponential(gap_ns, count)).astype(np.int64) // step * step
    load = Requests(
        planned,
        items=rng.integers(1, max(1, min(largest, 3)) + 1, count),
        shape=rng.integers(0, draw(st.integers(1, 3)), count),
        priority=rng.integers(0, levels + 2, count),
        timeout_ns=rng.choice([0, MS, 10 * MS], count),
        give_up_ns=rng.choice([0, 0, 5 * MS], count),
        cancels=not plain and draw(st.booleans()),
    )
    timing = Timing(
        tuple(2.0 * MS + 0.3 * MS * b for b in range(max(1, largest) + 1)),
        contention=(draw(st.sampled_from([0.0, 0.5])),),
        cv=draw(st.sampled_from([0.0, 0.2])),
        stall_p=draw(st.sampled_from([0.0, 0.1])),
        stall_ns=30 * MS,
        send_ns=draw(st.sampled_from([0, 300 * US])),
        reply_ns=200 * US,
        turnaround_ns=0 if plain else draw(st.sampled_from([0, 100 * US])),
        wake_ns=0 if plain else draw(st.sampled_from([0, 60 * US])),
        lost_wakeup_p=draw(st.sampled_from([0.0, 0.5])),
    )
    return Case(setting, load, timing, draw(st.integers(0, 100)))


@settings(max_examples=300, deadline=None)
@given(cases())
def test_the_laws_of_every_run(case: Case) -> None:
    """All of them on the same runs: to draw a case takes longer than to play it and to check it."""
    done = case.play()
    every_request_ends_once_and_every_batch_is_made_of_requests(case, done)
    batches_respect_time_size_shape_and_instances(case, done)
    first_in_first_out_within_a_level(case, done)
    queue_parts_are_not_negative_and_add_up(case, done)
    refusals_have_a_reason(case, done)
    assert_same(done, simulate(case.setting, case.load, case.timing, seed=case.seed))


def every_request_ends_once_and_every_batch_is_made_of_requests(case: Case, done: Simulated) -> None:
    executed = done.batch >= 0
    assert (executed == (done.start_ns >= 0)).all()
    assert (executed == np.isin(done.outcome, [Outcome.OK, Outcome.ABANDONED])).all()
    assert (done.server_done_ns >= done.arrived_ns).all()
    batches = len(done.batch_start_ns)
    assert (np.bincount(done.batch[executed], minlength=batches) == done.batch_requests).all()
    items = np.bincount(done.batch[executed], weights=done.items[executed], minlength=batches)
    assert (items == done.batch_items).all()
    assert (done.start_ns[executed] == done.batch_start_ns[done.batch[executed]]).all()
    assert (done.server_done_ns[executed] == done.batch_done_ns[done.batch[executed]]).all()
    assert (np.diff(done.batch_start_ns) >= 0).all()


def batches_respect_time_size_shape_and_instances(case: Case, done: Simulated) -> None:
    executed = done.batch >= 0
    assert (done.arrived_ns[executed] <= done.joined_ns[executed]).all()
    assert (done.joined_ns[executed] <= done.start_ns[executed]).all()
    assert done.batch_items.max(initial=0) <= case.setting.largest
    if not case.setting.dynamic:
        assert (done.batch_requests == 1).all()
    if case.setting.inputs_compared:
        shapes = np.asarray(case.load.shape)
        for batch in range(len(done.batch_start_ns)):
            assert len(set(shapes[done.batch == batch])) == 1
    for instance in range(case.setting.instances):
        mine = done.batch_instance == instance
        free = done.batch_done_ns[mine] + case.timing.turnaround_ns
        assert (done.batch_start_ns[mine][1:] >= free[:-1]).all()


def first_in_first_out_within_a_level(case: Case, done: Simulated) -> None:
    for level in range(case.setting.priority_levels + 1):
        mine = (done.batch >= 0) & (case.level == level)
        assert (np.diff(done.start_ns[mine]) >= 0).all()
        assert (np.diff(done.joined_ns[mine]) >= 0).all()


def queue_parts_are_not_negative_and_add_up(case: Case, done: Simulated) -> None:
    executed = done.batch >= 0
    parts = (done.batch_wait_ns, done.stall_ns, done.busy_wait_ns, done.formed_wait_ns)
    assert all((part[executed] >= 0).all() for part in parts)
    assert (sum(part[executed] for part in parts) == done.queue_ns()).all()
    if case.setting.delay_ns == 0 or not case.setting.dynamic:
        assert (done.batch_wait_ns == 0).all()
    # The clock of the delay runs from a request's own arrival at the latest.
    limit = case.setting.delay_ns + case.timing.wake_ns * (1 + len(done.start_ns))
    assert (done.batch_wait_ns[executed] <= limit).all()


def refusals_have_a_reason(case: Case, done: Simulated) -> None:
    policy = [Policy(), *case.setting.policies] if case.setting.priority_levels else case.setting.policies
    level = case.level if case.setting.priority_levels else np.zeros(len(done.batch), int)
    own = np.broadcast_to(case.load.timeout_ns, len(done.batch))
    for r, outcome in enumerate(done.outcome):
        rule = policy[level[r]] if case.setting.dynamic else Policy()
        limit = rule.default_timeout_ns
        if rule.allow_timeout_override and 0 < own[r] < limit:
            limit = own[r]
        if outcome == Outcome.TIMED_OUT:
            assert limit
            assert done.server_done_ns[r] > done.arrived_ns[r] + limit
        elif outcome == Outcome.QUEUE_FULL:
            assert rule.max_queue_size
            assert done.server_done_ns[r] == done.arrived_ns[r]
        elif outcome == Outcome.CANCELLED:
            assert case.load.cancels
        elif limit:
            assert done.joined_ns[r] <= done.arrived_ns[r] + limit


@settings(max_examples=300, deadline=None)
@given(cases(plain=True))
def test_no_instance_idles_while_requests_wait_in_eager_mode_without_delay(case: Case) -> None:
    done = case.play()
    assert (done.batch_wait_ns == 0).all()
    assert (done.stall_ns == 0).all()
