from collections.abc import Sequence

from hypothesis import given
from hypothesis import strategies as st

from tritune.model.server import ModelCounters, ModelKey, Snapshot, Tally
from tritune.triton.replicas import several_replicas


def reads(values: Sequence[int]) -> list[Snapshot]:
    key = ModelKey("m", "1")
    return [
        Snapshot(t_ns=i, source="statistics", models={key: ModelCounters(success=Tally(v, v * 1000))})
        for i, v in enumerate(values)
    ]


@given(st.lists(st.integers(0, 10_000), min_size=5, max_size=5))
def test_one_server_that_only_counts_up_is_one(steps: list[int]) -> None:
    values = [sum(steps[: i + 1]) for i in range(5)]
    assert not several_replicas(reads(values))


@given(
    before=st.integers(300, 10**9),
    at=st.integers(1, 4),
    steps=st.lists(st.integers(0, 5), min_size=5, max_size=5),
)
def test_a_reset_is_not_a_second_server(before: int, at: int, steps: list[int]) -> None:
    values = [before + i if i < at else sum(steps[at : i + 1]) for i in range(5)]
    assert not several_replicas(reads(values))


@given(a=st.integers(100, 10**6), b=st.integers(100, 10**6), growth=st.integers(0, 5))
def test_two_servers_in_turn_are_two(a: int, b: int, growth: int) -> None:
    values = [(a, b)[i % 2] + growth * i for i in range(5)]
    assert several_replicas(reads(values)) == (values != sorted(values))


def test_a_fresh_replica_beside_an_old_one_is_seen_by_the_return() -> None:
    assert several_replicas(reads([10_000, 3, 10_001, 3, 10_002]))


def test_almost_nothing_counted_says_nothing() -> None:
    assert not several_replicas(reads([5, 0, 5, 0, 5]))
    assert not several_replicas([])
