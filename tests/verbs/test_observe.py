"""Watching a server's counters and predicting from them; a fake server runs what the twin has played."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from tuning_lab import MODEL, config

from tritune.arrivals.processes import plan
from tritune.errors import ExitCode, TrituneError, UsageError
from tritune.model.workload import Bursts
from tritune.pbtxt.message import view_json
from tritune.stats.quantiles import quantile
from tritune.testing import FakeClock, FakeServer, RecordingProgress
from tritune.testing.counting import Execution
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import Requests, Simulated, simulate
from tritune.twin.engine.timing import Timing
from tritune.units import NS_PER_MS, NS_PER_S
from tritune.verbs.observe import Observation, observe, simulate_observed
from tritune.verbs.simulate import Question

TRUTH = Timing(tuple(4.0e6 + 0.5e6 * b if b else 0.0 for b in range(9)), cv=0.03)
BURSTS = Bursts(5, 200 * NS_PER_MS, 0.2)
SECONDS = 60
RATE = 250.0
TWO = {"instance_group": [{"name": f"{MODEL}_0", "kind": "KIND_CPU", "count": 2}]}
SERVED = config(delay_us=5_000, preferred=(8,), largest=8)


class ReadOnly(FakeServer):
    """Fails at whatever would change it or prepare an inference."""

    def load(self, model: str, config_json: str | None, *, deadline_s: float) -> None:
        raise AssertionError("a load")

    def shots(self, *_: Any) -> Any:
        raise AssertionError("a request")


def played(bursts: Bursts | None = None) -> Simulated:
    """What happens on the server: this traffic, as long as anybody watches."""
    planned = plan(
        RATE,
        "on-off" if bursts else "poisson",
        3,
        duration_ns=(SECONDS + 5) * NS_PER_S,
        bursts=bursts,
    )
    return simulate(setting_of(view_json(json.dumps(SERVED)), "2.51.0"), Requests(planned), TRUTH, seed=8)


def server_of(
    play: Simulated | None, *, on_read: Callable[[FakeServer, int], None] = lambda *_: None
) -> tuple[ReadOnly, FakeClock]:
    """A server on which batches end as played, by the clock's own time."""
    clock = FakeClock()
    began = clock.now_ns()
    executions, done = [], 0
    if play is not None:
        requests = np.bincount(play.batch, minlength=len(play.batch_items))
        queues = np.bincount(play.batch, play.start_ns - play.arrived_ns) / requests
        took = play.batch_done_ns - play.batch_start_ns
        executions = [
            (int(end), Execution((1,) * int(n), round(queue), 0, int(ns), 0))
            for end, n, queue, ns in zip(play.batch_done_ns, requests, queues, took, strict=True)
        ]
        executions.sort(key=lambda one: one[0])

    def work(server: FakeServer) -> None:
        nonlocal done
        now = clock.now_ns() - began
        while done < len(executions) and executions[done][0] <= now:
            server.record(MODEL, executions[done][1])
            done += 1
        on_read(server, round(now / NS_PER_S))

    server = ReadOnly(on_read=work, clock=clock.now_ns)
    server.add_model(SERVED)
    return server, clock


def watched(play: Simulated | None, seconds: int = SECONDS, **more: Any) -> Observation:
    server, clock = server_of(play, **more)
    return observe(server, clock, RecordingProgress(), MODEL, seconds * NS_PER_S)


def test_a_second_is_a_window_and_nothing_is_lost() -> None:
    play = played()
    seen = watched(play)
    assert (seen.model, seen.server_version) == (MODEL, "2.51.0")
    assert len(seen.windows) == SECONDS
    assert all(window.seconds == 1 for window in seen.windows)
    assert sum(window.counters.success.count for window in seen.windows) == int(
        (play.server_done_ns <= SECONDS * NS_PER_S).sum()
    )
    assert seen.source == "60 s of counters of http://127.0.0.1:8000"


def test_the_tail_is_predicted_from_counters_alone() -> None:
    play = played(BURSTS)
    found = simulate_observed(
        watched(play), Question(sets=("dynamic_batching.max_queue_delay_microseconds=0",))
    )
    assert found.validity is not None
    assert found.validity.p99_error is None
    assert found.traffic.startswith("on-off")
    assert found.profile.client_overhead_ns is None
    # The same traffic without a delay, played by the true figures.
    asked = setting_of(view_json(json.dumps(config(preferred=(8,), largest=8))), "2.51.0")
    planned = plan(RATE, "on-off", 21, count=150_000, bursts=BURSTS)
    really = quantile(simulate(asked, Requests(planned), TRUTH).latency_ns(), 0.99)
    p99 = found.predictions[0].latency["p99"]
    assert p99.value == pytest.approx(really, rel=0.15)
    assert p99.low < min(really, p99.value) < max(really, p99.value) < p99.high


@pytest.mark.parametrize("seconds", [19, 3601])
def test_a_time_that_is_no_use_is_refused(seconds: int) -> None:
    with pytest.raises(UsageError) as caught:
        watched(None, seconds)
    assert caught.value.slug == "out-of-range"


def refusal(slug: str, **more: Any) -> str:
    with pytest.raises(TrituneError) as caught:
        watched(more.pop("play", None), 25, **more)
    assert caught.value.slug == slug
    assert caught.value.exit_code in (ExitCode.NOT_TRUSTWORTHY, ExitCode.FAILED)
    return caught.value.message


def test_what_cannot_be_watched_is_said_in_a_sentence() -> None:
    assert f"nobody used '{MODEL}' in 25 s" in refusal("twin-bad-run")

    def reset(server: FakeServer, second: int) -> None:
        if second == 10:
            FakeServer.load(server, MODEL, json.dumps(SERVED | {"max_batch_size": 16}), deadline_s=1)

    def changed(server: FakeServer, second: int) -> None:
        if second == 10:
            FakeServer.load(server, MODEL, json.dumps(SERVED | TWO), deadline_s=1)

    play = played()
    assert "were reset" in refusal("twin-bad-run", play=play, on_read=reset)
    assert "changed" in refusal("twin-bad-run", play=play, on_read=changed)


def test_several_replicas_and_unknown_models_are_refused() -> None:
    server = ReadOnly(replicas=True)
    server.add_model(SERVED)
    with pytest.raises(TrituneError) as caught:
        observe(server, FakeClock(), RecordingProgress(), MODEL, 30 * NS_PER_S)
    assert caught.value.slug == "several-replicas"
    server = ReadOnly()
    server.add_model(SERVED)
    with pytest.raises(TrituneError) as caught:
        observe(server, FakeClock(), RecordingProgress(), "other", 30 * NS_PER_S)
    assert caught.value.slug == "unknown-model"
