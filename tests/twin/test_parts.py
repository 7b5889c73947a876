"""Where the time in the queue goes: found again on runs of which it is known, bounded by counters alone."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from observed_run import Observed, observe, truth
from twin_play import MS

from tritune.arrivals.processes import plan
from tritune.model.config import QueuePolicy
from tritune.model.profile import Figure, TwinProfile
from tritune.model.server import ServerWindow
from tritune.twin.ask.parts import PRIOR_WAKE_NS, QueueParts, queue_parts
from tritune.twin.ask.queue_bounds import QueueBounds, queue_bounds
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import Requests, simulate

# A limit that is never reached.
LAZY = QueuePolicy(max_queue_size=1_000_000)
PARTS = ("batch_wait", "stall", "busy_wait", "formed_wait")
# As a real server has them, so that what is taken for granted where they are not known is about right.
THREADS: dict[str, Any] = {"wake_ns": PRIOR_WAKE_NS, "turnaround_ns": 40_000}


def parts(run: Observed, profile: TwinProfile | None = None) -> QueueParts:
    return queue_parts(run.config, profile or run.profile(), run.window, run.log)


def true_shares(run: Observed) -> dict[str, float]:
    sums = {name: float(getattr(run.play, f"{name}_ns").sum()) for name in PARTS}
    return {name: ns / sum(sums.values()) for name, ns in sums.items()}


def with_queue(window: ServerWindow, factor: float) -> ServerWindow:
    counters = window.counters
    queue = msgspec.structs.replace(counters.queue, ns=round(factor * counters.queue.ns))
    return msgspec.structs.replace(window, counters=msgspec.structs.replace(counters, queue=queue))


# The point estimate -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate", "setting"),
    [
        (150, {"delay_ms": 20}),
        (600, {"delay_ms": 5}),
        (600, {"delay_ms": 20}),
        (800, {"delay_ms": 2}),
        (700, {}),
        (400, {"delay_ms": 5, "policy": LAZY}),
        (900, {"delay_ms": 20, "policy": LAZY}),
        (800, {"delay_ms": 10, "instances": 2}),
        (300, {"delay_ms": 10, "preferred": (4, 8)}),
    ],
    ids=str,
)
def test_the_split_of_a_known_run_is_found_within_two_points(rate: float, setting: dict[str, Any]) -> None:
    run = observe(rate, 6000, timing=truth(**THREADS), **setting)
    found = parts(run)
    assert found.refusal == ""
    true = true_shares(run)
    for name in PARTS:
        part = getattr(found, name)
        assert part.share == pytest.approx(true[name], abs=0.02), name
        assert part.ns == pytest.approx(part.share * found.bounds.queue_ns)
    assert sum(getattr(found, name).share for name in PARTS) == pytest.approx(1)
    assert found.idle.share == pytest.approx(true["batch_wait"] + true["stall"], abs=0.02)
    assert found.idle.ns + found.all_busy.ns == pytest.approx(found.bounds.queue_ns)


def test_without_delay_nothing_waits_for_it() -> None:
    found = parts(observe(600, 3000, timing=truth(**THREADS)))
    assert found.batch_wait.ns == 0
    assert found.bounds.most_batch_wait_ns == 0


def test_the_parts_are_parts_of_what_was_measured() -> None:
    """The replay says in which proportion; how much there is, the counters say."""
    run = observe(600, 4000, delay_ms=20, timing=truth(**THREADS))
    as_it_is = parts(run)
    more = parts(replace(run, window=with_queue(run.window, 1.08)), run.profile())
    assert more.refusal == ""
    assert more.batch_wait.ns == pytest.approx(1.08 * as_it_is.batch_wait.ns)
    assert more.queue_error == pytest.approx((1 + as_it_is.queue_error) / 1.08 - 1)


def test_the_batch_wait_is_kept_within_its_bound() -> None:
    """Counters of a busier server than the replay: the batch wait gives way, the others take the rest."""
    run = observe(700, 6000, delay_ms=20, largest=16, timing=truth(**THREADS))
    free = parts(run)
    assert free.refusal == ""
    assert free.batch_wait.ns < free.bounds.most_batch_wait_ns
    stats = run.window.counters.batch_stats or {}
    busy = sum(stat.ns for stat in stats.values())
    idle_ns = run.window.t1_ns - busy
    # So much less idle time that the bound is half of what the twin says.
    wanted = idle_ns * free.batch_wait.ns / 2 / free.bounds.most_batch_wait_ns
    counters = msgspec.structs.replace(
        run.window.counters,
        batch_stats={
            size: msgspec.structs.replace(
                stat, infer_ns=round(stat.infer_ns * (run.window.t1_ns - wanted) / busy)
            )
            for size, stat in stats.items()
        },
    )
    busier = replace(run, window=msgspec.structs.replace(run.window, counters=counters))
    found = parts(busier, run.profile())
    assert found.refusal == ""
    assert found.batch_wait.ns == pytest.approx(found.bounds.most_batch_wait_ns)
    assert found.batch_wait.ns < 0.75 * free.batch_wait.ns
    assert sum(getattr(found, name).share for name in PARTS) == pytest.approx(1)
    assert found.busy_wait.share / found.stall.share == pytest.approx(free.busy_wait.share / free.stall.share)


# Cannot tell ------------------------------------------------------------------------------------------------


def refused(found: QueueParts) -> str:
    assert found.idle is None
    assert found.all_busy is None
    assert all(getattr(found, name) is None for name in PARTS)
    assert found.bounds.queue_ns > 0
    return found.refusal


@pytest.mark.parametrize("factor", [0.8, 1.25])
def test_a_queue_that_the_replay_misses_is_not_split(factor: float) -> None:
    run = observe(600, 4000, delay_ms=5)
    why = refused(parts(replace(run, window=with_queue(run.window, factor))))
    assert "mean queue time" in why


def test_other_batches_are_not_split() -> None:
    run = observe(600, 6000, delay_ms=5)
    stats = run.window.counters.batch_stats or {}
    counters = msgspec.structs.replace(
        run.window.counters, batch_stats={size + 2: stat for size, stat in stats.items()}
    )
    other = replace(run, window=msgspec.structs.replace(run.window, counters=counters))
    assert "batch sizes" in refused(parts(other, run.profile()))


def test_a_short_queue_is_not_split_before_it_is_known_how_long_threads_take() -> None:
    """2 instances, a light load: what little waits, waits mostly for threads to wake up."""
    run = observe(200, 4000, instances=2, policy=LAZY, timing=truth(**THREADS))
    assert run.window.counters.queue.mean_ns < 2 * MS
    unknown = msgspec.structs.replace(run.profile(), wake_ns=None)
    assert "waking threads up" in refused(parts(run, unknown))
    roughly = msgspec.structs.replace(unknown, wake_ns=Figure(PRIOR_WAKE_NS, 10_000, 900_000))
    assert "waking threads up" in refused(parts(run, roughly))
    known = msgspec.structs.replace(
        run.profile(), wake_ns=Figure(PRIOR_WAKE_NS), turnaround_ns=Figure(40_000)
    )
    found = parts(run, known)
    assert found.refusal == ""
    assert found.wake.source == "measured"
    assert found.idle.share == pytest.approx(true_shares(run)["stall"], abs=0.02)


def test_time_that_may_be_lost_wake_ups_is_not_split() -> None:
    run = observe(1700, 4000, delay_ms=2, policy=LAZY, instances=2, timing=truth(**THREADS))
    assert run.profile().lost_wakeup_p is None
    longer = replace(run, window=with_queue(run.window, 1.12))
    assert "lost wake-ups" in refused(parts(longer))
    known = msgspec.structs.replace(run.profile(), lost_wakeup_p=Figure(0.0))
    assert parts(longer, known).refusal == ""
    eager = observe(500, 4000, delay_ms=2, timing=truth(**THREADS))
    assert parts(replace(eager, window=with_queue(eager.window, 1.12))).refusal == ""


def test_a_chance_of_lost_wake_ups_that_is_known_too_roughly_is_not_split() -> None:
    run = observe(200, 4000, policy=LAZY, timing=truth(**THREADS))
    sure, unsure = (
        msgspec.structs.replace(run.profile(), lost_wakeup_p=Figure(0.0, 0.0, high)) for high in (0.001, 0.3)
    )
    assert parts(run, sure).refusal == ""
    assert "known well enough" in refused(parts(run, unsure))


def test_lost_wake_ups_that_are_known_are_stalls() -> None:
    run = observe(300, 12_000, delay_ms=2, policy=LAZY, timing=truth(lost_wakeup_p=0.2, **THREADS))
    known = msgspec.structs.replace(run.profile(), lost_wakeup_p=Figure(0.2, 0.19, 0.21))
    found = parts(run, known)
    assert found.refusal == ""
    true = true_shares(run)
    assert true["stall"] > 0.05
    assert found.stall.share == pytest.approx(true["stall"], abs=0.02)


# Bounds and backlog, from counters alone --------------------------------------------------------------------


@settings(max_examples=80, deadline=None)
@given(
    st.sampled_from([30, 200, 600, 1100]),
    st.sampled_from([0, 0.5, 3, 20]),
    st.integers(1, 4),
    st.sampled_from([(), (4,), (2, 5), (16,)]),
    st.booleans(),
    st.sampled_from([1, 2, 16]),
    st.integers(1, 1000),
)
def test_no_batch_wait_leaves_its_bounds(
    rate: float,
    delay_ms: float,
    instances: int,
    preferred: tuple[int, ...],
    lazy: bool,
    largest: int,
    seed: int,
) -> None:
    setting: dict[str, Any] = {
        "delay_ms": delay_ms,
        "instances": instances,
        "preferred": tuple(size for size in preferred if size <= largest),
        "largest": largest,
    }
    if lazy:
        setting["policy"] = LAZY
    run = observe(rate, 300, seed=seed, timing=truth(largest, contention=(0.3,)), **setting)
    bounds = queue_bounds(run.config, run.window)
    assert bounds.queue_ns == pytest.approx(run.play.queue_ns().mean(), abs=1)
    assert 0 <= bounds.most_batch_wait_ns <= bounds.queue_ns
    assert run.play.batch_wait_ns.mean() <= bounds.most_batch_wait_ns + 1


def backlog_of(run: Observed) -> QueueBounds:
    return queue_bounds(run.config, run.window)


def left_behind(run: Observed) -> float:
    """Requests waiting when a batch starts and not in it, on average over the requests of the batches."""
    play = run.play
    starts = play.batch_start_ns
    waiting = np.searchsorted(play.arrived_ns, starts, "right") - np.cumsum(play.batch_requests)
    return float((waiting * play.batch_requests).sum() / play.batch_requests.sum())


@pytest.mark.parametrize(("rate", "delay_ms", "largest"), [(700, 0, 4), (600, 5, 16), (900, 2, 8)])
def test_the_backlog_is_what_was_left_behind(rate: float, delay_ms: float, largest: int) -> None:
    timing = truth(largest)
    run = observe(rate * largest / 16, 20_000, delay_ms=delay_ms, largest=largest, timing=timing)
    assert backlog_of(run).backlog == pytest.approx(left_behind(run), abs=0.15, rel=0.1)


def test_no_backlog_where_the_largest_batch_is_never_reached() -> None:
    found = backlog_of(observe(300, 20_000))
    assert found.backlog == pytest.approx(0, abs=0.1)
    assert found.backlog_kind == "none"


def test_backlog_where_the_largest_batch_is_too_small() -> None:
    run = observe(150, 10_000, largest=1)
    assert backlog_of(run).backlog_kind == "some"
    assert backlog_of(run).backlog == pytest.approx(left_behind(run), rel=0.1)


def test_clumped_arrivals_have_less_than_none() -> None:
    """Four requests at one instant, every time: they fill batches without waiting for each other."""
    run = observe(300, 4000, instances=1)
    planned = np.repeat(plan(75, "poisson", 3, count=1000), 4)
    play = simulate(setting_of(run.config), Requests(planned), truth(), seed=1)
    sizes = np.bincount(play.batch_items)
    counters = run.window.counters
    stat = next(iter((counters.batch_stats or {}).values()))
    counters = msgspec.structs.replace(
        counters,
        queue=msgspec.structs.replace(counters.queue, ns=int(play.queue_ns().sum())),
        batch_stats={
            size: msgspec.structs.replace(stat, count=count)
            for size, count in enumerate(sizes.tolist())
            if count
        },
    )
    window = msgspec.structs.replace(run.window, counters=counters, t1_ns=int(play.done_ns.max()))
    found = queue_bounds(run.config, window)
    assert found.backlog_kind == "clumped"
    assert found.backlog < -0.3


def test_what_counters_without_batches_say() -> None:
    run = observe(300, 2000, delay_ms=5)
    counters = msgspec.structs.replace(run.window.counters, batch_stats=None)
    found = queue_bounds(run.config, msgspec.structs.replace(run.window, counters=counters))
    assert found.backlog is None
    assert found.backlog_kind is None
    assert run.play.batch_wait_ns.mean() <= found.most_batch_wait_ns <= 5 * MS


def test_requests_of_several_items_have_no_backlog_that_can_be_told() -> None:
    run = observe(300, 2000)
    counters = msgspec.structs.replace(run.window.counters, inference_count=4000)
    assert queue_bounds(run.config, msgspec.structs.replace(run.window, counters=counters)).backlog is None
