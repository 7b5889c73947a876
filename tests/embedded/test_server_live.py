"""The embedded server on the real Triton: what it says, where it listens, and that it goes when it must."""

from __future__ import annotations

import json
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import psutil
import pytest

from tritune.embedded import environment
from tritune.embedded.environment import ensure_environment
from tritune.embedded.layout import Environment
from tritune.embedded.ports import free_ports
from tritune.embedded.server import RunningServer, start, stop
from tritune.embedded.state import live_servers, stop_recorded
from tritune.errors import TrituneError
from tritune.scenarios import load_scenario, materialise

pytestmark = pytest.mark.live


def get(url: str) -> bytes:
    with urllib.request.urlopen(url, timeout=5) as reply:
        body: bytes = reply.read()
    return body


def test_it_answers_and_infers(triton: RunningServer) -> None:
    assert json.loads(get(f"{triton.url}/v2"))["version"] == triton.version == "2.51.0"
    body = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [2, 4], "data": list(range(8))}]}
    request = urllib.request.Request(f"{triton.url}/v2/models/ranker/infer", json.dumps(body).encode())
    with urllib.request.urlopen(request, timeout=10) as reply:
        [output] = json.loads(reply.read())["outputs"]
    assert output["shape"] == [2, 4]
    assert output["data"] == [float(i + 1) for i in range(8)]


def test_everything_listens_on_loopback_only(triton: RunningServer) -> None:
    listening = [c.laddr for c in psutil.Process(triton.pid).net_connections("inet") if c.status == "LISTEN"]
    # gRPC listens through a socket of the other family, on the same address.
    assert {address.ip.removeprefix("::ffff:") for address in listening} == {"127.0.0.1"}
    port = int(triton.url.rsplit(":", 1)[1])
    assert {address.port for address in listening} == {port, port + 1, port + 2}


def test_metrics_have_summaries(triton: RunningServer) -> None:
    get(f"{triton.url}/v2/health/ready")
    assert b"nv_inference_request_summary_us" in get(triton.metrics)


PARENT = """
import sys
from pathlib import Path
from tritune.embedded import environment
from tritune.embedded.environment import ensure_environment
from tritune.embedded.server import start
server = start(sys.argv[1], environment=ensure_environment(), folder=Path(sys.argv[2]))
print(server.pid, server.url, flush=True)
sys.stdin.read()
"""


def until_gone(pids: list[int], seconds: float) -> bool:
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline:
        if not any(psutil.pid_exists(pid) for pid in pids):
            return True
        time.sleep(0.05)
    return False


def test_kill_9_of_the_parent_takes_the_server_and_its_stubs_along(
    triton_environment: Environment, tmp_path: Path
) -> None:
    repository = materialise(load_scenario("healthy"), tmp_path)
    with subprocess.Popen(
        [sys.executable, "-c", PARENT, str(repository), str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as parent:
        assert parent.stdout is not None
        pid_text, url = parent.stdout.readline().split()
        pid = int(pid_text)
        assert get(f"{url}/v2/health/ready") == b""
        stubs = [child.pid for child in psutil.Process(pid).children(recursive=True)]
        assert stubs
        parent.send_signal(signal.SIGKILL)
    assert until_gone([pid], seconds=5)
    assert until_gone(stubs, seconds=20)  # they notice by themselves, within about 7 s


def test_a_detached_server_outlives_its_starter_and_is_stopped_by_record(
    triton_environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    repository = materialise(load_scenario("healthy"), tmp_path)
    starter = (
        "import sys; from tritune.embedded.environment import ensure_environment;"
        "from tritune.embedded.state import start_detached;"
        "print(start_detached(sys.argv[1], environment=ensure_environment()).url)"
    )
    told = subprocess.run(
        [sys.executable, "-c", starter, str(repository)], capture_output=True, text=True, check=True
    )
    url = told.stdout.strip()
    [server] = live_servers()
    assert server.url == url
    assert json.loads(get(f"{url}/v2"))["version"] == server.version
    assert stop_recorded(url) == (server,)
    assert not psutil.pid_exists(server.pid)
    assert live_servers() == ()
    assert Path(server.log).read_text().count("Started HTTPService") == 1  # the log is kept


def test_a_model_that_does_not_load_is_told_from_the_log(
    triton_environment: Environment, tmp_path: Path
) -> None:
    repository = materialise(load_scenario("staircase"), tmp_path)
    config = repository / "detector" / "config.pbtxt"
    config.write_text(config.read_text().replace("max_batch_size: 4 ", "max_batch_size: 8 "))
    with pytest.raises(TrituneError) as caught:
        start(repository, environment=triton_environment, folder=tmp_path / "state")
    assert caught.value.slug == "server-died"
    assert "more than the engine was built for (4)" in caught.value.message
    assert str(tmp_path / "state" / "triton.log") in caught.value.hint


def test_a_port_taken_at_the_last_moment_is_found_out(
    triton_environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = free_ports()
    monkeypatch.setattr("tritune.embedded.server.all_free", lambda _: True)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first + 2))  # metrics: Triton says ready before it notices
        taken.listen()
        with pytest.raises(TrituneError) as caught:
            start(
                tmp_path,
                environment=triton_environment,
                models=(),
                folder=tmp_path / "state",
                http_port=first,
            )
    assert caught.value.slug == "port-taken"


def test_a_taken_port_is_chosen_anew(
    triton_environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = free_ports()
    choices = iter([first, free_ports()])
    monkeypatch.setattr("tritune.embedded.server.free_ports", lambda: next(choices))
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", first))
        taken.listen()
        server = start(tmp_path, environment=triton_environment, models=(), folder=tmp_path / "state")
    try:
        assert server.url != f"http://127.0.0.1:{first}"
        assert json.loads(get(f"{server.url}/v2"))["version"] == server.version
    finally:
        stop(server)


def test_pip_without_an_index_is_said(
    triton_environment: Environment, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real pip in a real environment; ours is lent its pip, as to install that takes 20 s."""
    run = environment._run

    def run_without_ensurepip(command: list[str], *more: object) -> None:
        if command[-2] != "venv":
            run(command, *more)  # type: ignore[arg-type]
            return
        run([*command[:-1], "--without-pip", command[-1]], *more)  # type: ignore[arg-type]
        [packages] = Path(command[-1]).glob("lib/python3.*/site-packages")
        (packages / "pip").symlink_to(triton_environment.site_packages / "pip")

    monkeypatch.setattr(environment, "_run", run_without_ensurepip)
    monkeypatch.setenv("TRITUNE_CACHE", str(tmp_path))
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    monkeypatch.setenv("PIP_FIND_LINKS", str(tmp_path))
    with pytest.raises(TrituneError) as caught:
        ensure_environment()
    assert caught.value.slug == "no-embedded-triton"
    assert "pip could not install it from the package index" in caught.value.message
    assert "No matching distribution found for nvidia-pytriton" in caught.value.message
