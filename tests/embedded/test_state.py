"""Records of detached servers: written, found, cleaned, and never a reason to stop a stranger."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import msgspec
import psutil
import pytest

from tritune.embedded import state
from tritune.embedded.server import RunningServer
from tritune.embedded.state import live_servers, stop_recorded
from tritune.errors import UsageError


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    return tmp_path / "tritune" / "servers"


@pytest.fixture
def process() -> Iterator[subprocess.Popen[bytes]]:
    with subprocess.Popen(["/bin/sleep", "60"]) as sleeping:
        yield sleeping
        sleeping.kill()


def record(pid: int, port: int = 8000, age_s: float = 0.0) -> RunningServer:
    server = RunningServer(
        pid=pid,
        created=psutil.Process(pid).create_time() - age_s,
        started_at="2026-11-30T12:00:00+00:00",
        url=f"http://127.0.0.1:{port}",
        grpc=f"127.0.0.1:{port + 1}",
        metrics=f"http://127.0.0.1:{port + 2}/metrics",
        version="2.51.0",
        repository="/models",
        log="/log",
        trace_file="/trace",
    )
    state._write(server)
    return server


def test_a_live_server_is_listed_as_it_was_written(process: subprocess.Popen[bytes]) -> None:
    server = record(process.pid)
    assert live_servers() == (server,)


def test_no_folder_means_no_servers() -> None:
    assert live_servers() == ()
    assert stop_recorded() == ()


def test_records_of_the_gone_are_removed(process: subprocess.Popen[bytes], folder: Path) -> None:
    record(process.pid, port=8000, age_s=1000)  # the pid was another's then
    current = record(process.pid, port=9000)
    assert live_servers() == (current,)
    assert len(list(folder.glob("*.json"))) == 1


def test_a_torn_record_is_ignored(process: subprocess.Popen[bytes], folder: Path) -> None:
    server = record(process.pid)
    (folder / "torn.json").write_bytes(msgspec.json.encode(server)[:40])
    assert live_servers() == (server,)


@pytest.mark.parametrize("by", ["url", "url with slash", "pid"])
def test_one_is_stopped_by_url_or_pid(process: subprocess.Popen[bytes], folder: Path, by: str) -> None:
    server = record(process.pid)
    name = {"url": server.url, "url with slash": f"{server.url}/", "pid": str(server.pid)}[by]
    assert stop_recorded(name) == (server,)
    assert not psutil.pid_exists(server.pid)
    assert list(folder.glob("*.json")) == []


def test_an_unknown_one_is_said_and_nothing_stopped(process: subprocess.Popen[bytes]) -> None:
    record(process.pid)
    with pytest.raises(UsageError) as caught:
        stop_recorded("http://127.0.0.1:9999")
    assert caught.value.slug == "no-such-server"
    assert process.poll() is None


def test_stop_all_leaves_a_stranger_with_an_old_pid_alone(process: subprocess.Popen[bytes]) -> None:
    record(process.pid, age_s=1000)
    assert stop_recorded() == ()
    assert process.poll() is None
