"""`diagnose` reads, and does nothing else."""

from __future__ import annotations

from typing import Any

import pytest
from tuning_lab import MODEL, config

from tritune.errors import TrituneError
from tritune.testing import FakeClock, FakeServer, RecordingProgress
from tritune.testing.counting import Execution
from tritune.units import NS_PER_MS, NS_PER_S
from tritune.verbs.diagnose import diagnose


class ReadOnly(FakeServer):
    """Fails at whatever would change it or prepare an inference."""

    def load(self, model: str, config_json: str | None, *, deadline_s: float) -> None:
        raise AssertionError("a load")

    def shots(self, *_: Any) -> Any:
        raise AssertionError("a request")

    def control_mode(self) -> Any:
        raise AssertionError("asked about loading, which leaves a line in the server's log")


def watched(**per_second: Execution) -> tuple[ReadOnly, FakeClock]:
    """A server on which each named model runs its execution 100 times a second."""
    clock = FakeClock()
    last = clock.now_ns()

    def work(server: FakeServer) -> None:
        nonlocal last
        times = 100 * (clock.now_ns() - last) // NS_PER_S
        last = clock.now_ns()
        for model, execution in per_second.items():
            server.record(model, execution, times=times)

    server = ReadOnly(on_read=work, clock=clock.now_ns)
    return server, clock


def test_it_watches_for_the_asked_time_and_only_reads() -> None:
    server, clock = watched(ranker=Execution(queue_ns=50 * NS_PER_MS, infer_ns=3 * NS_PER_MS))
    server.add_model(config(delay_us=100_000))
    server.record(MODEL, Execution(infer_ns=3 * NS_PER_S), times=1000)  # before we came: never counted
    began = clock.now_ns()
    [found] = diagnose(server, clock, RecordingProgress(), seconds=5)
    assert clock.now_ns() - began == 5 * NS_PER_S
    assert found.model == MODEL
    assert found.window.counters.success.count == 500
    assert found.breakdown is not None
    assert {p.name: p.ns for p in found.breakdown.parts}["queue"] == 50 * NS_PER_MS
    assert found.breakdown.total_ns == 53 * NS_PER_MS
    assert server.loads == []


def test_all_ready_models_or_the_named_ones() -> None:
    server, clock = watched(a=Execution(infer_ns=NS_PER_MS), b=Execution(infer_ns=NS_PER_MS))
    for name in ("a", "b", "c"):
        server.add_model(config() | {"name": name}, state="" if name == "c" else "READY")
    assert [d.model for d in diagnose(server, clock, RecordingProgress())] == ["a", "b"]
    assert [d.model for d in diagnose(server, clock, RecordingProgress(), models=["b"])] == ["b"]
    with pytest.raises(TrituneError) as caught:
        diagnose(server, clock, RecordingProgress(), models=["d"])
    assert caught.value.slug == "unknown-model"


def test_a_model_that_nobody_used_gets_no_verdict() -> None:
    server, clock = watched()
    server.add_model(config(delay_us=100_000))
    server.record(MODEL, Execution(queue_ns=NS_PER_S, infer_ns=NS_PER_MS), times=1000)
    [found] = diagnose(server, clock, RecordingProgress())
    assert found.findings == ()
    assert found.no_verdict
    assert found.breakdown is None


def test_several_replicas_are_said_instead_of_mixed() -> None:
    with pytest.raises(TrituneError) as caught:
        diagnose(FakeServer(replicas=True), FakeClock(), RecordingProgress())
    assert caught.value.slug == "several-replicas"


def test_a_server_that_goes_away_while_we_watch_is_a_sentence() -> None:
    server, clock = watched()
    server.add_model(config())
    sleep = clock.sleep

    def and_it_dies(seconds: float) -> None:
        sleep(seconds)
        server.gone()

    clock.sleep = and_it_dies
    with pytest.raises(TrituneError) as caught:
        diagnose(server, clock, RecordingProgress())
    assert caught.value.slug == "server-gone"
