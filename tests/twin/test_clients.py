"""Clients that give up, retry and keep a budget: timelines by hand, and what must hold for every load."""

from __future__ import annotations

from dataclasses import replace

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from test_twin_properties import Case, cases
from twin_play import MS, assert_same, config, ms, play

from tritune.errors import TrituneError, UsageError
from tritune.model.client import ClientPolicy
from tritune.model.config import QueuePolicy
from tritune.twin.engine.setting import Setting
from tritune.twin.engine.simulate import ClosedLoop, Outcome, Requests, Simulated, simulate
from tritune.twin.engine.timing import Timing

FOREVER = 10**6 * MS
ONE = Setting()  # one instance, one request at a time
NETWORK = Timing((0, 30.0 * MS), send_ns=MS, reply_ns=2 * MS)
POLICY = ClientPolicy(timeout_ns=50 * MS, retries=1, backoff_ns=5 * MS, jitter=0)


def slow(policy: ClientPolicy, count: int = 6, seed: int = 1) -> Simulated:
    """Requests every ms, none of which is ever answered in time."""
    load = Requests(np.arange(count) * MS, client=policy)
    return play(ONE, load, Timing((0, 1000.0 * MS)), seed=seed)


def retried_after_ns(done: Simulated, k: int, timeout_ns: int = 50 * MS) -> np.ndarray:
    """Per request: from the end of attempt k to the next one."""
    by_request = {(q, a): t for q, a, t in zip(done.request, done.attempt, done.sent_ns, strict=True)}
    requests = range(int(done.request.max()) + 1)
    return np.array([by_request[q, k + 1] - by_request[q, k] - timeout_ns for q in requests])


# By hand ----------------------------------------------------------------------------------------------------


def test_one_timeout_and_one_retry() -> None:
    # The first runs from 1 to 31 ms. The second runs from 31 to 61, its answer would be there at 63 and is
    # given up at 60; the retry is sent at 65, runs from 66 to 96 and is answered at 98.
    done = play(ONE, Requests(ms([0, 10]), client=POLICY), NETWORK)
    assert done.request.tolist() == [0, 1, 1]
    assert done.attempt.tolist() == [0, 0, 1]
    assert done.planned_ns.tolist() == ms([0, 10, 10]).tolist()
    assert done.sent_ns.tolist() == ms([0, 10, 65]).tolist()
    assert done.arrived_ns.tolist() == ms([1, 11, 66]).tolist()
    assert done.start_ns.tolist() == ms([1, 31, 66]).tolist()
    assert done.done_ns.tolist() == ms([33, 63, 98]).tolist()
    assert done.outcome.tolist() == [Outcome.OK, Outcome.ABANDONED, Outcome.OK]
    assert done.wasted().tolist() == [False, True, False]
    assert done.latency_ns().tolist() == ms([33, 88]).tolist()
    assert done.attempts_per_request().tolist() == [1, 2]
    assert done.queue_ns().tolist() == ms([0, 20, 0]).tolist()
    assert done.throughput_per_s(0, 100 * MS) == pytest.approx(30)
    assert done.goodput_per_s(0, 100 * MS) == pytest.approx(20)
    assert done.goodput_per_s(0, 98 * MS) == pytest.approx(1 / 0.098)
    assert done.goodput_per_s(33 * MS) == pytest.approx(2 / 0.065, rel=1e-6)


def test_an_answer_at_the_last_instant_counts() -> None:
    at = msgspec.structs.replace(POLICY, timeout_ns=53 * MS)
    done = play(ONE, Requests(ms([0, 10]), client=at), NETWORK)
    assert done.latency_ns().tolist() == ms([33, 53]).tolist()
    done = play(
        ONE, Requests(ms([0, 10]), client=msgspec.structs.replace(at, timeout_ns=53 * MS - 1)), NETWORK
    )
    assert done.attempts_per_request().tolist() == [1, 2]


def test_a_request_whose_last_attempt_fails_is_infinitely_late() -> None:
    # An early attempt that was executed in the end does not count either.
    done = slow(POLICY)
    assert np.isinf(done.latency_ns()).all()
    assert len(done.request) == 12
    assert done.goodput_per_s() == 0 < done.throughput_per_s()
    assert done.wasted().all()


def test_a_refusal_is_retried_and_backoff_grows_to_its_cap() -> None:
    policy = ClientPolicy(retries=4, backoff_ns=2 * MS, backoff_factor=3, backoff_cap_ns=10 * MS, jitter=0)
    queue = config(0, policy=QueuePolicy(max_queue_size=1), largest=1)
    timing = Timing((0, 500.0 * MS), send_ns=MS, reply_ns=2 * MS)
    done = play(queue, Requests(ms([0, 1, 2]), client=policy), timing)
    third = done.request == 2
    assert done.outcome[third].tolist() == [Outcome.QUEUE_FULL] * 5
    # 1 ms there, 2 ms back, then the backoff.
    assert np.diff(done.sent_ns[third]).tolist() == ms([5, 9, 13, 13]).tolist()
    assert np.isinf(done.latency_ns()).tolist() == [False, False, True]


def test_backoff_without_jitter_is_exact_and_doubles() -> None:
    done = slow(ClientPolicy(timeout_ns=50 * MS, retries=3, backoff_ns=8 * MS, jitter=0))
    for k in range(3):
        assert (retried_after_ns(done, k) == 8 * MS * 2**k).all()


def test_jitter_is_uniform_and_the_same_whatever_the_setting() -> None:
    full = ClientPolicy(timeout_ns=50 * MS, retries=2, backoff_ns=8 * MS)
    waits = retried_after_ns(slow(full, 30), 0)
    assert (waits >= 0).all()
    assert (waits <= 8 * MS).all()
    assert waits.std() == pytest.approx(8 * MS / 12**0.5, rel=0.35)
    # Fewer requests, more retries, another server: the same chance.
    assert (retried_after_ns(slow(full, 6), 0) == waits[:6]).all()
    more = msgspec.structs.replace(full, retries=3)
    assert (retried_after_ns(slow(more, 30), 0) == waits).all()
    load = Requests(np.arange(30) * MS, client=full)
    other = simulate(Setting(4, 2, True, (2,), MS), load, Timing((0, 900.0 * MS, 950.0 * MS)))
    assert (retried_after_ns(other, 0) == waits).all()
    # Half a jitter takes off half as much; another seed takes off something else.
    half = retried_after_ns(slow(msgspec.structs.replace(full, jitter=0.5), 30), 0)
    assert np.abs(half - (8 * MS + waits) / 2).max() <= 1
    assert (retried_after_ns(slow(full, 30, seed=2), 0) != waits).any()


@pytest.mark.parametrize(("successes", "attempts"), [(9, 1), (10, 2)])
def test_ten_successes_of_a_tenth_make_one_token(successes: int, attempts: int) -> None:
    policy = ClientPolicy(timeout_ns=50 * MS, retries=1, jitter=0, retry_budget=0.1, budget_burst=1)
    # The first is too slow and takes the only token; its retry is the first success. The last is too slow.
    planned = [0, *range(200, 200 + 10 * (successes - 1), 10), 400]
    ends = [95, 96, *(t + 1 for t in planned[1:-1]), 500]
    load = Requests(ms(planned), client=policy)
    done = play(ONE, load, Timing((0, 1.0 * MS)), batch_ends_ns=ms(ends))
    assert done.attempts_per_request().tolist() == [2, *[1] * (successes - 1), attempts]


def test_a_budget_is_full_at_first_and_never_more_than_full() -> None:
    policy = ClientPolicy(timeout_ns=50 * MS, retries=5, retry_budget=0.0, budget_burst=3)
    assert len(slow(policy).request) == 6 + 3
    ends = ms([*(10 * t + 1 for t in range(20)), 400])
    planned = ms([*range(0, 200, 10), 210, 211, 212, 213, 214])
    load = Requests(planned, client=msgspec.structs.replace(policy, retries=1, retry_budget=1))
    done = play(ONE, load, Timing((0, 500.0 * MS)), batch_ends_ns=ends)
    assert done.attempts_per_request()[20:].sum() == 5 + 3


def test_cancels_that_reach_the_server_save_executions() -> None:
    policy = ClientPolicy(timeout_ns=30 * MS, retries=1, jitter=0)
    lazy = config(0, policy=QueuePolicy(max_queue_size=1000), largest=1)
    load = Requests(np.arange(40) * 5 * MS, client=policy)
    timing = Timing((0, 10.0 * MS), send_ns=MS, reply_ns=MS)
    executed = play(lazy, load, timing)
    told = play(lazy, replace(load, client=msgspec.structs.replace(policy, cancels=True)), timing)
    assert (told.outcome == Outcome.CANCELLED).any()
    assert not (executed.outcome == Outcome.CANCELLED).any()
    assert told.wasted().sum() < executed.wasted().sum()


def test_a_closed_loop_goes_on_when_its_client_gives_up() -> None:
    load = ClosedLoop(1, 3, pause_ns=7 * MS, client=ClientPolicy(timeout_ns=50 * MS))
    done = play(ONE, load, Timing((0, 60.0 * MS)))
    assert done.planned_ns.tolist() == ms([0, 57, 114]).tolist()
    assert done.start_ns.tolist() == ms([0, 60, 120]).tolist()
    # With a retry a request ends with its last attempt.
    done = play(ONE, replace(load, client=POLICY), Timing((0, 60.0 * MS)))
    assert done.planned_ns[done.attempt == 0].tolist() == ms([0, 112, 224]).tolist()


def test_refusals_do_not_turn_time_back_in_a_closed_loop() -> None:
    queue = config(0, policy=QueuePolicy(max_queue_size=2), largest=2)
    timing = Timing((0, 5.0 * MS, 6.0 * MS), cv=0.3, turnaround_ns=2 * MS)
    done = play(queue, ClosedLoop(6, 200, pause_ns=MS), timing)
    assert (done.outcome == Outcome.QUEUE_FULL).any()
    assert (np.diff(done.arrived_ns) >= 0).all()


# Whatever the load ------------------------------------------------------------------------------------------


def plain(case: Case) -> Case:
    """The case without clients that give up."""
    return replace(case, load=replace(case.load, give_up_ns=0, cancels=False))


@settings(max_examples=100, deadline=None)
@given(cases())
def test_a_client_that_never_acts_changes_nothing(case: Case) -> None:
    case = plain(case)
    without = case.play()
    idle = replace(case, load=replace(case.load, client=ClientPolicy())).play()
    assert_same(idle, without)
    patient = replace(case, load=replace(case.load, client=ClientPolicy(timeout_ns=FOREVER, cancels=True)))
    assert_same(patient.play(), without)


@settings(max_examples=60, deadline=None)
@given(cases(), st.sampled_from([MS, 4 * MS, 9 * MS]), st.booleans())
def test_giving_up_by_policy_is_giving_up_by_request(case: Case, timeout_ns: int, cancels: bool) -> None:
    bare = plain(case).load
    requests = replace(case, load=replace(bare, give_up_ns=timeout_ns, cancels=cancels))
    policy = ClientPolicy(timeout_ns=timeout_ns, cancels=cancels)
    assert_same(replace(case, load=replace(bare, client=policy)).play(), requests.play())


@settings(max_examples=30, deadline=None)
@given(cases(), st.integers(1, 9), st.integers(0, 3))
def test_a_patient_closed_loop_is_one_without_clients(case: Case, concurrency: int, pause_ms: int) -> None:
    # Odd durations: where an answer, the next request and a completion meet, their order differs; and
    # without clients the loop hears of an answer only when the instance is free again.
    timing = msgspec.structs.replace(case.timing, send_ns=123_457, reply_ns=234_571, turnaround_ns=0)
    loop = ClosedLoop(concurrency, 30, pause_ns=pause_ms * MS)
    with_client = replace(loop, client=ClientPolicy(timeout_ns=FOREVER))
    assert_same(
        play(case.setting, with_client, timing, seed=case.seed),
        play(case.setting, loop, timing, seed=case.seed),
    )


POLICIES = st.builds(
    ClientPolicy,
    timeout_ns=st.sampled_from([0, MS, 5 * MS, 20 * MS]),
    retries=st.integers(0, 3),
    backoff_ns=st.sampled_from([0, MS, 7 * MS]),
    jitter=st.sampled_from([0.0, 0.3, 1.0]),
    retry_budget=st.sampled_from([None, 0.0, 0.1, 0.9]),
    budget_burst=st.sampled_from([0.0, 2.0, 10.0]),
    cancels=st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(cases(), POLICIES)
def test_each_request_ends_once_within_its_retries_and_the_budget(case: Case, policy: ClientPolicy) -> None:
    count = len(np.asarray(case.load.planned_ns))
    done = replace(case, load=replace(plain(case).load, client=policy)).play()
    attempts = done.attempts_per_request()
    assert len(attempts) == count == len(done.latency_ns())
    assert attempts.min() >= 1
    assert attempts.max() <= 1 + policy.retries
    assert (np.diff(done.sent_ns) >= 0).all()
    ok = done.outcome == Outcome.OK
    answered = np.bincount(done.request[ok], minlength=count)
    assert answered.max() <= 1
    assert (np.isfinite(done.latency_ns()) == (answered == 1)).all()
    # Nothing follows an answer, and each retry follows a failure.
    assert (done.attempt[ok] == attempts[done.request[ok]] - 1).all()
    if policy.retry_budget is not None:
        retries, successes = len(done.request) - count, int(ok.sum())
        assert retries <= policy.budget_burst + policy.retry_budget * successes + 1e-9
    elif not ok.all():
        failed = answered == 0
        assert (attempts[failed] == 1 + policy.retries).all()
    if policy.timeout_ns:
        assert (done.done_ns[ok] - done.sent_ns[ok] <= policy.timeout_ns).all()
        again = np.flatnonzero(done.attempt > 0)
        before = {(q, a): t for q, a, t in zip(done.request, done.attempt, done.sent_ns, strict=True)}
        for row in again:
            gap = done.sent_ns[row] - before[done.request[row], done.attempt[row] - 1]
            assert 0 <= gap <= policy.timeout_ns + policy.backoff_ns * 2**2
    executed = done.start_ns >= 0
    assert (executed == np.isin(done.outcome, [Outcome.OK, Outcome.ABANDONED])).all()
    assert done.batch_requests.sum() == executed.sum()
    parts = done.batch_wait_ns + done.stall_ns + done.busy_wait_ns + done.formed_wait_ns
    assert (parts[executed] == done.queue_ns()).all()


# Refused ----------------------------------------------------------------------------------------------------


def test_hedging_is_refused() -> None:
    with pytest.raises(TrituneError) as caught:
        slow(ClientPolicy(hedge_ns=10 * MS))
    assert caught.value.slug == "twin-unsupported"


@pytest.mark.parametrize(
    "policy",
    [
        ClientPolicy(timeout_ns=-1),
        ClientPolicy(timeout_ns=1, retries=-1),
        ClientPolicy(timeout_ns=1, jitter=1.1),
        ClientPolicy(timeout_ns=1, retry_budget=-0.1),
        ClientPolicy(timeout_ns=1, budget_burst=float("inf")),
        ClientPolicy(timeout_ns=1, retries=100, backoff_ns=1),
    ],
)
def test_policies_that_make_no_sense(policy: ClientPolicy) -> None:
    with pytest.raises(UsageError) as caught:
        slow(policy)
    assert caught.value.slug == "bad-client"


def test_giving_up_twice_is_one_too_many() -> None:
    with pytest.raises(UsageError) as caught:
        simulate(ONE, Requests([0], give_up_ns=MS, client=POLICY), NETWORK)
    assert caught.value.slug == "bad-plan"
