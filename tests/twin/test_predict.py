"""Predictions against closed forms; the knee against the rate at which the SLO really breaks."""

from __future__ import annotations

import pytest
from observed_run import observe
from twin_play import MS, config

from tritune.errors import UsageError
from tritune.model.client import ClientPolicy
from tritune.model.config import Setting as Edit
from tritune.model.slo import parse_slo
from tritune.twin.ask.grid import grid, service_line
from tritune.twin.ask.knee import headroom, knee
from tritune.twin.ask.predict import capacity, predict
from tritune.twin.ask.traffic import Traffic
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.timing import Timing
from tritune.twin.fit.calibrate import typed_profile

DELAY = "dynamic_batching.max_queue_delay_microseconds"
PREFERRED = "dynamic_batching.preferred_batch_size"
LINE = "4.35ms+0.53ms*b"


def typed(largest: int = 16, text: str = LINE):
    return typed_profile("m", text, service_line(text, largest))


# Typed figures ----------------------------------------------------------------------------------------------


def test_a_service_time_typed_by_hand() -> None:
    assert service_line("4ms+0.55ms*b", 3) == (4.55 * MS, 5.1 * MS, 5.65 * MS)
    assert service_line(" 500us + 2ms * b ", 1) == (2.5 * MS,)
    assert service_line("5ms", 2) == (5 * MS, 5 * MS)


@pytest.mark.parametrize("text", ["", "4", "4ms+", "4ms+1*b", "b", "4ms*b", "4ms+1ms*b+1ms*b", "-4ms"])
def test_what_is_no_service_time(text: str) -> None:
    with pytest.raises(UsageError) as caught:
        service_line(text, 4)
    assert caught.value.slug == "bad-service"


# The grid ---------------------------------------------------------------------------------------------------


def test_a_grid_is_every_combination_in_order() -> None:
    changes = grid([f"{DELAY}=0,500", "instance_group.count=1:3"])
    assert [tuple(edit.value for edit in change.settings) for change in changes] == [
        (0, 1),
        (0, 2),
        (0, 3),
        (500, 1),
        (500, 2),
        (500, 3),
    ]
    assert [c.settings for c in grid([])] == [()]
    lists = grid([f"{PREFERRED}=[4, 8],[16],none"])
    assert [c.settings[0] for c in lists] == [Edit(PREFERRED, v) for v in ((4, 8), (16,), None)]
    assert grid(["dynamic_batching={},none"])[0].settings[0].value == "{}"


@pytest.mark.parametrize(
    "texts",
    [
        ["max_batch_size"],
        ["max_batch_sise=3"],
        ["max_batch_size="],
        ["max_batch_size=big"],
        ["max_batch_size=4:1"],
        ["max_batch_size=1", "max_batch_size=2"],
        [f"{DELAY}=0:1999", "instance_group.count=1:2"],
    ],
)
def test_what_is_no_grid(texts: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        grid(texts)
    assert caught.value.slug == "bad-set"


# Predictions ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("load", [0.3, 0.7])
def test_m_d_1(load: float) -> None:
    """The default scheduler with a constant service time; Pollaczek-Khinchine within the interval's reach."""
    asked = config(largest=0, dynamic=False)
    found = predict(typed(1, "5ms"), asked, Traffic(load / 0.005), requests=40_000)
    expected = 5 * MS * (1 + load / (2 * (1 - load)))
    assert found.latency["mean"].value == pytest.approx(expected, rel=0.03)
    assert found.latency["mean"].low < expected * 1.01
    assert found.latency["mean"].high > expected * 0.99
    assert found.load == pytest.approx(load)
    assert found.settles


def test_the_same_question_gets_the_same_answer_and_settings_meet_the_same_arrivals() -> None:
    one, two = (predict(typed(), config(d, largest=16), Traffic(300), requests=3000) for d in (0, 0))
    assert one == two
    other = predict(typed(), config(0, largest=32), Traffic(300), requests=3000)
    assert one.latency == other.latency or other.refusal


def test_more_than_it_can_do_never_settles() -> None:
    found = predict(typed(), config(largest=16), Traffic(1400))
    assert found.load > 1
    assert not found.settles
    # The load is below 1 by the best size, yet requests go one by one.
    single = predict(typed(16), config(largest=16, dynamic=False), Traffic(230))
    assert single.load == pytest.approx(230 * 4.88e-3, rel=1e-6)
    assert not single.settles


@pytest.mark.parametrize(
    ("setting", "expected"),
    [
        ({}, 16 / 12.83e-3),
        ({"instances": 2}, 32 / 12.83e-3),
        ({"preferred": (4,)}, 4 / 6.47e-3),
        ({"preferred": (4,), "delay_ms": 1}, 16 / 12.83e-3),
        ({"dynamic": False}, 1 / 4.88e-3),
    ],
)
def test_capacity(setting: dict, expected: float) -> None:
    timing = Timing((0.0, *service_line(LINE, 16)))
    found = capacity(setting_of(config(**({"largest": 16} | setting))), timing)
    assert found == pytest.approx(expected, rel=1e-6)


def test_contention_lowers_the_capacity() -> None:
    timing = Timing((0.0, *service_line(LINE, 16)), contention=(0.5,))
    assert capacity(setting_of(config(largest=16, instances=3)), timing) == pytest.approx(3 * 16 / 25.66e-3)


# The knee ---------------------------------------------------------------------------------------------------


def test_the_knee_is_where_the_slo_breaks() -> None:
    slo, asked = parse_slo("p99=25ms"), config(largest=16)
    found = knee(typed(), asked, Traffic(200), slo, requests=10_000)
    assert found is not None
    assert not found.beyond
    assert 0 < found.low < found.rate_per_s < found.high < 1247
    below, above = (
        predict(typed(), asked, Traffic(found.rate_per_s * f), requests=10_000) for f in (0.95, 1.05)
    )
    assert below.latency["p99"].value < 25 * MS < above.latency["p99"].value


def test_a_long_delay_makes_low_rates_fail_and_the_knee_is_still_found() -> None:
    slo, asked = parse_slo("p99=25ms"), config(100, preferred=(2, 4, 8), largest=8)
    low = predict(typed(8), asked, Traffic(60), requests=5000)
    assert low.latency["p99"].value > 25 * MS
    found = knee(typed(8), asked, Traffic(60), slo, requests=5000)
    assert found is not None
    assert found.rate_per_s > 200


def test_an_slo_that_never_holds_has_no_knee() -> None:
    found = knee(typed(), config(largest=16), Traffic(200), parse_slo("p99=4ms"), requests=2000)
    assert found is not None
    assert (found.rate_per_s, found.beyond) == (0.0, False)
    assert found.up_to == pytest.approx(1247, abs=1)


def test_the_knee_of_an_observed_run_is_not_looked_for_beyond_what_may_be_asked() -> None:
    run = observe(200, 4000)
    found = knee(run.profile(), run.config, Traffic(200), parse_slo("p99=500ms"), requests=2000)
    assert found is not None
    assert found.beyond
    assert found.rate_per_s == pytest.approx(1.6 * run.profile().arrival.rate_per_s)


def test_headroom() -> None:
    found = headroom(typed(), config(largest=16), Traffic(600), parse_slo("p99=50ms"), requests=5000)
    assert found.load == pytest.approx(0.481, abs=0.001)
    assert list(found.p99_ns) == ["1", "1.3", "1.6"]
    values = [e.value for e in found.p99_ns.values()]
    assert values == sorted(values)
    assert found.knee is not None
    assert found.knee.rate_per_s > 1100


def test_what_clients_got_is_told_apart_from_what_was_executed() -> None:
    """At half the capacity all are answered in time; with a timeout below one execution nobody is."""
    asked, rate = config(largest=1, dynamic=False), 100.0
    patient = Traffic(rate, client=ClientPolicy(timeout_ns=500 * MS, retries=2))
    found = predict(typed(1, "5ms"), asked, patient, requests=4000, replications=2)
    assert found.goodput_per_s == pytest.approx(rate, rel=0.05)
    assert found.attempts_per_request == pytest.approx(1, abs=0.01)
    hasty = Traffic(rate, client=ClientPolicy(timeout_ns=4 * MS, retries=2))
    lost = predict(typed(1, "5ms"), asked, hasty, requests=4000, replications=2)
    assert lost.goodput_per_s == 0
    assert lost.attempts_per_request == 3
    assert lost.failed_share == 1
