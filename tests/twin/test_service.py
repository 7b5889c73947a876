from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tritune.model.server import BatchStat, ModelCounters, ServerWindow
from tritune.twin.fit.service import ServicePoint, groups, peak, service_curve


def window(stats: dict[int, BatchStat] | None) -> ServerWindow:
    return ServerWindow("m", "1", "statistics", 0, 10**10, ModelCounters(batch_stats=stats))


def test_the_service_time_is_all_three_stages_of_an_execution() -> None:
    curve = service_curve(window({4: BatchStat(10, 10, 300, 90), 1: BatchStat(2, 0, 20, 0)}))
    assert curve == {1: ServicePoint(10.0, 2), 4: ServicePoint(40.0, 10)}
    assert list(curve) == [1, 4]


def test_nothing_ran_or_no_batch_statistics_is_an_empty_curve_and_no_peak() -> None:
    for stats in (None, {}, {3: BatchStat()}):
        assert service_curve(window(stats)) == {}
    assert peak({}, 1) is None
    assert groups({}) == ()


def test_rare_sizes_count_with_their_neighbours() -> None:
    """One lucky execution of 16 does not make the capacity; five of 7 and 8 together are believed."""
    lucky = peak({8: ServicePoint(8e6, 200), 16: ServicePoint(1e6, 1)}, 1)
    assert lucky is not None
    assert lucky.items_per_s == pytest.approx(1616 / (200 * 8e6 + 1e6) * 1e9)
    curve = {7: ServicePoint(18e6, 4), 8: ServicePoint(19.3e6, 1), 16: ServicePoint(50e6, 59)}
    found = peak(curve, 1)
    assert found is not None
    assert found.best_size == 7
    assert found.items_per_s == pytest.approx(36 / (4 * 18e6 + 19.3e6) * 1e9)


@given(st.dictionaries(st.integers(1, 64), st.tuples(st.floats(1e5, 1e8), st.integers(1, 30)), min_size=1))
def test_groups_hold_every_size_once_in_order_and_enough_executions(
    points: dict[int, tuple[float, int]],
) -> None:
    curve = {size: ServicePoint(*point) for size, point in points.items()}
    found = groups(curve)
    assert [s for g in found for s in g.sizes] == sorted(curve)
    assert sum(g.executions for g in found) == sum(p.executions for p in curve.values())
    if len(found) > 1:
        assert min(g.executions for g in found) >= 5
    assert all(g.size in g.sizes for g in found)


@given(
    st.dictionaries(st.integers(1, 64), st.floats(1e5, 1e8), min_size=1),
    st.integers(1, 5),
    st.integers(1, 64),
)
def test_the_peak_is_the_largest_rate_of_any_allowed_size(times: dict[int, float], n: int, cap: int) -> None:
    curve = {size: ServicePoint(ns, 100) for size, ns in times.items()}
    allowed = [n * size / ns * 1e9 for size, ns in times.items() if size <= cap]
    found = peak(curve, n, at_most=cap)
    if not allowed:
        assert found is None
    else:
        assert found is not None
        assert found.items_per_s == pytest.approx(max(allowed))


def test_an_affine_service_time_peaks_at_its_largest_size() -> None:
    """S(b) = 4.35 + 0.53 b ms, one instance: 16 / S(16) = 1247/s (interfaces, issue 2)."""
    curve = {b: ServicePoint((4.35 + 0.53 * b) * 1e6, 50) for b in range(1, 17)}
    found = peak(curve, 1)
    assert found is not None
    assert found.best_size == 16
    assert found.items_per_s == pytest.approx(1247, abs=1)
