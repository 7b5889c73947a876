"""Launched processes live and die as promised. No server needed: they only sleep."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from tritune.embedded.launch import launch
from tritune.embedded.layout import Environment
from tritune.embedded.ports import all_free, free_ports
from tritune.embedded.server import RunningServer, is_alive, start, stop
from tritune.errors import TrituneError

PARENT = """
import os, sys, threading
from pathlib import Path
from tritune.embedded.launch import launch

def begin():
    command = [sys.executable, "-c", "import time; time.sleep(60)"]
    log = Path(sys.argv[1])
    print(launch(command, os.environ, log, die_with_parent=True, python=Path(sys.executable)), flush=True)

thread = threading.Thread(target=begin)
thread.start()
thread.join()  # the thread that asked is gone; the process must live on
sys.stdin.read()
"""


def until(condition: Callable[[], bool], seconds: float = 60.0) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if condition():
            return True
        time.sleep(0.02)
    return False


def runs(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def as_server(pid: int, *, created: float | None = None) -> RunningServer:
    return RunningServer(
        pid=pid,
        created=psutil.Process(pid).create_time() if created is None else created,
        started_at="",
        url="http://127.0.0.1:1",
        grpc="127.0.0.1:2",
        metrics="http://127.0.0.1:3/metrics",
        version="",
        repository="",
        log="",
        trace_file="",
    )


def test_it_dies_with_its_parent_but_not_with_the_thread_that_asked(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(tmp_path / "log")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        time.sleep(0.3)  # the asking thread has long ended
        assert runs(pid)
        parent.send_signal(signal.SIGKILL)
    assert until(lambda: not runs(pid))


def test_it_is_not_started_for_a_parent_that_is_gone(tmp_path: Path) -> None:
    script = Path(sys.modules["tritune.embedded.launch"].__file__ or "").with_name("die_with_parent.py")
    outcome = subprocess.run(
        [sys.executable, "-I", "-S", script, str(os.getpid() + 1), "/bin/touch", tmp_path / "started"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert outcome.returncode == 1
    assert "gone" in outcome.stderr
    assert not (tmp_path / "started").exists()


def test_it_leads_its_own_session_and_writes_its_log(tmp_path: Path) -> None:
    log = tmp_path / "log"
    pid = launch(
        [sys.executable, "-c", "import os, sys; print(os.getsid(0)); print('oh', file=sys.stderr)"],
        os.environ,
        log,
        die_with_parent=False,
        python=Path(sys.executable),
    )
    psutil.Process(pid).wait(timeout=60)
    assert sorted(log.read_text().split()) == sorted([str(pid), "oh"])


def test_stop_ends_the_process_it_names() -> None:
    with subprocess.Popen(["/bin/sleep", "60"]) as process:
        server = as_server(process.pid)
        assert is_alive(server)
        assert stop(server) is True
        assert not is_alive(server)
        assert stop(server) is False


def test_stop_makes_a_stubborn_one_end(tmp_path: Path) -> None:
    stubborn = (
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        "print('on', flush=True); time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", stubborn], stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        process.stdout.readline()
        assert stop(as_server(process.pid), grace_s=0.2) is True
        assert not runs(process.pid)


def test_a_reused_pid_is_left_alone() -> None:
    with subprocess.Popen(["/bin/sleep", "60"]) as process:
        impostor = as_server(process.pid, created=psutil.Process(process.pid).create_time() - 100)
        assert not is_alive(impostor)
        assert stop(impostor) is False
        assert process.poll() is None
        process.kill()


def test_three_free_ports_are_free() -> None:
    first = free_ports()
    assert all_free(first)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first + 2))
        taken.listen()
        assert not all_free(first)


def test_a_repository_that_is_not_there_is_said(tmp_path: Path) -> None:
    with pytest.raises(TrituneError) as caught:
        start(tmp_path / "absent", environment=Environment(root="/x", python_version="3.11", libdir="/x"))
    assert caught.value.slug == "no-repository"
    assert str(tmp_path / "absent") in caught.value.message
