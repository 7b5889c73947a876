"""What the verbs print, write and return where all is well, in virtual time."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from command_line import CONFIG, MODEL, URL, Said, serve, tritune

from tritune import __version__
from tritune.cli.main import app
from tritune.errors import ExitCode
from tritune.pbtxt.message import same_json, text_of_json
from tritune.store.reader import open_run
from tritune.testing import FakeServer, Mishap
from tritune.testing.counting import Execution
from tritune.tune.undo import as_served
from tritune.units import NS_PER_MS

VERBS = ("demo", "diagnose", "load", "simulate", "tune", "restore", "report", "server")
ORIGINAL = as_served(json.dumps(CONFIG))


def tune(*more: object) -> Said:
    return tritune("tune", URL, "--model", MODEL, "--rate", 100, "--for", "10s", "--no-watchdog", *more)


def the_run(root: Path) -> Path:
    [found] = (root / "tritune-runs").iterdir()
    return found


def parsed(said: Said, kind: str) -> dict[str, Any]:
    """The whole of stdout is one JSON object of this kind."""
    value = json.loads(said.out)
    assert value["schema"] == f"tritune.{kind}/1"
    return value


# What it is -------------------------------------------------------------------------------------------------


def test_the_version() -> None:
    said = tritune("--version")
    assert (said.code, said.out.strip()) == (0, __version__)


@pytest.mark.parametrize("argv", [(), *((verb,) for verb in VERBS), ("server", "start"), ("server", "stop")])
def test_every_verb_explains_itself(argv: tuple[str, ...]) -> None:
    said = tritune(*argv, "--help")
    assert said.code == 0
    assert "Usage: tritune" in said.out
    assert said.err == ""


def test_every_verb_of_the_app_is_tested_here() -> None:
    assert {name for name in app if not name.startswith("-")} == set(VERBS)


def test_every_option_is_explained() -> None:
    """An option without a word in its docstring shows up as a bare line in --help."""
    for verb in VERBS[:-1]:
        for line in tritune(verb, "--help").out.splitlines():
            words = line.strip("│ ").split("  ")
            if words[0].startswith("--") or words[0].startswith("*  --"):
                assert len([w for w in words if w.strip()]) >= 2 or len(words[0]) > 30, line


# load -------------------------------------------------------------------------------------------------------


def test_load_measures_keeps_and_prints(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    server = serve(monkeypatch)
    said = tritune("load", URL, "--model", MODEL, "--rate", 100, "--for", "5s")
    assert said.code == ExitCode.OK, said.err
    assert MODEL in said.out
    stored = open_run(the_run(tmp_path))
    assert stored.manifest.measurement is not None
    assert len(stored.requests()) == stored.manifest.measurement.requests > 400
    assert str(stored.path) in said.err
    assert server.loads == []


def test_load_as_json(monkeypatch: pytest.MonkeyPatch) -> None:
    serve(monkeypatch)
    said = tritune("load", URL, "--model", MODEL, "-c", 4, "-n", 400, "--json")
    value = parsed(said, "load")
    assert value["measurement"]["requests"] == 400
    assert value["measurement"]["workload"]["concurrency"] == 4


@pytest.mark.parametrize(
    ("slo", "rate", "seconds", "code"),
    [
        ("p99=500ms", 200, "30s", ExitCode.OK),
        ("p99=5ms", 200, "30s", ExitCode.OBJECTIVE_NOT_MET),
        ("p99=500ms", 20, "1s", ExitCode.NOT_TRUSTWORTHY),  # too few requests to be sure of a p99
    ],
)
def test_load_against_an_slo(
    monkeypatch: pytest.MonkeyPatch, slo: str, rate: int, seconds: str, code: ExitCode
) -> None:
    serve(monkeypatch)
    said = tritune("load", URL, "--model", MODEL, "--rate", rate, "--for", seconds, "--slo", slo)
    assert said.code == code, said.err


@pytest.mark.parametrize(
    ("mishap", "code"),
    [
        (Mishap(interrupted=True), ExitCode.INTERRUPTED),
        (Mishap(gone=True), ExitCode.FAILED),
        (Mishap(late_ns=50 * NS_PER_MS), ExitCode.NOT_TRUSTWORTHY),
    ],
)
def test_a_run_that_is_not_whole_has_its_exit_code_and_is_kept(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, mishap: Mishap, code: ExitCode
) -> None:
    serve(monkeypatch, mishaps={1: mishap})
    said = tritune("load", URL, "--model", MODEL, "--rate", 100, "--for", "5s", "--json")
    assert said.code == code
    assert said.complaint
    stored = open_run(the_run(tmp_path))
    assert stored.manifest.status == ("complete" if mishap.late_ns else "cut")
    assert len(stored.requests()) > 200
    assert parsed(said, "load")["cut"] == stored.manifest.cut


# diagnose ---------------------------------------------------------------------------------------------------


def test_diagnose_prints_what_it_saw(monkeypatch: pytest.MonkeyPatch) -> None:
    def work(server: FakeServer) -> None:
        server.record(MODEL, Execution(queue_ns=50 * NS_PER_MS, infer_ns=NS_PER_MS), times=200)

    server = serve(monkeypatch, FakeServer(on_read=work))
    assert tritune("diagnose", URL, "--watch-for", "1s").code == ExitCode.OK
    value = parsed(tritune("diagnose", URL, "--model", MODEL, "--json"), "diagnosis")
    assert [m["model"] for m in value["models"]] == [MODEL]
    assert server.loads == []


# tune, report, restore --------------------------------------------------------------------------------------


def test_tune_writes_its_run_and_what_it_did_can_be_undone(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = serve(monkeypatch)
    said = tune("--slo", "p99=25ms")
    assert said.code == ExitCode.OK, said.err
    run = the_run(tmp_path)
    for name in ("manifest.json", "tune.json", "report.html", "config.diff", "config/tuned.pbtxt"):
        assert (run / name).is_file(), name
    assert open_run(run).manifest.status == "complete"
    assert not same_json(server.effective_config(MODEL), ORIGINAL)
    for style in ("text", "markdown", "json", "html"):
        told = tritune("report", run, "--format", style, "--out", tmp_path / f"report.{style}")
        assert told.code == 0, told.err
        assert (tmp_path / f"report.{style}").stat().st_size > 500
    undone = tritune("restore", URL, "--json")
    assert undone.code == ExitCode.OK, undone.err
    assert [item["action"] for item in parsed(undone, "restore")["items"]] == ["restored"]
    assert same_json(server.effective_config(MODEL), ORIGINAL)
    loads = len(server.loads)
    again = tritune("restore")
    assert (again.code, len(server.loads)) == (ExitCode.OK, loads)


def test_tune_as_json_with_the_operators_file(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    serve(monkeypatch)
    monkeypatch.setattr("tritune.cli.session.started_at", lambda _: None)
    folder = tmp_path / "models" / MODEL
    folder.mkdir(parents=True)
    (folder / "config.pbtxt").write_text("# mine\n" + text_of_json(json.dumps(CONFIG)))
    value = parsed(tune("--slo", "p99=25ms", "--config", folder, "--json"), "tune")
    assert value["status"] == "met"
    assert value["diff"].splitlines()[:2] == [
        f"--- a/models/{MODEL}/config.pbtxt",
        f"+++ b/models/{MODEL}/config.pbtxt",
    ]
    assert "# mine" in (the_run(tmp_path) / "config" / "tuned.pbtxt").read_text()


@pytest.mark.parametrize(
    ("slo", "mishaps", "code"),
    [
        ("p99=500ms", {}, ExitCode.OK),
        ("p99=1ms", {}, ExitCode.OBJECTIVE_NOT_MET),
        ("p99=25ms", {n: Mishap(late_ns=50 * NS_PER_MS) for n in range(1, 9)}, ExitCode.NOT_TRUSTWORTHY),
        ("p99=25ms", {1: Mishap(interrupted=True)}, ExitCode.INTERRUPTED),
        ("p99=25ms", {3: Mishap(interrupted=True)}, ExitCode.INTERRUPTED),
        ("p99=25ms", {3: Mishap(foreign=500)}, ExitCode.FAILED),
    ],
)
def test_how_a_tuning_ended_is_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, slo: str, mishaps: dict[int, Mishap], code: ExitCode
) -> None:
    server = serve(monkeypatch, mishaps=mishaps)
    said = tune("--slo", slo, "--stages", "delay")
    assert said.code == code, said.err
    run = the_run(tmp_path)
    cut = code in (ExitCode.INTERRUPTED, ExitCode.FAILED)
    assert open_run(run).manifest.status == ("cut" if cut else "complete")
    if cut:
        assert same_json(server.effective_config(MODEL), ORIGINAL)


def test_a_tuning_whose_server_went_away_keeps_its_run_and_its_journal(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    server = serve(monkeypatch, mishaps={3: Mishap(gone=True)})
    said = tune("--slo", "p99=25ms")
    assert said.code == ExitCode.FAILED
    assert "tritune restore" in said.err
    assert said.complaint
    manifest = open_run(the_run(tmp_path)).manifest
    assert (manifest.status, bool(manifest.cut)) == ("cut", True)
    server._gone = False
    assert tritune("restore").code == ExitCode.OK
    assert same_json(server.effective_config(MODEL), ORIGINAL)


def test_restore_without_a_tuning_has_nothing_to_do() -> None:
    assert tritune("restore").code == ExitCode.OK
    assert tritune("restore", URL).code == ExitCode.OK
