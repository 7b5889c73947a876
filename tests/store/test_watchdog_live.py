"""kill -9 in the middle of a load on the real Triton, and a trial that somebody else has changed since.

What becomes of a whole `tritune tune` that is killed: tests/live/test_kill.py.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from tritune.embedded.server import RunningServer
from tritune.errors import TrituneError
from tritune.pbtxt.message import same_json, view_json
from tritune.store.journal import Address, Held, known_models, open_journal
from tritune.triton.server import TritonServer, connect
from tritune.verbs.restore import look, restore
from tritune.watchdog import RealClock

OWNER = Path(__file__).with_name("live_owner.py")


def killed(running: RunningServer, model: str, delay_us: int, *, at: str, alone: bool = False) -> None:
    """A tuning that gets as far as `at` and is then killed, half a second into its load if at "loading"."""
    extra = ["alone"] if alone else []
    with subprocess.Popen(
        [sys.executable, OWNER, running.url, running.grpc, model, str(delay_us), *extra],
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        while (word := process.stdout.readline().strip()) != at:
            assert word, "the owner ended by itself"
        if at == "loading":
            time.sleep(0.3)
        process.kill()


def delay_us(server: TritonServer, model: str) -> int | None:
    block = view_json(server.effective_config(model)).dynamic_batching
    return None if block is None else block.max_queue_delay_microseconds


def until(true: Callable[[], bool], seconds: float = 40) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.1)


@pytest.mark.live
def test_kill_9_on_the_real_server(
    start_triton: Callable[..., RunningServer], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    running = start_triton("delay-too-long")
    server, clock = connect(running.url, grpc=running.grpc), RealClock()
    (model,) = {entry.name for entry in server.index()}
    before = look(server, model)
    journal = open_journal(Address(running.url, running.grpc), model)

    def is_original() -> bool:
        now = look(server, model)
        return same_json(now.config_json, before.config_json) and now.versions == before.versions

    def is_settled() -> bool:
        return bool(journal.sessions()[-1].closed) and journal.lock.holder() is None

    # In the middle of a load the original is still shown; it must be what is served in the end, too.
    killed(running, model, 222, at="loading")
    assert is_original()
    until(is_settled)
    time.sleep(2)
    assert is_original()

    killed(running, model, 444, at="loaded", alone=True)
    time.sleep(1)
    assert delay_us(server, model) == 444
    (known,) = known_models()
    assert (known.model, known.address.grpc, known.session.closed) == (model, running.grpc, "")
    theirs = server.effective_config(model).replace(
        '"max_queue_delay_microseconds":444', ('"max_queue_delay_microseconds":555')
    )
    server.load(model, theirs, deadline_s=60)
    with pytest.raises(TrituneError, match="changed by somebody else"):
        restore(server, Held(journal, run="live", role="restore"), model, clock=clock)
    assert delay_us(server, model) == 555
    done = restore(server, Held(journal, run="live", role="restore"), model, clock=clock, force=True)
    assert done.action == "restored"
    assert is_original()
    assert restore(server, Held(journal, run="live", role="restore"), model, clock=clock).action == "nothing"
    server.close()
