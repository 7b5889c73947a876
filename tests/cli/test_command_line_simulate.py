"""`simulate`: on a run that `load` kept, on figures typed by hand, and every way in which it refuses."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from command_line import CONFIG, MODEL, URL, Said, serve, tritune

from tritune.errors import ExitCode
from tritune.testing import FakeServer, Mishap
from tritune.units import NS_PER_MS

DELAY = "dynamic_batching.max_queue_delay_microseconds"
PBTXT = """
name: "ranker" backend: "python" max_batch_size: 8
input [ { name: "x" data_type: TYPE_FP32 dims: [ 4 ] } ]
output [ { name: "y" data_type: TYPE_FP32 dims: [ 4 ] } ]
dynamic_batching { max_queue_delay_microseconds: 500 }
instance_group [ { kind: KIND_CPU count: 1 } ]
"""


@pytest.fixture
def pbtxt(tmp_path: Path) -> Path:
    path = tmp_path / "config.pbtxt"
    path.write_text(PBTXT)
    return path


def kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, *more: object, **world: Any) -> Path:
    """A run folder of `load` at 100 requests/s without a delay, where the fake server does as Triton does."""
    server = FakeServer(url=URL, clock=lambda: 0)
    serve(monkeypatch, **world)
    monkeypatch.setitem(CONFIG, "dynamic_batching", {})
    server.add_model(CONFIG)
    serve(monkeypatch, **world)
    tritune("load", URL, "--model", MODEL, "--rate", 100, "--for", "20s", *more)
    [run] = (tmp_path / "tritune-runs").iterdir()
    return run


def typed(pbtxt: Path, *more: object) -> Said:
    return tritune("simulate", "--service", "4ms+0.55ms*b", "--config", pbtxt, "--rate", 200, *more)


def test_a_run(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = kept(monkeypatch, tmp_path)
    said = tritune("simulate", run, "--set", f"{DELAY}=0,2000", "--slo", "p99=20ms", "--full")
    assert said.code == ExitCode.OK, said.err
    for text in ("of capacity", "knee", "p99 at 1 / 1.3 / 1.6 x", "delay 0 us", "delay 2000 us", "Replaying"):
        assert text in said.out, text
    assert "measured" in said.out


def test_a_run_as_json(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = kept(monkeypatch, tmp_path)
    said = tritune("simulate", run, "--set", f"{DELAY}=0,2000", "--rate", 80, "--rate", 120, "--json")
    assert said.code == ExitCode.OK, said.err
    value = json.loads(said.out)
    assert value["schema"] == "tritune.simulation/1"
    assert [(p["setting"], p["rate_per_s"]) for p in value["predictions"]] == [
        (f"{DELAY.split('.')[1]}: {delay}", rate) for delay in (0, 2000) for rate in (80, 120)
    ]
    assert abs(value["validity"]["p99_error"]) < 0.2
    assert value["profile"]["service_ns"]["1"]["source"] == "measured"
    assert value["profile"]["wake_ns"] is None
    slower = [p["latency"]["p50"]["value"] for p in value["predictions"]]
    assert slower[2] - slower[0] == pytest.approx(2 * NS_PER_MS, rel=0.3)


def test_typed_figures(pbtxt: Path) -> None:
    said = typed(pbtxt, "--set", f"{DELAY}=0,500,2000", "--set", "instance_group.count=1:2")
    assert said.code == ExitCode.OK, said.err
    assert "Not checked against any run" in said.out
    assert said.out.count("instances") == 6


def test_nothing_is_loaded_or_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = kept(monkeypatch, tmp_path)

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("simulate talked to a server")

    monkeypatch.setattr("tritune.cli.wiring.connect", forbidden)
    before = {p: p.stat().st_mtime_ns for p in run.rglob("*")}
    assert tritune("simulate", run).code == ExitCode.OK
    assert {p: p.stat().st_mtime_ns for p in run.rglob("*")} == before


# Refusals ---------------------------------------------------------------------------------------------------


def test_a_rate_outside_is_refused_in_one_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = kept(monkeypatch, tmp_path)
    said = tritune("simulate", run, "--rate", 400)
    assert said.code == ExitCode.NOT_TRUSTWORTHY
    assert said.out == ""
    assert "1.6 times" in said.complaint
    assert "measure at 250" in said.complaint
    assert "[twin-refused]" in said.complaint


def test_a_part_outside_is_shown_as_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = kept(monkeypatch, tmp_path)
    said = tritune("simulate", run, "--set", "instance_group.count=1:2")
    assert said.code == ExitCode.NOT_TRUSTWORTHY
    assert "refused" in said.out
    assert "--contention" in said.out
    assert said.complaint == "1 of 2 predictions were refused"
    again = tritune("simulate", run, "--set", "instance_group.count=1:2", "--contention", "0.5")
    assert again.code == ExitCode.OK, again.err


def test_a_run_whose_replay_is_off_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The folder holds another setting than the one that ran."""
    run = kept(monkeypatch, tmp_path)
    place = run / "config" / "effective.json"
    config = json.loads(place.read_text())
    config["dynamic_batching"] = {"max_queue_delay_microseconds": 20_000}
    place.write_text(json.dumps(config))
    said = tritune("simulate", run)
    assert said.code == ExitCode.NOT_TRUSTWORTHY
    assert said.out == ""
    assert "[twin-not-valid]" in said.complaint
    assert "measure" in said.complaint


def test_a_late_sender_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = kept(monkeypatch, tmp_path, mishaps={1: Mishap(late_ns=50 * NS_PER_MS)})
    said = tritune("simulate", run)
    assert said.code == ExitCode.NOT_TRUSTWORTHY
    assert "not trustworthy" in said.complaint


def test_a_closed_loop_is_no_plan(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    serve(monkeypatch)
    tritune("load", URL, "--model", MODEL, "-c", 4, "-n", 400)
    [run] = (tmp_path / "tritune-runs").iterdir()
    said = tritune("simulate", run)
    assert said.code == ExitCode.USAGE
    assert "[not-a-load]" in said.complaint


def test_a_run_without_its_configuration(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = kept(monkeypatch, tmp_path)
    (run / "config" / "effective.json").unlink()
    said = tritune("simulate", run)
    assert said.code == ExitCode.USAGE
    assert "[not-a-load]" in said.complaint


@pytest.mark.parametrize(
    ("argv", "slug"),
    [
        ((), "run-or-service"),
        (("--service", "4ms"), "run-or-service"),
        (("somewhere", "--service", "4ms", "--config", "config.pbtxt"), "run-or-service"),
        (("--service", "4ms", "--config", "nowhere.pbtxt", "--rate", 5), "config-unreadable"),
        (("--service", "4ms", "--config", "config.pbtxt"), "rate-missing"),
        (("--service", "four", "--config", "config.pbtxt", "--rate", 5), "bad-service"),
        (("--service", "4ms", "--config", "config.pbtxt", "--rate", 5, "--set", "x=1"), "bad-set"),
        (("--service", "4ms", "--config", "config.pbtxt", "--rate", 5, "--contention", "-1"), "out-of-range"),
        (("--service", "4ms", "--config", "config.pbtxt", "--rate", 0), "bad-rate"),
        (("--service", "4ms", "--config", "config.pbtxt", "--rate", 5, "--items", -1), "out-of-range"),
        (("--service", "4ms", "--config", "config.pbtxt", "--rate", 5, "--slo", "fast"), "bad-slo"),
        (("somewhere",), "not-a-run"),
    ],
)
def test_what_cannot_be_used(pbtxt: Path, argv: tuple[object, ...], slug: str) -> None:
    said = tritune("simulate", *argv)
    assert f"[{slug}]" in said.complaint
    assert said.out == ""
    assert said.code == (ExitCode.FAILED if slug == "not-a-run" else ExitCode.USAGE)


def test_the_other_verbs_do_not_pay_for_the_compiler() -> None:
    code = (
        "import sys, tritune.cli.main, tritune.cli.simulate, tritune.cli.diagnose, tritune.cli.load,"
        " tritune.verbs.diagnose, tritune.report.content.diagnosis; assert 'numba' not in sys.modules"
    )
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | path)
