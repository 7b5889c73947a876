"""Whatever goes wrong: the right exit code, one sentence on stderr, nothing on stdout, no traceback."""

from __future__ import annotations

import json
import socket
from pathlib import Path

import pytest
from command_line import MODEL, URL, serve, tritune

from tritune.errors import ExitCode, UsageError
from tritune.testing import FakeServer

LOAD = ("load", "127.0.0.1:1", "--model", MODEL)
TUNE = ("tune", "127.0.0.1:1", "--model", MODEL, "--rate", "100")


@pytest.mark.parametrize(
    "argv",
    [
        ("tunne", "127.0.0.1:1"),
        ("server", "restart"),
        ("diagnose",),
        ("diagnose", "127.0.0.1:1", "ranker"),
        ("diagnose", "127.0.0.1:1", "--watch", "5s"),
        ("diagnose", "127.0.0.1:1", "--watch-for", "5 parsecs"),
        ("diagnose", "127.0.0.1:1", "--watch-for", "0s"),
        ("load", "127.0.0.1:1"),
        (*LOAD, "--rate", "10", "--rates", "10"),
        LOAD,
        (*LOAD, "--rate", "100", "--concurrency", "4"),
        (*LOAD, "--rate", "0"),
        (*LOAD, "--rate", "-5"),
        (*LOAD, "--rate", "nan"),
        (*LOAD, "--rate", "ten"),
        (*LOAD, "--rate", "10", "--for", "30"),
        (*LOAD, "--rate", "10", "--for", "0s"),
        (*LOAD, "--rate", "10", "--for", "25h"),
        (*LOAD, "--rate", "10", "-n", "0"),
        (*LOAD, "--rate", "10", "--items", "-1"),
        (*LOAD, "--rate", "10", "--timeout", "0ms"),
        (*LOAD, "--rate", "10", "--arrivals", "bursty"),
        (*LOAD, "--rate", "10", "--slo", "p99"),
        (*LOAD, "--rate", "10", "--data", "nowhere.json"),
        (*LOAD, "--rate", "10", "--data", "."),
        (*TUNE, "--slo", "fast"),
        (*TUNE, "--slo", "p99=0ms"),
        (*TUNE, "--slo", "errors<1%"),
        (*TUNE, "--slo", "p99=50ms", "--stages", "delay,plane"),
        (*TUNE, "--slo", "p99=50ms", "--budget", "soon"),
        TUNE,
        ("diagnose", "http://"),
        ("diagnose", "ftp://127.0.0.1:1"),
        ("restore", "http://"),
        ("server", "start"),
        ("report",),
        ("report", "somewhere", "--format", "pdf"),
    ],
    ids=lambda argv: " ".join(argv),
)
def test_wrong_usage_is_2(argv: tuple[str, ...]) -> None:
    said = tritune(*argv)
    assert said.code == ExitCode.USAGE, said.err
    assert said.complaint
    assert said.out == ""
    assert len(said.err.splitlines()) <= 2  # the sentence and a hint


def test_nothing_listens() -> None:
    with socket.socket() as closed:
        closed.bind(("127.0.0.1", 0))
        port = closed.getsockname()[1]
    for argv in (
        ("diagnose", f"127.0.0.1:{port}"),
        ("load", f"127.0.0.1:{port}", "--model", MODEL, "--rate", 10),
        ("tune", f"127.0.0.1:{port}", "--model", MODEL, "--rate", 10, "--slo", "p99=5ms"),
    ):
        said = tritune(*argv)
        assert said.code == ExitCode.FAILED
        assert str(port) in said.complaint
        assert said.out == ""


def test_a_folder_that_is_no_run(tmp_path: Path) -> None:
    for place in (tmp_path / "missing", tmp_path):
        said = tritune("report", place)
        assert said.code == ExitCode.FAILED
        assert str(place) in said.complaint
        assert said.out == ""


def test_a_run_folder_that_cannot_be_made(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    serve(monkeypatch)
    (tmp_path / "taken").write_text("a file, no folder")
    said = tritune("load", URL, "--model", MODEL, "--rate", 50, "--runs", tmp_path / "taken")
    assert said.code == ExitCode.FAILED
    assert "taken" in said.complaint


def test_an_existing_file_is_not_overwritten_without_force(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    serve(monkeypatch)
    tritune("load", URL, "--model", MODEL, "--rate", 50, "--for", "2s")
    [run] = (tmp_path / "tritune-runs").iterdir()
    out = tmp_path / "report.md"
    out.write_text("mine")
    said = tritune("report", run, "--format", "markdown", "--out", out)
    assert said.code == ExitCode.USAGE
    assert str(out) in said.complaint
    assert out.read_text() == "mine"
    assert tritune("report", run, "--format", "markdown", "--out", out, "--force").code == 0
    assert MODEL in out.read_text()
    said = tritune("report", run, "--format", "markdown", "--out", tmp_path / "no" / "such" / "folder.md")
    assert said.code == ExitCode.FAILED
    assert said.complaint


@pytest.mark.parametrize(
    ("argv", "flag"),
    [
        (("load", "--rate", "10"), "--allow-load"),
        (("tune", "--rate", "10", "--slo", "p99=5ms"), "--allow-load"),
    ],
)
def test_another_machine_is_not_loaded_without_a_word(
    monkeypatch: pytest.MonkeyPatch, argv: tuple[str, ...], flag: str
) -> None:
    server = serve(monkeypatch, FakeServer(url="http://10.0.0.7:8000"))
    said = tritune(argv[0], "10.0.0.7:8000", "--model", MODEL, *argv[1:])
    assert said.code == ExitCode.USAGE
    assert "10.0.0.7" in said.complaint
    assert flag in said.err
    assert server.loads == []
    assert next(iter(server.statistics().models.values())).success.count == 0


def test_another_machine_is_not_reloaded_without_a_second_word(monkeypatch: pytest.MonkeyPatch) -> None:
    server = serve(monkeypatch, FakeServer(url="http://10.0.0.7:8000"))
    said = tritune(
        "tune",
        "10.0.0.7:8000",
        "--model",
        MODEL,
        "--rate",
        100,
        "--slo",
        "p99=20ms",
        "--allow-load",
        "--json",
    )
    assert said.code == ExitCode.OK, said.err
    assert json.loads(said.out)["status"] == "advice"
    assert server.loads == []


def test_a_defect_of_ours_is_a_sentence_and_a_file(monkeypatch: pytest.MonkeyPatch, state_home: Path) -> None:
    serve(monkeypatch)

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a secret of the inside")

    monkeypatch.setattr("tritune.verbs.diagnose.diagnose", broken)
    said = tritune("diagnose", URL)
    assert said.code == ExitCode.FAILED
    details = state_home / "tritune" / "last-error.txt"
    assert str(details) in said.complaint
    assert "secret" not in said.err
    assert "ZeroDivisionError: a secret of the inside" in details.read_text()


def test_a_defect_is_a_sentence_also_where_its_file_cannot_be_written(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    serve(monkeypatch)
    monkeypatch.setattr("tritune.verbs.diagnose.diagnose", lambda *_, **__: 1 // 0)
    (tmp_path / "blocked").write_text("")
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "blocked"))
    said = tritune("diagnose", URL)
    assert said.code == ExitCode.FAILED
    assert "ZeroDivisionError" in said.complaint


@pytest.mark.parametrize("raised", [KeyboardInterrupt(), UsageError("no", slug="bad-slo", hint="yes")])
def test_what_a_verb_raises_becomes_its_exit_code(
    monkeypatch: pytest.MonkeyPatch, raised: BaseException
) -> None:
    serve(monkeypatch)

    def stop(*_: object, **__: object) -> None:
        raise raised

    monkeypatch.setattr("tritune.verbs.diagnose.diagnose", stop)
    said = tritune("diagnose", URL)
    expected = {KeyboardInterrupt: ExitCode.INTERRUPTED, UsageError: ExitCode.USAGE}
    assert said.code == expected[type(raised)]
    assert said.complaint
