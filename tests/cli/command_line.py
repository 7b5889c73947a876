"""The command line in this process, with the fake server and load engine behind it."""

from __future__ import annotations

import contextlib
import io
import signal
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import pytest

from tritune.cli.main import run
from tritune.load.warmup import warm_up
from tritune.testing import FakeClock, FakeLoadEngine, FakeServer, Mishap, RecordingProgress
from tritune.units import NS_PER_MS
from tritune.verbs.measure import Instruments

MODEL = "ranker"
URL = "http://127.0.0.1:8000"
CONFIG: dict[str, Any] = {
    "name": MODEL,
    "backend": "python",
    "version_policy": {"latest": {"num_versions": 1}},
    "max_batch_size": 8,
    "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [4]}],
    "output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": [4]}],
    "dynamic_batching": {"max_queue_delay_microseconds": 100_000},
    "instance_group": [{"name": f"{MODEL}_0", "kind": "KIND_CPU", "count": 1}],
}


@dataclass(frozen=True)
class Said:
    """What a command answered."""

    code: int
    out: str
    err: str

    @property
    def complaint(self) -> str:
        """The one sentence of a failure: `error: ...`, without the hint after it."""
        assert "Traceback" not in self.err
        lines = [line for line in self.err.splitlines() if line.startswith("error: ")]
        assert len(lines) == 1, self.err
        return lines[0].removeprefix("error: ")


def tritune(*argv: object) -> Said:
    """Run one command; the signal handlers of the test process stay as they were."""
    out, err = io.StringIO(), io.StringIO()
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGHUP)}
    try:
        with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
            code = run([str(a) for a in argv])
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
    return Said(code, out.getvalue(), err.getvalue())


def serve(
    monkeypatch: pytest.MonkeyPatch,
    server: FakeServer | None = None,
    *,
    service: Callable[[int, int], float] = lambda items, _: (3.0 + 0.4 * items) * NS_PER_MS,
    mishaps: dict[int, Mishap] | None = None,
) -> FakeServer:
    """Whatever URL is named, this server answers, and loads go through the fake engine, in virtual time."""
    clock = FakeClock()
    served = server or FakeServer(url=URL, clock=clock.now_ns)
    served.add_model(CONFIG)
    engine = FakeLoadEngine(served, service, clock, mishaps=mishaps)

    def instruments(of: FakeServer, **_: Any) -> Instruments:
        return Instruments(
            of, engine, partial(warm_up, engine), clock, RecordingProgress(), max_in_flight=1000
        )

    monkeypatch.setattr("tritune.cli.wiring.connect", lambda *_, **__: served)
    monkeypatch.setattr("tritune.cli.wiring.instruments", instruments)
    monkeypatch.setattr("tritune.cli.session.instruments", instruments)
    for module in ("tritune.cli.wiring", "tritune.clock"):
        monkeypatch.setattr(f"{module}.RealClock", lambda: clock)
    return served
