"""`simulate`: on a run that `load` kept, on figures typed by hand, and every way in which it refuses."""

from __future__ import annotations

import json
import os
import shutil
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

TYPED = ("--service", "4ms+0.55ms*b", "--config", "config.pbtxt")


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
    for text in ("of capacity", "knee", "p99 at 1 / 1.3 / 1.6 x", "2 ms", "Replaying"):
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
    assert value["profile"]["contention"] is None
    slower = [p["latency"]["p50"]["value"] for p in value["predictions"]]
    assert slower[2] - slower[0] == pytest.approx(2 * NS_PER_MS, rel=0.3)


def test_typed_figures(pbtxt: Path) -> None:
    said = typed(pbtxt, "--set", f"{DELAY}=0,500,2000", "--set", "instance_group.count=1:2")
    assert said.code == ExitCode.OK, said.err
    assert "Not checked against any run" in said.out
    assert "6 predictions at 200 requests/s, best first" in said.out


def test_nothing_is_loaded_or_sent(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = kept(monkeypatch, tmp_path)

    def forbidden(*_: object, **__: object) -> None:
        raise AssertionError("simulate talked to a server")

    monkeypatch.setattr("tritune.cli.wiring.connect", forbidden)
    before = {p: p.stat().st_mtime_ns for p in run.rglob("*")}
    assert tritune("simulate", run).code == ExitCode.OK
    assert {p: p.stat().st_mtime_ns for p in run.rglob("*")} == before


# A profile -------------------------------------------------------------------------------------------------


def test_a_profile_predicts_what_its_run_does(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    run = kept(monkeypatch, tmp_path)
    asked = ("--set", f"{DELAY}=0,2000", "--slo", "p99=20ms", "--json")
    first = tritune("simulate", run, *asked, "--save-profile", "p.json")
    assert first.code == ExitCode.OK, first.err
    assert "Wrote p.json" in first.err
    shutil.rmtree(run)
    again = tritune("simulate", "p.json", *asked)
    assert again.code == ExitCode.OK, again.err
    assert json.loads(again.out) == json.loads(first.out)
    assert "[file-exists]" in tritune("simulate", "p.json", "--save-profile", "p.json").complaint
    assert tritune("simulate", "p.json", "--save-profile", "p.json", "--force").code == ExitCode.OK


def test_a_profile_is_read_forgivingly_and_refused_in_a_sentence(pbtxt: Path) -> None:
    assert typed(pbtxt, "--save-profile", "p.json").code == ExitCode.OK
    place = Path("p.json")
    value = json.loads(place.read_text())
    value["unknown"], value["profile"]["later"] = 1, {"x": 2}
    place.write_text(json.dumps(value))
    assert tritune("simulate", "p.json", "--rate", 100).code == ExitCode.OK
    assert "[rate-missing]" in tritune("simulate", "p.json").complaint
    for damage, slug in (
        ({"schema_version": 9}, "profile-newer"),
        ({"profile": 7}, "bad-profile"),
        ({"profile": value["profile"] | {"service_ns": {}}}, "bad-profile"),
        ({"config_json": "{"}, "bad-config-json"),
    ):
        place.write_text(json.dumps(value | damage))
        assert f"[{slug}]" in tritune("simulate", "p.json", "--rate", 100).complaint
    place.write_text("{} trailing")
    assert "[bad-profile]" in tritune("simulate", "p.json", "--rate", 100).complaint


# Questions --------------------------------------------------------------------------------------------------


def predictions(*more: object) -> list[dict[str, Any]]:
    said = tritune("simulate", *TYPED, "--requests", 5000, "--replications", 3, "--json", *more)
    assert said.code == ExitCode.OK, said.err
    found: list[dict[str, Any]] = json.loads(said.out)["predictions"]
    return found


def test_replicas_share_the_rate(pbtxt: Path) -> None:
    shared = predictions("--rate", 600, "--set", "replicas=1:4")
    assert [one["replicas"] for one in shared] == [1, 2, 3, 4]
    for one in shared:
        assert one["load"] * one["replicas"] == pytest.approx(shared[0]["load"])
        assert one["goodput_per_s"] == pytest.approx(600, rel=0.05)
    # Four replicas at 600/s are one replica at 150/s.
    assert shared[3]["latency"] == predictions("--rate", 150)[0]["latency"]


def test_every_field_of_tritons_queue_can_be_set(pbtxt: Path) -> None:
    policy = "dynamic_batching.default_queue_policy"
    said = predictions("--rate", 1500, "--set", f"{policy}.max_queue_size=0,8")
    endless, limited = said
    assert not endless["settles"]
    assert limited["settles"]
    assert limited["failed_share"] > 0.1
    timed = f"{policy}.default_timeout_microseconds=20000"
    override = f"{policy}.allow_timeout_override=true"
    [timeout] = predictions("--rate", 1500, "--set", timed, "--set", override)
    assert timeout["failed_share"] > 0.1
    assert timeout["fields"][f"{policy}.allow_timeout_override"] == "1"


def test_what_triton_refuses_is_not_recommended(pbtxt: Path) -> None:
    sized = typed(pbtxt, "--set", "dynamic_batching.preferred_batch_size=[4],[16]")
    assert sized.code == ExitCode.NOT_TRUSTWORTHY
    assert "Triton refuses a preferred batch size of 16 above max_batch_size 8" in sized.out
    levels = ("--set", "dynamic_batching.priority_levels=2")
    assert "default_priority_level" in typed(pbtxt, *levels).complaint
    assert typed(pbtxt, *levels, "--set", "dynamic_batching.default_priority_level=1").code == ExitCode.OK
    assert "more than the 1000" in typed(pbtxt, "--set", "instance_group.count=100000").complaint


def test_clients_that_retry_make_a_bad_rate_worse(pbtxt: Path) -> None:
    [patient] = predictions("--rate", 850)
    asked = ("--rate", 850, "--client-timeout", "40ms", "--retries", 2, "--backoff", "5ms")
    [stormy] = predictions(*asked)
    [frugal] = predictions(*asked, "--retry-budget", 0.02)
    assert patient["attempts_per_request"] is None
    assert patient["goodput_per_s"] == pytest.approx(850, rel=0.05)
    assert stormy["attempts_per_request"] > 1.3
    assert 1 <= frugal["attempts_per_request"] < 1.05
    assert stormy["goodput_per_s"] < frugal["goodput_per_s"] < 850 * 1.05
    said = tritune("simulate", *TYPED, *asked)
    assert "goodput/s" in said.out
    assert "Clients give up after 40 ms, retry up to 2 times, back off from 5 ms." in said.out


def test_a_sweep_of_rates_is_a_chart_and_a_page(pbtxt: Path) -> None:
    said = typed(pbtxt, "--rate", "100:900:200", "--slo", "p99=30ms", "--html", "page.html")
    assert said.code == ExitCode.OK, said.err
    assert "█" in said.out
    assert "900" in said.out
    page = Path("page.html").read_text(encoding="utf-8")
    assert "Predicted p99 by rate" in page
    assert "http://" not in page.split("<body")[0].replace("http://www.w3.org", "")


def test_rates_stay_in_the_order_given(pbtxt: Path) -> None:
    rates = [one["rate_per_s"] for one in predictions("--rate", 200, "--rate", "50:60:5", "--rate", 55)]
    assert rates == [200, 50, 55, 60]


def test_effort_is_as_asked_and_said(pbtxt: Path) -> None:
    said = typed(pbtxt, "--requests", 1000, "--replications", 1, "--full")
    assert "Each prediction: 1 x 1000 requests, Poisson arrivals." in said.out
    assert "(?)" in said.out


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
        ((*TYPED, "--rate", "5:1"), "bad-rate"),
        ((*TYPED, "--rate", "5:9:0"), "bad-rate"),
        ((*TYPED, "--rate", "fast"), "bad-rate"),
        ((*TYPED, "--rate", "nan"), "bad-rate"),
        ((*TYPED, "--rate", "1:9999:1"), "bad-set"),
        ((*TYPED, "--rate", "1:1000:1", "--set", "instance_group.count=1:3"), "bad-set"),
        ((*TYPED, "--rate", 5, "--set", "replicas=0"), "bad-set"),
        ((*TYPED, "--rate", 5, "--retries", -1), "out-of-range"),
        ((*TYPED, "--rate", 5, "--retry-budget", -1), "out-of-range"),
        ((*TYPED, "--rate", 5, "--client-timeout", "0ms"), "out-of-range"),
        ((*TYPED, "--rate", 5, "--client-timeout", "50"), "bad-duration"),
        ((*TYPED, "--rate", 5, "--requests", -1), "out-of-range"),
        ((*TYPED, "--rate", 5, "--html", "config.pbtxt"), "file-exists"),
        ((*TYPED, "--rate", 5, "--save-profile", "config.pbtxt"), "file-exists"),
        ((*TYPED, "--rate", 5, "--save-profile", "no/such/folder/p.json"), "file-not-writable"),
        (("somewhere",), "not-a-run"),
        (("config.pbtxt",), "bad-profile"),
        (("config.pbtxt", "somewhere"), "one-profile"),
    ],
)
def test_what_cannot_be_used(pbtxt: Path, argv: tuple[object, ...], slug: str) -> None:
    said = tritune("simulate", *argv)
    assert f"[{slug}]" in said.complaint
    assert said.out == ""
    assert said.code == (ExitCode.FAILED if slug in ("not-a-run", "file-not-writable") else ExitCode.USAGE)


def test_the_other_verbs_do_not_pay_for_the_compiler() -> None:
    code = (
        "import sys, tritune.cli.main, tritune.cli.simulate, tritune.cli.diagnose, tritune.cli.load,"
        " tritune.verbs.diagnose, tritune.report.content.diagnosis; assert 'numba' not in sys.modules"
    )
    path = {"PYTHONPATH": os.pathsep.join(sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=os.environ | path)
