"""The fake load engine: noise from run to run, stop rules, caps, timeouts, and counters that agree."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tritune.arrivals.processes import plan
from tritune.model.load import INTERRUPTED, Tick
from tritune.model.requests import Kind
from tritune.testing import FakeClock, FakeLoadEngine, FakeServer, Mishap
from tritune.units import NS_PER_MS, NS_PER_S

PLAN = plan(200, "poisson", 1, duration_ns=10 * NS_PER_S)
CONFIG: dict[str, Any] = {
    "name": "m",
    "max_batch_size": 8,
    "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [4]}],
    "dynamic_batching": {},
    "instance_group": [{"kind": "KIND_CPU", "count": 1}],
}


def lab(**engine: Any) -> tuple[FakeServer, FakeLoadEngine, FakeClock]:
    clock = FakeClock()
    server = FakeServer(clock=clock.now_ns)
    server.add_model(CONFIG)
    service = engine.pop("service", lambda items, _: (3 + 0.4 * items) * NS_PER_MS)
    return server, FakeLoadEngine(server, service, clock, **engine), clock


def run(server: FakeServer, engine: FakeLoadEngine, **more: Any) -> Any:
    options = {"timeout_ns": 10 * NS_PER_S, "max_in_flight": 1000} | more
    return engine.open_loop(server.target, PLAN, server.shots("m", "1", 1, None), **options)


def p99(outcome: Any) -> float:
    return float(np.quantile(outcome.log.latency_ns(), 0.99))


def test_runs_differ_by_as_much_as_asked() -> None:
    server, engine, _ = lab(run_sd=0.05, batch_sd=0.0)
    logs = np.log([p99(run(server, engine)) for _ in range(60)])
    assert 0.035 < logs.std(ddof=1) < 0.065
    server, engine, _ = lab(run_sd=0.0, batch_sd=0.0)
    assert np.log([p99(run(server, engine)) for _ in range(5)]).std() < 0.002


def test_the_same_seed_is_the_same_run() -> None:
    one, other = (run(*lab(run_sd=0.05, seed=7)[:2]) for _ in range(2))
    assert (one.log.done_ns == other.log.done_ns).all()


def test_the_clock_and_the_counters_agree_with_the_log() -> None:
    server, engine, clock = lab()
    before, began = server.statistics(), clock.now_ns()
    outcome = run(server, engine)
    assert abs(clock.now_ns() - began - outcome.seconds * NS_PER_S) <= 1
    assert outcome.seconds > 9.9
    [counters] = server.statistics().models.values()
    [since] = before.models.values()
    assert counters.success.count - since.success.count == len(PLAN)
    server_side = counters.success.mean_ns
    client_side = outcome.log.latency_ns().mean()
    assert 0.3 * NS_PER_MS < client_side - server_side < 0.5 * NS_PER_MS  # overhead and lateness


def test_ticks_twice_a_second_and_a_stop_rule_ends_the_run() -> None:
    server, engine, _ = lab()
    ticks: list[Tick] = []
    outcome = run(
        server,
        engine,
        on_tick=ticks.append,
        stop=lambda t: "enough" if t.elapsed_ns >= 3 * NS_PER_S else None,
    )
    assert [t.elapsed_ns for t in ticks] == [i * NS_PER_S // 2 for i in range(1, 7)]
    assert outcome.cut == "enough"
    assert outcome.seconds == 3.0
    assert len(outcome.log) == int((PLAN <= 3 * NS_PER_S).sum())
    last = ticks[-1]
    assert last.planned >= last.sent == last.done + last.in_flight
    assert last.recent_p50_ns <= last.recent_p99_ns


def test_an_overloaded_server_runs_into_the_cap_or_into_timeouts() -> None:
    def slow(items: int, instances: int) -> float:
        return 20.0 * items * NS_PER_MS

    outcome = run(*lab(service=slow)[:2], max_in_flight=100)
    assert "100" in outcome.cut
    assert outcome.seconds < 2
    outcome = run(*lab(service=slow)[:2], timeout_ns=NS_PER_S)
    assert outcome.log.errors_by_kind()["timeout"] > 1000
    limit = outcome.log.planned_ns + NS_PER_S
    assert (outcome.log.done_ns <= limit).all()


@pytest.mark.parametrize("gone", [False, True])
def test_a_cut_run_keeps_what_was_due(gone: bool) -> None:
    server, engine, _ = lab(mishaps={1: Mishap(interrupted=not gone, gone=gone, cut_at=0.25)})
    outcome = run(server, engine)
    assert outcome.cut != "" if gone else outcome.cut == INTERRUPTED
    assert len(outcome.log) == pytest.approx(len(PLAN) / 4, abs=2)
    assert set(outcome.log.errors_by_kind()) <= ({"connection"} if gone else set())


def test_mishaps_happen_in_their_run_only() -> None:
    server, engine, _ = lab(mishaps={2: Mishap(error_share=0.1, foreign=30), 3: Mishap(late_ns=NS_PER_S)})
    outcomes = [run(server, engine) for _ in range(4)]
    shares = [o.log.errors_by_kind().get("server_error", 0) / len(PLAN) for o in outcomes]
    assert shares[0] == shares[2] == shares[3] == 0
    assert 0.07 < shares[1] < 0.13
    assert [o.sender.lateness_p99_ns > NS_PER_S / 2 for o in outcomes] == [False, False, True, False]
    [counters] = server.statistics().models.values()
    assert counters.success.count + counters.fail.count == 4 * len(PLAN) + 30
    assert (outcomes[1].log.kind == Kind.SERVER_ERROR).sum() == counters.fail.count
