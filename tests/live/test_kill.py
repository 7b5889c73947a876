"""A tuning that dies leaves the server as it was: by the watchdog, and without one by `tritune restore`."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tritune.embedded.server import RunningServer
from tritune.pbtxt.message import same_json
from tritune.scenarios import load_scenario, materialise
from tritune.triton import connect

pytestmark = [pytest.mark.live, pytest.mark.timeout(240)]

MODEL = "ranker"
StartTriton = Callable[..., RunningServer]


class Case:
    """A server with a model to tune, and the command that tunes it."""

    def __init__(self, running: RunningServer, folder: Path) -> None:
        self.server = connect(running.url)
        self.url = running.url
        self.pid = running.pid
        self.config = Path(running.repository) / MODEL / "config.pbtxt"
        self.folder = folder
        self.environment = os.environ | {"XDG_STATE_HOME": str(folder / "state")}
        self.original = self.server.effective_config(MODEL)

    def tune(self, *options: str) -> subprocess.Popen[str]:
        command = [sys.executable, "-m", "tritune", "tune", self.url, "--model", MODEL, "--rate", "150"]
        command += ["--slo", "p50=1ms", "--for", "2s", "--config", str(self.config), "--every-stage"]
        command += ["--runs", str(self.folder / "runs"), *options]
        return subprocess.Popen(
            command, env=self.environment, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )

    def run(self, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "tritune", *arguments]
        return subprocess.run(
            command, env=self.environment, capture_output=True, text=True, timeout=120, check=False
        )

    def is_original(self) -> bool:
        return same_json(self.server.effective_config(MODEL), self.original)

    def wait(self, what: Callable[[], bool], seconds: float) -> bool:
        end = time.monotonic() + seconds
        while not what():
            if time.monotonic() > end:
                return False
            time.sleep(0.1)
        return True


def started(start: StartTriton, folder: Path) -> RunningServer:
    """A quick model with a delay: the first trial cuts it, which is a whole reload."""
    repository = materialise(load_scenario("healthy"), folder)
    config = repository / MODEL / "config.pbtxt"
    text = config.read_text()
    assert "dynamic_batching { }" in text
    delay = "dynamic_batching { max_queue_delay_microseconds: 5000 }"
    config.write_text(text.replace("dynamic_batching { }", delay))
    return start(repository)


@pytest.fixture(scope="module")
def running(start_for_module: StartTriton, tmp_path_factory: pytest.TempPathFactory) -> RunningServer:
    """One server for all tests whose end is that the original is served again."""
    return started(start_for_module, tmp_path_factory.mktemp("killed"))


@pytest.fixture
def case(running: RunningServer, tmp_path: Path) -> Iterator[Case]:
    case = Case(running, tmp_path)
    yield case
    case.server.close()


def in_a_trial(case: Case, *options: str) -> subprocess.Popen[str]:
    """A tuning that has loaded its first trial; begun again where the machine was too busy to measure (4)."""
    for _ in range(3):
        tuning = case.tune(*options)
        assert case.wait(lambda t=tuning: t.poll() is not None or not case.is_original(), 120)
        if tuning.poll() is None:
            return tuning
        _, err = tuning.communicate()
        assert tuning.returncode == 4, err
    raise AssertionError(err)


def killed_in_a_trial(case: Case, number: signal.Signals, *options: str) -> subprocess.Popen[str]:
    tuning = in_a_trial(case, *options)
    tuning.send_signal(number)
    return tuning


def test_the_watchdog_restores_after_kill_9(case: Case) -> None:
    tuning = killed_in_a_trial(case, signal.SIGKILL)
    tuning.communicate(timeout=60)
    assert case.wait(case.is_original, 60)
    said = case.run("restore", case.url)
    assert said.returncode == 0, said.stderr
    assert "nothing" in said.stderr
    assert case.is_original()


def test_restore_does_it_without_a_watchdog(case: Case) -> None:
    tuning = killed_in_a_trial(case, signal.SIGKILL, "--no-watchdog")
    tuning.communicate(timeout=60)
    # A load that was under way goes on in the server although its client is dead.
    time.sleep(2)
    assert not case.is_original()
    refused = case.run(
        "tune", case.url, "--model", MODEL, "--rate", "50", "--slo", "p99=1ms", "--for", "2s",
        "--runs", str(case.folder / "runs"),
    )  # fmt: skip
    assert refused.returncode == 1
    assert "restore" in refused.stderr
    said = case.run("restore", "--json")
    assert said.returncode == 0, said.stderr
    assert json.loads(said.stdout)["items"][0]["action"] == "restored"
    assert case.is_original()


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_an_interrupted_tuning_puts_the_original_back_itself(
    case: Case, number: signal.Signals, code: int
) -> None:
    tuning = killed_in_a_trial(case, number)
    _, err = tuning.communicate(timeout=120)
    assert tuning.returncode == code, err
    assert "Traceback" not in err
    assert case.is_original()
    runs = list((case.folder / "runs").glob("2*"))
    assert len(runs) == 1
    manifest = json.loads((runs[0] / "manifest.json").read_text())
    assert manifest["status"] == "cut"
    assert list((runs[0] / "trials").glob("*/requests.parquet"))


def test_a_server_that_dies_in_a_tuning_is_said_in_a_sentence(
    start_triton: StartTriton, tmp_path: Path
) -> None:
    case = Case(started(start_triton, tmp_path), tmp_path)
    tuning = in_a_trial(case)
    os.kill(case.pid, signal.SIGKILL)
    _, err = tuning.communicate(timeout=120)
    assert tuning.returncode == 1, err
    assert "Traceback" not in err
    assert err.count("error:") == 1
