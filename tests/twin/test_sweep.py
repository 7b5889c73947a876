"""Grids, rates, what is shared between predictions, ranks, fronts, and what Triton would not load."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from twin_play import MS, config

from tritune.arrivals.recorded import recorded
from tritune.errors import UsageError
from tritune.model.measurement import Estimate
from tritune.model.slo import parse_slo
from tritune.model.workload import Bursts
from tritune.pbtxt.message import apply_json, view_json
from tritune.twin.ask.grid import MOST_SETTINGS, grid, rates, service_line
from tritune.twin.ask.knee import find_knee
from tritune.twin.ask.loadable import unloadable
from tritune.twin.ask.pareto import by_setting, front, ranked
from tritune.twin.ask.predict import Prediction, predict
from tritune.twin.ask.sweep import Drawn, effort_for, load_of_one
from tritune.twin.ask.traffic import Traffic
from tritune.twin.engine.simulate import Requests
from tritune.twin.engine.timing import Timing, draw
from tritune.twin.fit.figures import typed_profile
from tritune.units import NEVER_NS

DELAY = "dynamic_batching.max_queue_delay_microseconds"
POLICY = "dynamic_batching.default_queue_policy"
PROFILE = typed_profile("m", "line", service_line("4ms+0.5ms*b", 16))


# Grids and rates --------------------------------------------------------------------------------------------


def test_ranges_have_steps_and_values_come_once() -> None:
    found = grid([f"{DELAY}=0:1000:400,0", "replicas=1,3"])
    assert [(c.settings[0].value, c.replicas) for c in found] == [
        (d, r) for d in (0, 400, 800) for r in (1, 3)
    ]
    assert [str(c) for c in found][:2] == [
        "max_queue_delay_microseconds: 0",
        "max_queue_delay_microseconds: 0, replicas: 3",
    ]
    assert found[1].fields == {DELAY: "0", "replicas": "3"}
    assert grid([])[0].fields == {}


@pytest.mark.parametrize(
    "text",
    [
        f"{DELAY}=0:9:0",
        f"{DELAY}=0:999999999999",
        "replicas=0",
        "replicas=none",
        "replicas=[1,2]",
        "replicas=99999",
    ],
)
def test_what_is_no_range(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        grid([text])
    assert caught.value.slug == "bad-set"


def test_the_limit_is_said() -> None:
    assert len(grid([f"{DELAY}=1:{MOST_SETTINGS}"])) == MOST_SETTINGS
    with pytest.raises(UsageError, match="2001 values are more than 2000"):
        grid([f"{DELAY}=0:{MOST_SETTINGS}"])


def test_every_field_reaches_the_configuration() -> None:
    sets = {
        f"{POLICY}.max_queue_size": "16",
        f"{POLICY}.default_timeout_microseconds": "5000",
        f"{POLICY}.allow_timeout_override": "true",
        "dynamic_batching.priority_levels": "3",
        "dynamic_batching.default_priority_level": "2",
        "dynamic_batching.preserve_ordering": "true",
    }
    [one] = grid([f"{path}={value}" for path, value in sets.items()])
    block = view_json(apply_json(one.change, '{"name": "m", "max_batch_size": 8}')).dynamic_batching
    assert block is not None
    assert (block.priority_levels, block.default_priority_level, block.preserve_ordering) == (3, 2, True)
    policy = block.default_queue_policy
    assert (policy.max_queue_size, policy.default_timeout_microseconds, policy.allow_timeout_override) == (
        16,
        5000,
        True,
    )
    [none] = grid([f"{POLICY}.max_queue_size=none"])
    assert view_json(apply_json(none.change, '{"name": "m", "max_batch_size": 8}')).dynamic_batching is None


def test_rates() -> None:
    assert rates(["200"]) == (200,)
    assert rates(["200:1200:500", "7.5", "700"]) == (200, 700, 1200, 7.5)
    assert rates(["0.1:0.3:0.1"]) == (0.1, 0.2, 0.3)
    assert rates([]) == ()


@pytest.mark.parametrize(
    "text", ["", "0", "-5", "inf", "5:9", "9:5:1", "5:9:0", "5:9:-1", "5:inf:1", "a:b:c", "1:2:3:4"]
)
def test_what_is_no_rate(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        rates([text])
    assert caught.value.slug == "bad-rate"


# Shared draws and replicas ----------------------------------------------------------------------------------


def gaps_of(load: object) -> Any:
    assert isinstance(load, Requests)
    return np.diff(np.asarray(load.planned_ns))


def test_sharing_changes_nothing() -> None:
    drawn, traffic, served = Drawn(), Traffic(300), config(0.5, largest=16)
    alone = predict(PROFILE, served, traffic, requests=2000, replications=2)
    assert predict(PROFILE, served, traffic, requests=2000, replications=2, drawn=drawn) == alone
    assert predict(PROFILE, served, traffic, requests=2000, replications=2, drawn=drawn) == alone
    timing = Timing((0.0, 1e6), cv=0.1, lost_wakeup_p=0.2)
    shared, own = drawn.draws(timing, 50, 3), draw(timing, 50, 3)
    assert all(
        (a == b).all() for a, b in zip((shared.noise, shared.wakeups), (own.noise, own.wakeups), strict=True)
    )


@pytest.mark.parametrize("replicas", [1, 3, 12])
def test_poisson_arrivals_split_at_random_stay_poisson(replicas: int) -> None:
    gaps = gaps_of(load_of_one(Traffic(1200), replicas, 1, 40_000))
    assert gaps.mean() == pytest.approx(1e9 * replicas / 1200, rel=0.02)
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(1, abs=0.05)


@pytest.mark.parametrize("replicas", [2, 5])
def test_constant_arrivals_split_at_random_are_geometric(replicas: int) -> None:
    gaps = gaps_of(load_of_one(Traffic(1000, "constant"), replicas, 1, 20_000))
    assert set(np.unique(gaps % 1_000_000)) == {0}
    assert gaps.mean() == pytest.approx(replicas * 1e6, rel=0.02)
    # A geometric number of ticks: squared coefficient of variation 1 - p.
    assert gaps.var() / gaps.mean() ** 2 == pytest.approx(1 - 1 / replicas, rel=0.05)


def test_bursts_and_records_keep_their_mean_rate() -> None:
    bursty = Traffic(900, "on-off", bursts=Bursts(6, 50 * MS, 0.2))
    record = recorded(np.cumsum(np.tile([1, 1, 8], 500)) * MS, np.tile([1, 2, 3], 500))
    played = Traffic(900, "recorded", 0, recorded=record)
    for traffic in (bursty, played):
        load = load_of_one(traffic, 3, 1, 30_000)
        assert gaps_of(load).mean() == pytest.approx(3e9 / 900, rel=0.06)
    assert isinstance(load, Requests)
    assert np.asarray(load.items).mean() == pytest.approx(2, rel=0.03)


def test_many_predictions_take_fewer_replications() -> None:
    assert effort_for(3).replications > effort_for(2000).replications
    assert effort_for(2000).requests * effort_for(2000).replications == 100_000
    assert msgspec.structs.astuple(effort_for(2000, 7, 3)) == (7, 3)


# The knee ---------------------------------------------------------------------------------------------------


def test_the_knee_of_all_replications_lies_within_its_interval() -> None:
    """p99 = rate x 1 ms x (0.9 .. 1.1) by replication; 50 ms hold up to 50/s."""
    spread = np.linspace(0.9, 1.1, 8)
    found = find_knee(
        parse_slo("p99=50ms"), 100.0, lambda rate: [np.full(1000, rate * MS * f) for f in spread]
    )
    assert found.low < found.rate_per_s < found.high
    assert found.rate_per_s == pytest.approx(50 / 1.1, abs=0.1)
    assert not found.beyond
    sure = find_knee(parse_slo("p99=50ms"), 100.0, lambda rate: [np.full(1000, rate * MS)] * 8)
    assert sure.low == sure.rate_per_s == sure.high == pytest.approx(50, abs=0.1)
    assert find_knee(parse_slo("p99=200ms"), 100.0, lambda rate: [np.full(100, rate * MS)] * 3).beyond
    assert find_knee(parse_slo("p99=1ms"), 100.0, lambda rate: [np.full(100, 9.0 * MS)] * 3).rate_per_s == 0


# Ranks, fronts ----------------------------------------------------------------------------------------------


def prediction(p99_ms: float, cost: int = 1, **more: Any) -> Prediction:
    tail = Estimate(NEVER_NS if p99_ms == float("inf") else p99_ms * MS)
    return Prediction(
        **({"setting": f"{p99_ms}/{cost}", "rate_per_s": 1.0, "instances": cost} | more),
        latency={"p99": tail},
    )


def test_order() -> None:
    refused = Prediction("r", 1.0, 1, refusal="no")
    grows, fails = prediction(1, settles=False, meets="no"), prediction(float("inf"), meets="no")
    slow, close, quick = (
        prediction(9, meets="yes"),
        prediction(2, meets="close"),
        prediction(3, 4, meets="yes"),
    )
    cheap = prediction(3, 2, meets="yes")
    found = [refused, grows, fails, slow, close, quick, cheap]
    assert [found[k] for k in ranked(found)] == [cheap, quick, slow, close, grows, fails, refused]


def test_settings_over_rates_are_compared_as_a_whole() -> None:
    a = [prediction(p, setting="a", rate_per_s=r, meets=m) for p, r, m in ((5, 1, "yes"), (50, 2, "no"))]
    b = [prediction(p, setting="b", rate_per_s=r, meets=m) for p, r, m in ((8, 1, "yes"), (9, 2, "yes"))]
    assert [line[0].setting for line in by_setting([*a, *reversed(b)])] == ["b", "a"]
    assert [one.rate_per_s for one in by_setting([*a, *reversed(b)])[0]] == [1, 2]


points = st.lists(
    st.tuples(st.integers(1, 5), st.integers(1, 6) | st.just(float("inf"))), min_size=1, max_size=12
)


@given(points)
def test_the_front_holds_exactly_what_nothing_dominates(each: list[tuple[float, float]]) -> None:
    def dominated(point: tuple[float, float]) -> bool:
        return any(other[0] <= point[0] and other[1] <= point[1] and other != point for other in each)

    assert list(front(each)) == [point[1] < float("inf") and not dominated(point) for point in each]


# What Triton would not load ---------------------------------------------------------------------------------


def test_what_is_not_loaded_is_not_played() -> None:
    assert unloadable(config(largest=8, preferred=(4, 8))) == ""
    assert "16 above max_batch_size 8" in unloadable(config(largest=8, preferred=(4, 16)))
    assert "default_priority_level 0" in unloadable(config(priority_levels=2))
    assert unloadable(config(priority_levels=2, default_priority_level=2)) == ""
    assert "1001 instances" in unloadable(config(instances=1001))
    found = predict(PROFILE, config(largest=8, preferred=(16,)), Traffic(100))
    assert "Triton refuses" in found.refusal
    assert not found.latency
    ordered = predict(PROFILE, config(preserve_ordering=True), Traffic(100))
    assert "preserve_ordering" in ordered.refusal
