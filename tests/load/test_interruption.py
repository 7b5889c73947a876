"""Ctrl-C and SIGTERM end a run cleanly; what was measured is kept and the handlers come back."""

import asyncio
import json
import signal
import subprocess
import sys
import threading

import numpy as np
import pytest

from tritune.load.engine import new_event_loop
from tritune.load.signals import ending_signals
from tritune.units import NS_PER_S

PROGRAM = """
import json, signal, sys
import numpy as np
from tritune.load.engine import HttpLoadEngine
from tritune.model.load import Shot, Target

before = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
engine = HttpLoadEngine()
outcome = engine.open_loop(
    Target("127.0.0.1", int(sys.argv[1])),
    np.arange(6000, dtype=np.int64) * 10_000_000,
    [Shot(f"GET /{path} HTTP/1.1\\r\\nHost: localhost\\r\\n\\r\\n".encode()) for path in sys.argv[2:]],
    timeout_ns=30_000_000_000,
    max_in_flight=5000,
    on_tick=lambda tick: print("tick", flush=True),
)
after = [signal.getsignal(n) for n in (signal.SIGINT, signal.SIGTERM)]
print(json.dumps({
    "cut": outcome.cut, "requests": len(outcome.log),
    "errors": outcome.log.errors_by_kind(), "restored": before == after, "seconds": outcome.seconds,
}))
"""


def interrupted(responder, numbers, *paths):
    process = subprocess.Popen(
        [sys.executable, "-c", PROGRAM, str(responder.port), *paths], stdout=subprocess.PIPE, text=True
    )
    with process:
        try:
            assert process.stdout.readline() == "tick\n"
            for number in numbers:
                process.send_signal(number)
            lines = process.stdout.read().splitlines()
        finally:
            process.kill()
    assert process.returncode == 0
    return json.loads(lines[-1])


@pytest.mark.parametrize(
    ("number", "cut"),
    [(signal.SIGINT, "interrupted"), (signal.SIGTERM, "terminated"), (signal.SIGHUP, "terminated")],
)
def test_a_signal_ends_the_run_and_keeps_the_data(responder, number, cut):
    said = interrupted(responder, [number], "delay/1")
    assert said["cut"] == cut
    assert said["restored"]
    assert said["errors"] == {}
    assert 30 <= said["requests"] < 1000


def test_requests_without_an_answer_are_waited_for_only_shortly(responder):
    said = interrupted(responder, [signal.SIGINT], "never", "delay/1")
    assert said["cut"] == "interrupted"
    assert said["errors"].keys() == {"timeout"}
    assert abs(said["errors"]["timeout"] - said["requests"] / 2) <= 1
    assert said["seconds"] < 10  # half a second to the tick, one second of grace


def test_a_signal_after_the_last_round_of_the_loop_is_not_lost():
    came = []
    loop = new_event_loop()
    with ending_signals(loop, came.append):
        loop.run_until_complete(asyncio.sleep(0))
        signal.raise_signal(signal.SIGINT)
        assert came == []
    loop.close()
    assert came == [signal.SIGINT]


def test_a_signal_in_a_load_that_fails_is_raised_again():
    came = []
    loop = new_event_loop()

    def load():
        with ending_signals(loop, came.append):
            signal.raise_signal(signal.SIGINT)
            raise ConnectionRefusedError

    with pytest.raises(KeyboardInterrupt):
        load()
    loop.close()
    assert came == []


def test_a_load_in_another_thread_leaves_the_handlers_alone(engine, responder):
    before = signal.getsignal(signal.SIGINT)
    outcomes = []

    def load():
        outcomes.append(
            engine.open_loop(
                responder.target,
                np.arange(5, dtype=np.int64),
                [responder.shot("delay/0")],
                timeout_ns=NS_PER_S,
                max_in_flight=10,
            )
        )

    thread = threading.Thread(target=load)
    thread.start()
    thread.join()
    assert outcomes[0].log.errors_by_kind() == {}
    assert signal.getsignal(signal.SIGINT) is before
