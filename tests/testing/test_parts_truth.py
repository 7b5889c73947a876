"""What traces prove of the time in the queue, on timelines made by hand and by the twin."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tritune.model.timeline import NEVER, ExecutedTimeline
from tritune.testing.parts_truth import PartsTruth, parts_truth
from tritune.testing.timelines.repository import serving_config
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import Requests, simulate
from tritune.twin.engine.timing import Timing
from tritune.units import NS_PER_MS


def truth(rows: list[tuple[int, int, int]], instances: int = 1, **more: int) -> PartsTruth:
    """Rows: queued, started, released."""
    executed = ExecutedTimeline.of((q, s, r - 1 if r != NEVER else r, r) for q, s, r in rows)
    return parts_truth(executed, instances, **({"turnaround_ns": 0} | more))


def test_waiting_behind_a_running_batch_is_all_busy_wait() -> None:
    found = truth([(0, 0, 100), (30, 100, 200)])
    assert found.busy_ns.tolist() == [0, 70]
    assert found.idle_ns.tolist() == [0, 0]


def test_waiting_for_the_delay_beside_an_idle_instance() -> None:
    found = truth([(0, 50, 100), (20, 50, 100)], delay_ns=50)
    assert found.idle_ns.tolist() == [50, 30]
    assert found.busy_ns.tolist() == [0, 0]
    assert found.idle_share == 1


def test_busy_first_idle_afterwards() -> None:
    found = truth([(0, 0, 100), (30, 160, 200)])
    assert found.busy_ns.tolist() == [0, 70]
    assert found.idle_ns.tolist() == [0, 60]
    assert found.idle_share == pytest.approx(60 / 130)
    assert found.queue_ns == 65


def test_all_of_several_instances_must_be_busy() -> None:
    rows = [(0, 0, 100), (10, 40, 140), (50, 120, 200)]
    found = truth(rows, instances=2)
    # The third waits from 50 to 120; both run from 40 to 100, then one is idle.
    assert found.busy_ns.tolist() == [0, 0, 50]
    assert found.idle_ns.tolist() == [0, 30, 20]
    assert truth(rows, instances=3).busy_ns.tolist() == [0, 0, 0]


def test_an_instance_is_busy_until_the_last_request_of_its_batch_is_released() -> None:
    executed = ExecutedTimeline.of([(0, 10, 90, 95), (5, 10, 90, 120), (60, 120, 130, 131)])
    assert parts_truth(executed, 1, turnaround_ns=0).busy_ns.tolist() == [0, 0, 60]


def test_the_turnaround_counts_as_busy_but_not_beyond_the_next_start() -> None:
    assert truth([(0, 0, 100), (30, 130, 200)], turnaround_ns=20).idle_ns.tolist() == [0, 10]
    assert truth([(0, 0, 100), (30, 130, 200)], turnaround_ns=50).idle_ns.tolist() == [0, 0]
    # The second batch starts 5 after the release on the one instance; the third waits for that.
    rows = [(0, 0, 100), (30, 105, 110), (90, 130, 200)]
    assert truth(rows, turnaround_ns=50).busy_ns.tolist() == [0, 75, 40]


def test_what_is_older_than_the_delay_is_not_young() -> None:
    found = truth([(0, 0, 100), (30, 160, 200)], delay_ns=90)
    assert found.idle_ns.tolist() == [0, 60]
    assert found.young_idle_ns.tolist() == [0, 20]


def test_refused_requests_have_no_part() -> None:
    found = truth([(0, 10, 100), (5, NEVER, NEVER)])
    assert len(found.idle_ns) == 1


def test_no_request() -> None:
    assert truth([]).idle_share == 0


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 4),
    st.sampled_from([0, 1000, 12_000]),
    st.sampled_from([0, 1000]),
    st.sampled_from([1, 3, 10]),
    st.integers(0, 1000),
)
def test_the_parts_of_a_twin_are_found_again(
    instances: int, delay_us: int, limit: int, gap_ms: int, seed: int
) -> None:
    """To the nanosecond: the twin's clocks and the reconstruction are two ways to the same figure."""
    config = serving_config(delay_us=delay_us, instances=instances, max_queue_size=limit)
    arrivals = np.random.default_rng(seed).exponential(gap_ms * NS_PER_MS, 60).cumsum().astype(np.int64)
    timing = Timing(tuple((4 + b) * float(NS_PER_MS) for b in range(9)), cv=0.1, wake_ns=70_000)
    done = simulate(setting_of(config, "24.10"), Requests(arrivals), timing, seed=seed)
    ran = done.batch >= 0
    executed = ExecutedTimeline.of(
        zip(
            *(c.tolist() for c in (done.arrived_ns, done.start_ns, done.server_done_ns, done.server_done_ns)),
            strict=True,
        )
    )
    found = parts_truth(executed, instances, delay_ns=delay_us * 1000, turnaround_ns=0)
    assert ran.all()
    assert found.idle_ns.tolist() == (done.batch_wait_ns + done.stall_ns).tolist()
    assert found.busy_ns.tolist() == (done.busy_wait_ns + done.formed_wait_ns).tolist()
    assert (found.young_idle_ns >= done.batch_wait_ns - 70_000).all()
