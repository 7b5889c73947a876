"""`simulate URL --model M`: from the counters of a server in use, with nothing sent."""

from __future__ import annotations

import json

import numpy as np
import pytest
from command_line import CONFIG, MODEL, URL, serve, tritune

from tritune.errors import ExitCode
from tritune.testing import FakeClock, FakeServer
from tritune.testing.counting import Execution
from tritune.units import NS_PER_S

DELAY = "dynamic_batching.max_queue_delay_microseconds"
# At this load, 4 % of the requests find the instance busy and are executed together.
BATCHES = (
    (19.2, Execution(queue_ns=40_000, infer_ns=2_000_000)),
    (0.4, Execution((1, 1), queue_ns=900_000, infer_ns=2_200_000)),
)


def in_use(monkeypatch: pytest.MonkeyPatch) -> None:
    """Twenty requests a second; time passes only when somebody waits."""
    clock, chance = FakeClock(), np.random.default_rng(4)
    last = clock.now_ns()

    def work(server: FakeServer) -> None:
        nonlocal last
        for _ in range(round((clock.now_ns() - last) / NS_PER_S)):
            for per_second, batch in BATCHES:
                server.record(MODEL, batch, times=int(chance.poisson(per_second)))
        last = clock.now_ns()

    server = FakeServer(url=URL, clock=clock.now_ns, on_read=work)
    serve(monkeypatch, server)
    server.add_model(CONFIG | {"dynamic_batching": {}})
    monkeypatch.setattr("tritune.clock.RealClock", lambda: clock)


def test_a_server_in_use_is_watched_and_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    in_use(monkeypatch)
    said = tritune("simulate", URL, "--model", MODEL, "--for", "30s", "--set", f"{DELAY}=0,500", "--json")
    assert said.code == ExitCode.OK, said.err
    assert f"watching {MODEL}" in said.err or "finding service times" in said.err
    value = json.loads(said.out)
    assert value["profile"]["service_ns"]["1"]["ns"] == pytest.approx(2_000_000)
    assert value["profile"]["arrival"]["rate_per_s"] == pytest.approx(20, rel=0.15)
    assert value["validity"]["p99_error"] is None
    text = tritune("simulate", URL, "--model", MODEL, "--for", "30s")
    assert text.code == ExitCode.OK, text.err
    assert "The p99 could not be checked" in text.out


@pytest.mark.parametrize(
    ("argv", "said"),
    [
        ((URL,), "is a server, which serves models"),
        ((URL, URL, "--model", MODEL), "reads the counters of one server"),
        ((URL, "--model", MODEL, "--for", "5s"), "watching for 5 s is out of range"),
        ((URL, "--model", "other"), "other"),
    ],
)
def test_what_cannot_be_watched(monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], said: str) -> None:
    in_use(monkeypatch)
    answer = tritune("simulate", *argv)
    assert answer.code in (ExitCode.USAGE, ExitCode.FAILED)
    assert said in answer.complaint
