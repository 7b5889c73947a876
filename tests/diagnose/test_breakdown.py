from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from physics import MS, affine, config, serve

from tritune.diagnose.batches import batch_rows, mean_batch
from tritune.diagnose.breakdown import breakdown, mean_of, request_mean
from tritune.diagnose.capacity import capacity
from tritune.model.server import BatchStat, ModelCounters, ServerWindow, Tally

tallies = st.integers(0, 10**15)


def window(counters: ModelCounters, seconds: float = 10.0) -> ServerWindow:
    return ServerWindow("m", "1", "statistics", 0, round(seconds * 1e9), counters)


@given(st.integers(1, 10**6), tallies, tallies, tallies, tallies, tallies, st.none() | st.floats(0, 1e12))
def test_the_parts_add_up_to_the_request_and_with_the_client_to_its_latency(
    n: int, total: int, queue: int, given_in: int, infer: int, out: int, client: float | None
) -> None:
    seen = window(
        ModelCounters(
            Tally(n, total), Tally(), Tally(n, queue), Tally(n, given_in), Tally(n, infer), Tally(n, out)
        )
    )
    found = breakdown(seen, client)
    assert found is not None
    request = total / n
    assert request_mean(found) == pytest.approx(request, rel=1e-9, abs=1e-3)
    if client is not None and client >= request:
        assert found.total_ns == pytest.approx(client, rel=1e-9, abs=1e-3)
        assert found.parts[-1].name == "client"
    else:
        assert [p.name for p in found.parts] == [
            "queue", "compute_input", "compute_infer", "compute_output", "rest",
        ]  # fmt: skip


def test_statistics_and_metrics_of_the_same_traffic_break_down_alike() -> None:
    conf = config(delay_us=2000)
    seen = [breakdown(serve(conf, 100, affine(3, 0.5), metrics=m)) for m in (False, True)]
    assert seen[0] == seen[1]
    assert seen[0] is not None
    assert seen[0].share("queue") + seen[0].share("compute_infer") == pytest.approx(1)


def test_no_requests_no_breakdown() -> None:
    assert breakdown(window(ModelCounters(fail=Tally(5, 5)))) is None


def test_batches_by_execution_and_by_item() -> None:
    stats = {4: BatchStat(30, 0, 300 * MS, 0), 1: BatchStat(10, 0, 20 * MS, 0), 8: BatchStat()}
    seen = window(ModelCounters(batch_stats=stats, inference_count=130, execution_count=40))
    rows = batch_rows(seen)
    assert [(r.size, r.executions) for r in rows] == [(1, 10), (4, 30)]
    assert [r.execution_share for r in rows] == [0.25, 0.75]
    assert [r.item_share for r in rows] == [pytest.approx(10 / 130), pytest.approx(120 / 130)]
    assert rows[1].service_ns == 10 * MS
    assert mean_batch(seen) == 3.25


def test_metrics_give_the_mean_batch_only_and_nothing_gives_none() -> None:
    seen = window(ModelCounters(inference_count=130, execution_count=40))
    assert batch_rows(seen) == ()
    assert mean_batch(seen) == 3.25
    assert mean_batch(window(ModelCounters())) is None


def test_an_instance_can_be_busy_at_half_its_capacity() -> None:
    """S(b) = 4.35 + 0.53 b ms, 16 a batch, 600/s: about half of 1247/s, and busy nearly all the time."""
    conf = config(largest=16)
    found = capacity(conf, serve(conf, 600, affine(4.35, 0.53), seconds=60))
    assert found is not None
    assert found.utilisation is not None
    assert found.utilisation > 0.9
    assert 600 / 1247 <= found.load < 0.6
    assert found.rate_items_per_s == pytest.approx(600, rel=0.03)


def test_capacity_says_that_larger_sizes_were_not_seen() -> None:
    stats = {2: BatchStat(100, 0, 1000 * MS, 0)}
    seen = window(ModelCounters(batch_stats=stats))
    found = capacity(config(largest=8), seen)
    assert found is not None
    assert found.bound
    assert found.items_per_s == pytest.approx(200)
    assert found.load == pytest.approx(0.1)
    again = capacity(config(largest=2, count=3), seen)
    assert again is not None
    assert not again.bound
    assert again.items_per_s == pytest.approx(600)
    assert again.utilisation == pytest.approx(1 / 30)


def test_no_capacity_without_batch_statistics_or_a_time_span() -> None:
    stats = {2: BatchStat(100, 0, 1000 * MS, 0)}
    assert capacity(config(), window(ModelCounters())) is None
    assert capacity(config(), window(ModelCounters(batch_stats=stats), seconds=0)) is None


def test_a_part_that_is_not_there_is_zero() -> None:
    found = breakdown(window(ModelCounters(Tally(1, 10))))
    assert found is not None
    assert mean_of(found, "client") == 0
