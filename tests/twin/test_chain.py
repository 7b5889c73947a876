"""An ensemble as a chain: against its steps alone, known tandem queues, and what the rules say by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from ensembles import chain, ensemble, serves
from hypothesis import given, settings
from hypothesis import strategies as st
from twin_play import LAZY, MS, config, ms

from tritune.arrivals.processes import plan
from tritune.errors import TrituneError, UsageError
from tritune.model.client import ClientPolicy
from tritune.model.config import QueuePolicy
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import ClosedLoop, Outcome, Requests, simulate
from tritune.twin.engine.timing import Timing
from tritune.twin.ensemble.chain import HandOver, Served, simulate_chain
from tritune.twin.ensemble.wiring import wiring

TANDEM = ensemble("a: in -> mid", "b: mid -> out")
# A thread never wakes up in no time; with a nanosecond it finds all that came at one instant.
AWAKE = 1


def noisy(base_ms: float, item_ms: float, largest: int = 8, **more: Any) -> Timing:
    return Timing(tuple((base_ms + item_ms * b) * MS for b in range(largest + 1)), cv=0.1, **more)


def test_a_chain_of_one_step_is_that_step() -> None:
    timing = noisy(3, 0.5, send_ns=70_000, reply_ns=30_000)
    model = Served(setting_of(config(2, (4, 8), instances=2)), timing)
    load = Requests(plan(500, "poisson", 3, count=3000), items=1)
    alone = simulate(model.setting, load, timing, seed=9)
    play = chain(ensemble("a: in -> out"), {"a": model}, load, send_ns=70_000, reply_ns=30_000, seed=9)
    np.testing.assert_array_equal(play.done_ns, alone.done_ns)
    [step] = play.steps
    for name in ("start_ns", "arrived_ns", "batch_wait_ns", "busy_wait_ns", "formed_wait_ns", "stall_ns"):
        np.testing.assert_array_equal(getattr(step, name), getattr(alone, name), err_msg=name)


def test_behind_an_equal_deterministic_server_nobody_waits() -> None:
    """M/D/1 -> ./D/1 with equal times: departures are at least one service apart (Friedman 1965)."""
    models = {"a": serves(5, largest=1), "b": serves(5, largest=1)}
    play = chain(TANDEM, models, plan(160, "poisson", 1, count=20_000))
    first, second = play.steps
    assert (first.start_ns - first.arrived_ns).max() > 20 * MS
    np.testing.assert_array_equal(second.start_ns, second.arrived_ns)
    np.testing.assert_array_equal(play.latency_ns(), second.done_ns - play.planned_ns)


@pytest.mark.parametrize("times", [(2, 6), (6, 2)])
def test_the_order_of_deterministic_servers_does_not_matter(times: tuple[int, int]) -> None:
    """Time in a tandem of single deterministic servers depends on the slowest alone (Friedman 1965)."""
    arrivals = plan(150, "poisson", 2, count=10_000)
    models = {name: serves(time, largest=1) for name, time in zip("ab", times, strict=True)}
    play = chain(TANDEM, models, arrivals)
    slow = simulate(models["a"].setting, Requests(arrivals), serves(6, largest=1).timing)
    np.testing.assert_array_equal(play.latency_ns(), slow.latency_ns() + 2 * MS)


def departures(models: dict[str, Served], hand_over: HandOver = HandOver()) -> tuple[list[int], list[int]]:  # noqa: B008
    """Batches of step 1 and of step 2 for one request and then four together, all long after each other."""
    times = [0, 100, 101, 102, 103]
    play = chain(TANDEM, models, ms(times), hand_over=hand_over)
    return tuple(play.models[name].batch_items.tolist() for name in "ab")  # type: ignore[return-value]


def wakes(service_ms: float, ns: int = AWAKE, **setting: Any) -> Served:
    served = serves(service_ms, **setting)
    return Served(served.setting, Timing(served.timing.service_ns, wake_ns=ns))


def test_what_left_together_arrives_together() -> None:
    slow = serves(20)
    # Step 1 gives 1, 1, 3: the first of the four finds it idle.
    assert departures({"a": slow, "b": wakes(2)}) == ([1, 1, 3], [1, 1, 3])
    # A batcher that wakes up at once hands the first answer to the idle instance, alone (semantics 1.5).
    assert departures({"a": slow, "b": serves(2)}) == ([1, 1, 3], [1, 1, 1, 2])
    # With a delay it waits for the others; a smaller maximum cuts them.
    assert departures({"a": slow, "b": serves(2, delay_ms=1)}) == ([1, 1, 3], [1, 1, 3])
    assert departures({"a": slow, "b": wakes(2, largest=2)}) == ([1, 1, 3], [1, 1, 2, 1])
    # Two instances that are there at once take one each, and the third finds both busy.
    assert departures({"a": slow, "b": serves(2, instances=2)}) == ([1, 1, 3], [1, 1, 1, 1, 1])


def test_answers_that_leave_one_after_the_other() -> None:
    slow, spacing = serves(20), 50_000
    apart = HandOver(spacing_ns=spacing)
    assert departures({"a": slow, "b": wakes(2)}, apart) == ([1, 1, 3], [1, 1, 1, 2])
    assert departures({"a": slow, "b": wakes(2, 3 * spacing)}, apart) == ([1, 1, 3], [1, 1, 3])
    play = chain(TANDEM, {"a": slow, "b": serves(2)}, ms([0, 100, 101, 102]), hand_over=apart)
    first, second = play.steps
    behind = first.done_ns - second.arrived_ns
    assert behind.tolist() == [0, 0, spacing, 0]


def test_the_spacing_varies_from_batch_to_batch_about_its_median() -> None:
    models = {"a": serves(4), "b": wakes(0.5)}
    play = chain(
        TANDEM, models, plan(400, "poisson", 3, count=6000), hand_over=HandOver(spacing_ns=50_000, spread=0.5)
    )
    first, second = play.models["a"], play.steps[1]
    gaps = [np.diff(second.arrived_ns[first.batch == k]) for k in np.flatnonzero(first.batch_requests > 1)]
    assert all(np.ptp(gap) <= 1 for gap in gaps)  # one stretch for the whole batch
    logs = np.log([gap[0] / 50_000 for gap in gaps])
    assert np.median(logs) == pytest.approx(0, abs=0.06)
    assert np.std(logs) == pytest.approx(0.5, abs=0.05)


def test_the_answer_waits_for_the_later_branch() -> None:
    tree = ensemble("left: in -> l", "right: in -> r", "join: l r -> out")
    models = {"left": serves(3), "right": serves(8), "join": serves(1)}
    play = chain(tree, models, ms([0, 100]), hand_over=HandOver(ns=10_000))
    left, right, join = play.steps
    assert (left.arrived_ns == right.arrived_ns).all()
    np.testing.assert_array_equal(join.arrived_ns, np.maximum(left.answered_ns, right.answered_ns))
    np.testing.assert_array_equal(play.latency_ns(), [9 * MS + 20_000] * 2)


def test_a_step_whose_tensors_nobody_asked_for_does_not_hold_up_the_answer() -> None:
    tree = ensemble("fast: in -> out", "slow: in -> unused")
    play = chain(tree, {"fast": serves(3), "slow": serves(50)}, ms([0, 100]))
    assert play.latency_ns().tolist() == [3 * MS] * 2
    assert (play.steps[1].done_ns - play.planned_ns).tolist() == [50 * MS] * 2


def test_an_output_that_comes_early_does_not_let_the_answer_leave() -> None:
    both = ensemble("a: in -> mid", "b: mid -> out", makes="mid out")
    assert chain(both, {"a": serves(3), "b": serves(5)}, ms([0])).latency_ns().tolist() == [8 * MS]


def test_two_steps_of_one_model_meet_in_its_queue() -> None:
    twice = ensemble("m: in -> one", "m: in -> two", "n: one two -> out")
    play = chain(twice, {"m": serves(4, dynamic=False), "n": serves(1)}, ms([0, 100]))
    one, two, _ = play.steps
    assert (two.start_ns == one.done_ns).all()
    assert play.models["m"].batch_items.tolist() == [1, 1, 1, 1]
    assert play.latency_ns().tolist() == [9 * MS] * 2
    later = ensemble("a: in -> mid", "m: in -> one", "m: mid -> two", makes="one two")
    play = chain(later, {"a": serves(2), "m": serves(4, dynamic=False)}, ms([0]))
    assert play.steps[2].arrived_ns.tolist() == [2 * MS]
    assert play.latency_ns().tolist() == [8 * MS]


def test_items_pass_whole_and_count_as_one_where_nothing_is_batched() -> None:
    models = {"a": serves(4), "b": serves(1, largest=0)}
    play = chain(TANDEM, models, Requests(ms([0, 100]), items=[2, 5]))
    assert play.models["a"].batch_items.tolist() == [2, 5]
    assert play.models["b"].batch_items.tolist() == [1, 1]
    with pytest.raises(UsageError) as caught:
        chain(TANDEM, {"a": serves(4), "b": serves(1, largest=4)}, Requests(ms([0]), items=5))
    assert caught.value.slug == "bad-items"


def test_what_a_step_refuses_never_reaches_the_next() -> None:
    models = {"a": serves(20, policy=QueuePolicy(max_queue_size=1)), "b": serves(1)}
    play = chain(TANDEM, models, ms([0, 1, 2, 3]), reply_ns=7)
    assert play.outcome.tolist() == [Outcome.OK, Outcome.OK, Outcome.QUEUE_FULL, Outcome.QUEUE_FULL]
    assert (play.steps[1].arrived_ns >= 0).tolist() == [True, True, False, False]
    assert np.isinf(play.latency_ns()).tolist() == [False, False, True, True]
    assert play.done_ns[2:].tolist() == [2 * MS + 7, 3 * MS + 7]


@given(
    st.lists(st.integers(0, 4 * MS), min_size=1, max_size=60),
    st.tuples(*[st.sampled_from([0.0, 0.5, 3.0])] * 2),
    st.tuples(*[st.integers(1, 3)] * 2),
    st.sampled_from([0, 40_000]),
)
@settings(max_examples=60, deadline=None)
def test_every_request_passes_every_step_once(
    gaps: list[int], delays: tuple[float, float], instances: tuple[int, int], spacing: int
) -> None:
    models = {
        name: Served(setting_of(config(delay, instances=count)), noisy(1, 0.4, wake_ns=20_000))
        for name, delay, count in zip("ab", delays, instances, strict=True)
    }
    hand_over = HandOver(15_000, spacing, 0.9)
    play = chain(TANDEM, models, np.cumsum(gaps), hand_over=hand_over)
    n = len(gaps)
    for name, step in zip("ab", play.steps, strict=True):
        model = play.models[name]
        assert model.batch_requests.sum() == n == len(model.start_ns)
        assert model.batch_items.max() <= 8
        parts = step.batch_wait_ns + step.stall_ns + step.busy_wait_ns + step.formed_wait_ns
        np.testing.assert_array_equal(parts, step.start_ns - step.arrived_ns)
        assert (parts >= 0).all()
    first, second = play.steps
    np.testing.assert_array_equal(second.arrived_ns, first.answered_ns)
    assert (second.arrived_ns >= first.start_ns).all()
    np.testing.assert_array_equal(play.done_ns, second.answered_ns)
    # The counters of the ensemble: what is neither queue nor execution is hand-over alone.
    inside = sum((s.done_ns - s.arrived_ns for s in play.steps), np.zeros(n, np.int64))
    outside = play.latency_ns() - inside
    assert (outside <= 30_000).all()
    if not spacing:
        assert (outside == 30_000).all()
    again = chain(TANDEM, models, np.cumsum(gaps), hand_over=hand_over)
    np.testing.assert_array_equal(again.done_ns, play.done_ns)


def test_models_have_noise_of_their_own() -> None:
    models = {name: Served(setting_of(config(largest=1)), noisy(1, 0, 1)) for name in "ab"}
    play = chain(TANDEM, models, ms(np.arange(0, 2000, 10)))
    a, b = (step.done_ns - step.start_ns for step in play.steps)
    assert abs(np.corrcoef(a, b)[0, 1]) < 0.3


# Refusals ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("what", "says"),
    [
        (ensemble("m: in -> mid", "m: mid -> out"), "model m come back"),
        (ensemble("m: in -> x", "n: x -> y", "m: y -> out"), "come back"),
        (ensemble("a: in z -> x", "b: x -> z out"), "come back"),
        (ensemble("a: in -> mid", "b: nowhere -> out"), "no step makes the tensor 'nowhere'"),
        (ensemble("a: in -> mid"), "no step makes the tensor 'out'"),
        (ensemble(), "names no steps"),
        (ensemble("a: in -> out", ensemble_in_flight=4), "max_inflight_requests"),
    ],
)
def test_an_ensemble_that_is_not_played(what: Any, says: str) -> None:
    with pytest.raises(TrituneError) as caught:
        chain(what, {}, ms([0]))
    assert caught.value.slug == "twin-unsupported"
    assert says in caught.value.message


def test_a_model_behind_a_circle_is_not_blamed_for_it() -> None:
    with pytest.raises(TrituneError) as caught:
        chain(ensemble("z: m -> out", "m: in k -> m", "k: m -> k"), {}, ms([0]))
    assert "model m" in caught.value.message or "model k" in caught.value.message


def test_a_load_that_is_not_played() -> None:
    models = {"a": serves(1), "b": serves(1)}
    with pytest.raises(UsageError) as caught:
        simulate_chain("pipeline", wiring(TANDEM), models, ClosedLoop(2, 10))
    assert caught.value.slug == "ensemble-closed-loop"
    for load in (Requests(ms([0]), give_up_ns=5), Requests(ms([0]), client=ClientPolicy(timeout_ns=5))):
        with pytest.raises(TrituneError) as refused:
            chain(TANDEM, models, load)
        assert refused.value.slug == "twin-unsupported"


def test_a_step_that_may_refuse_beside_a_branch() -> None:
    """On 24.10 nine of twelve such requests were never answered (semantics 2)."""
    tree = ensemble("left: in -> l", "right: in -> r", "join: l r -> out")
    models = {"left": serves(3, policy=LAZY), "right": serves(8), "join": serves(1)}
    with pytest.raises(TrituneError) as caught:
        chain(tree, models, ms([0]))
    assert caught.value.slug == "twin-unsupported"
    assert "branches" in caught.value.message
