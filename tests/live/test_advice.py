"""A server that loads no models on request gets advice and a diff, not a failure and not a change."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tritune.embedded.server import RunningServer
from tritune.triton import connect

pytestmark = [pytest.mark.live, pytest.mark.timeout(180)]

StartTriton = Callable[..., RunningServer]


def test_advice_without_model_control(start_triton: StartTriton, tmp_path: Path) -> None:
    running = start_triton("delay-too-long", control_mode="none")
    server = connect(running.url)
    before = server.effective_config("reranker")
    config = Path(running.repository) / "reranker" / "config.pbtxt"
    file = config.read_bytes()
    command = [sys.executable, "-m", "tritune", "tune", running.url, "--model", "reranker", "--rate", "100"]
    command += [
        "--slo",
        "p99=22ms",
        "--for",
        "6s",
        "--config",
        str(config),
        "--runs",
        str(tmp_path),
        "--json",
    ]
    done = subprocess.run(
        command,
        capture_output=True,
        text=True,
        timeout=150,
        env=os.environ | {"XDG_STATE_HOME": str(tmp_path / "state")},
        check=False,
    )
    assert done.returncode == 0, done.stderr
    result = json.loads(done.stdout)
    assert result["status"] == "advice"
    assert result["diagnosis"]["findings"][0]["slug"] == "delay-too-long"
    assert result["reloads"] == 0
    assert "-  max_queue_delay_microseconds: 100000" in result["diff"]
    assert "+  max_queue_delay_microseconds: 500" in result["diff"]
    assert server.effective_config("reranker") == before
    assert config.read_bytes() == file
