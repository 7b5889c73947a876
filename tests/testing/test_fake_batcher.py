"""The simplified batcher behind the fake load engine, against the recursion of the research notes."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tritune.model.config import DynamicBatching, InstanceGroup, ServingConfig
from tritune.testing.batcher import FakeBatcher


def config(*, largest=8, delay_us=0, preferred=(), count=1, block=True) -> ServingConfig:
    return ServingConfig(
        "m",
        max_batch_size=largest,
        dynamic_batching=DynamicBatching(preferred, delay_us) if block else None,
        instance_group=(InstanceGroup(count=count),),
    )


def service(items: int, instances: int) -> float:
    return (3_000_000 + 400_000 * items) * (1 + 0.2 * (instances - 1))


def recursion(a: list[int], largest: int, delay_ns: int, count: int) -> list[int]:
    """Late-binding FIFO (research.md 2), word for word: when each request is answered."""
    n, h, free, done = len(a), 0, [0] * count, [0] * len(a)
    while h < n:
        k = min(range(count), key=free.__getitem__)
        full = a[h + largest - 1] if h + largest - 1 < n else float("inf")
        ready = a[h] if delay_ns == 0 else min(a[h] + delay_ns, full)
        t = max(free[k], ready)
        e = h
        while e < n and e - h < largest and a[e] <= t:
            e += 1
        s = round(service(e - h, count))
        done[h:e] = [round(t) + s] * (e - h)
        free[k] = round(t) + s
        h = e
    return done


arrivals = st.lists(st.integers(0, 5_000_000), min_size=1, max_size=200).map(
    lambda gaps: np.cumsum(gaps).tolist()
)


@settings(max_examples=150, deadline=None)
@given(arrivals, st.sampled_from([1, 2, 8, 16]), st.sampled_from([0, 100, 5_000, 50_000]), st.integers(1, 4))
def test_without_preferred_sizes_it_is_the_recursion(
    a: list[int], largest: int, delay: int, count: int
) -> None:
    batcher = FakeBatcher(config(largest=largest, delay_us=delay, count=count), service)
    assert batcher.open_loop(a) == recursion(a, largest, 1000 * delay, count)


@settings(max_examples=150, deadline=None)
@given(
    arrivals,
    st.sampled_from([(), (4,), (4, 8), (2, 16), (16,)]),
    st.sampled_from([0, 500, 20_000]),
    st.integers(1, 3),
)
def test_whatever_the_settings_every_request_runs_once_in_order(
    a: list[int], preferred: tuple[int, ...], delay: int, count: int
) -> None:
    served = config(largest=16, delay_us=delay, preferred=preferred, count=count)
    batcher = FakeBatcher(served, service)
    done = batcher.open_loop(a)
    assert sum(ran.requests for ran in batcher.ran) == len(a)
    assert all(1 <= ran.requests <= 16 for ran in batcher.ran)
    assert all(x.start_ns <= y.start_ns for x, y in pairwise(batcher.ran))
    assert all(end > at for end, at in zip(done, a, strict=True))
    queued = sum(ran.queue_ns for ran in batcher.ran)
    ran_for = sum(ran.requests * ran.service_ns for ran in batcher.ran)
    assert queued + ran_for == sum(done) - sum(a)  # Little, without a rest


def test_a_largest_preferred_size_is_a_hard_cap_without_a_delay() -> None:
    """Measured on the real server: {4,8}, delay 0, max 16 ran batches of 8 at most."""
    at_once = [0] * 64
    for delay, most in ((0, 8), (500, 16)):
        batcher = FakeBatcher(config(largest=16, preferred=(4, 8), delay_us=delay), service)
        batcher.open_loop(at_once)
        assert max(ran.requests for ran in batcher.ran) == most


def test_a_preferred_size_that_is_reached_ends_the_wait() -> None:
    batcher = FakeBatcher(config(largest=16, preferred=(4,), delay_us=100_000), service)
    batcher.open_loop([0, 1_000, 2_000, 3_000, 90_000_000])
    assert [(ran.requests, ran.start_ns) for ran in batcher.ran] == [(4, 3_000), (1, 190_000_000)]


def test_without_a_dynamic_batcher_every_request_runs_alone() -> None:
    for served in (config(block=False), config(largest=0)):
        batcher = FakeBatcher(served, service)
        batcher.open_loop([0] * 10)
        assert [ran.requests for ran in batcher.ran] == [1] * 10


def test_requests_of_several_items_fill_a_batch_sooner() -> None:
    batcher = FakeBatcher(config(largest=8), service, items=4)
    batcher.open_loop([0] * 6)
    assert [(ran.requests, ran.service_ns) for ran in batcher.ran] == [(2, 6_200_000)] * 3


@pytest.mark.parametrize(("concurrency", "count"), [(1, 5), (3, 50), (20, 7)])
def test_a_closed_loop_sends_the_count_and_no_more_at_once(concurrency: int, count: int) -> None:
    batcher = FakeBatcher(config(), service)
    sent, done = batcher.closed_loop(concurrency, count=count, until_ns=None, pause_ns=1_000)
    assert len(sent) == len(done) == count
    edges = sorted([(t, 1) for t in sent] + [(t, -1) for t in done])
    assert max(np.cumsum([step for _, step in edges])) == min(concurrency, count)
    assert all(end > at for end, at in zip(done, sent, strict=True))


def test_a_closed_loop_ends_with_its_time() -> None:
    sent, _ = FakeBatcher(config(), service).closed_loop(2, count=None, until_ns=10**9, pause_ns=0)
    assert max(sent) < 10**9
    assert len(sent) == 2 * -(-(10**9) // 3_800_000)  # both together, a batch of two every 3.8 ms
