"""Run folders: what is written comes back, nothing half-written looks whole."""

from __future__ import annotations

import json
import os
from pathlib import Path

import numpy as np
import pytest

from tritune.errors import TrituneError
from tritune.model.measurement import Estimate, Measurement
from tritune.model.requests import RequestLog
from tritune.model.run import Manifest
from tritune.model.server import BatchStat, ModelCounters, ModelKey, Snapshot, Tally
from tritune.model.slo import parse_slo
from tritune.model.workload import Workload
from tritune.store.reader import list_runs, open_run
from tritune.store.runs import Runs, WritableRun


def manifest(status: str = "complete", cut: str = "") -> Manifest:
    workload = Workload("m", rate_per_s=10, count=3)
    return Manifest(
        kind="load",
        status=status,
        cut=cut,
        created="2026-11-30T14:26:00+00:00",
        tool_version="0",
        server_version="2.51.0",
        url="http://127.0.0.1:8000",
        model="m",
        slo=parse_slo("p99=50ms"),
        measurement=Measurement("as served", workload, 3, 0.3, {}, {"p99": Estimate(5e6, None, None)}),
    )


def log(rows: int = 3) -> RequestLog:
    rng = np.random.default_rng(1)
    return RequestLog(**{n: rng.integers(-1, 2**62, rows, dtype=np.int64) for n in RequestLog.columns()})


def snapshot() -> Snapshot:
    key = ModelKey("m", "1")
    counters = ModelCounters(
        success=Tally(2, 20),
        batch_stats={1: BatchStat(1, 2, 3, 4), 8: BatchStat(5, 6, 7, 8)},
        failure_reasons={"OTHER": 9},
    )
    summaries = {key: {"nv_inference_request_summary_us": {"0.99": 1.5}}}
    return Snapshot(11, "statistics", {key: counters}, {key: 4}, {"nv_gpu": 0.5}, summaries)


def written(root: Path, **of_manifest: str) -> str:
    run = Runs(root, now=lambda: "20261130T142600Z").create("m")
    run.add_requests(log())
    run.add_server([snapshot()])
    run.add_file("config/original.pbtxt", 'name: "m"\n')
    run.add_file("config/effective.json", b"{}")
    return run.finish(manifest(**of_manifest))


def test_a_run_comes_back_as_it_was_written(tmp_path: Path) -> None:
    path = written(tmp_path)
    assert path == str(tmp_path / "20261130T142600Z-m")
    run = open_run(path)
    assert run.manifest == manifest()
    for name in RequestLog.columns():
        np.testing.assert_array_equal(getattr(run.requests(), name), getattr(log(), name))
    assert run.text("config/original.pbtxt") == 'name: "m"\n'
    assert run.file("config/effective.json") == b"{}"
    assert run.file("nothing") is None
    assert run.trials() == ()


def test_the_server_rows_hold_every_figure(tmp_path: Path) -> None:
    rows = open_run(written(tmp_path)).server()
    found = {
        (model, version, field): value
        for model, version, field, value in zip(
            rows["model"], rows["version"], rows["field"], rows["value"], strict=True
        )
    }
    assert set(rows["t_ns"]) == {11}
    assert set(rows["source"]) == {"statistics"}
    assert found["m", "1", "success.ns"] == 20
    assert found["m", "1", "batch_stats.8.output_ns"] == 8
    assert found["m", "1", "failure_reasons.OTHER"] == 9
    assert found["m", "1", "pending"] == 4
    assert found["m", "1", "summaries.nv_inference_request_summary_us.0.99"] == 1.5
    assert found["", "", "nv_gpu"] == 0.5


def test_nothing_measured_is_a_run_too(tmp_path: Path) -> None:
    run = Runs(tmp_path).create("m")
    run.add_requests(RequestLog.empty())
    run.add_server([])
    back = open_run(run.finish(manifest()))
    assert len(back.requests()) == 0
    assert len(back.server()["value"]) == 0
    bare = open_run(Runs(tmp_path).create("m").finish(manifest()))
    assert len(bare.requests()) == 0
    assert bare.server() == {}


def test_the_environment_names_no_person_and_no_host(tmp_path: Path) -> None:
    text = (Path(written(tmp_path)) / "environment.json").read_text()
    known = json.loads(text)
    assert known["cpus"] >= known["usable_cpus"] >= 1
    assert known["memory_bytes"] > 2**20
    assert set(known) == {
        "tool_version",
        "python",
        "implementation",
        "system",
        "kernel",
        "machine",
        "cpus",
        "usable_cpus",
        "memory_bytes",
    }
    assert os.uname().nodename not in text


def test_until_it_is_finished_it_lies_beside_its_place(tmp_path: Path) -> None:
    run = Runs(tmp_path, now=lambda: "now").create("m")
    run.add_requests(log())
    assert not Path(run.path).exists()
    (hidden,) = tmp_path.iterdir()
    assert hidden.name == ".now-m.partial"
    assert list_runs(tmp_path) == ()
    with pytest.raises(TrituneError, match="never finished") as caught:
        open_run(hidden)
    assert caught.value.slug == "run-unfinished"
    run.finish(manifest())
    assert [p.name for p in tmp_path.iterdir()] == ["now-m"]
    assert len(list_runs(tmp_path)) == 1


def test_equal_names_get_a_number(tmp_path: Path) -> None:
    runs = Runs(tmp_path, now=lambda: "now")
    one, two = runs.create("m"), runs.create("m")
    assert Path(one.path).name == "now-m"
    assert Path(two.path).name == "now-m-2"
    two.finish(manifest())
    one.finish(manifest())
    three = runs.create("m")
    assert Path(three.path).name == "now-m-3"
    assert [Path(r.path).name for r in list_runs(tmp_path)] == ["now-m", "now-m-2"]


def test_a_model_name_cannot_lead_out_of_the_folder(tmp_path: Path) -> None:
    assert Path(Runs(tmp_path / "runs").create("../../x/y").path).parent == tmp_path / "runs"


@pytest.mark.parametrize("name", ["../x", "/etc/x", "", "."])
def test_a_file_name_cannot_lead_out_of_the_run(tmp_path: Path, name: str) -> None:
    with pytest.raises(ValueError, match="no path within a run"):
        Runs(tmp_path).create("m").add_file(name, "")


def test_trials_are_runs_inside_a_run(tmp_path: Path) -> None:
    run = Runs(tmp_path).create("m")
    for name in ("02", "01"):
        trial = run.trial(name)
        trial.add_requests(log(2))
        assert trial.finish(manifest()) == f"{run.path}/trials/{name}"
    run.trial("03")  # never finished
    trials = open_run(run.finish(manifest())).trials()
    assert [t.path.name for t in trials] == ["01", "02"]
    assert len(trials[0].requests()) == 2


def test_unknown_fields_files_and_columns_are_ignored(tmp_path: Path) -> None:
    folder = Path(written(tmp_path))
    text = json.loads((folder / "manifest.json").read_text()) | {"new": 1}
    text["measurement"]["newer"] = {"a": []}
    (folder / "manifest.json").write_text(json.dumps(text))
    (folder / "more.bin").write_bytes(b"x")
    from tritune.store.parquet import write_columns

    three = np.arange(3)
    write_columns(folder / "requests.parquet", {"request": three, "done_ns": three, "colour": three})
    run = open_run(folder)
    assert run.manifest == manifest()
    back = run.requests()
    assert list(back.done_ns) == [0, 1, 2]
    assert list(back.sent_ns) == [-1, -1, -1]
    assert list(back.items) == [1, 1, 1]


def test_a_cut_run_is_read_and_says_so(tmp_path: Path) -> None:
    path = written(tmp_path, status="cut", cut="interrupted")
    assert len(open_run(path).requests()) == 3
    with pytest.raises(TrituneError, match="was cut short: interrupted") as caught:
        open_run(path, whole=True)
    assert caught.value.slug == "run-cut"


def test_what_is_no_run_is_one_sentence(tmp_path: Path) -> None:
    for place, words in ((tmp_path, "no manifest.json"), (tmp_path / "x", "does not exist")):
        with pytest.raises(TrituneError, match=words) as caught:
            open_run(place)
        assert caught.value.slug == "not-a-run"


@pytest.mark.parametrize("content", [b"", b"{", b"[]", b'{"schema_version": 1}', b"\xff\xfe"])
def test_a_damaged_manifest_is_one_sentence(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "manifest.json").write_bytes(content)
    with pytest.raises(TrituneError, match="cannot be read") as caught:
        open_run(tmp_path)
    assert caught.value.slug == "run-unreadable"
    assert "\n" not in caught.value.message


def test_damaged_requests_are_one_sentence(tmp_path: Path) -> None:
    folder = Path(written(tmp_path))
    whole = (folder / "requests.parquet").read_bytes()
    for torn in (b"", b"hello", whole[: len(whole) // 2]):
        (folder / "requests.parquet").write_bytes(torn)
        with pytest.raises(TrituneError, match="cannot be read") as caught:
            open_run(folder).requests()
        assert caught.value.slug == "run-unreadable"


def test_a_quote_in_the_path_is_no_harm(tmp_path: Path) -> None:
    assert len(open_run(written(tmp_path / "it's here")).requests()) == 3


def test_a_place_that_cannot_be_written_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrituneError, match="cannot be written") as caught:
        Runs(tmp_path / "file").create("m")
    assert caught.value.slug == "runs-not-writable"


def test_a_folder_that_vanished_is_one_sentence(tmp_path: Path) -> None:
    run = Runs(tmp_path, now=lambda: "now").create("m")
    (tmp_path / ".now-m.partial").rmdir()
    for attempt in (lambda: run.add_requests(log()), lambda: run.finish(manifest())):
        with pytest.raises(TrituneError, match="cannot be written"):
            attempt()


def test_a_full_disk_is_one_sentence() -> None:
    """/dev/full behaves as a full disk for every writer."""
    run = WritableRun(Path("/dev/x"), Path("/dev"))
    with pytest.raises(TrituneError, match="the disk is full") as caught:
        run.add_file("full", b"x")
    assert caught.value.slug == "disk-full"


def test_a_full_disk_under_parquet_is_the_same_sentence(tmp_path: Path) -> None:
    run = Runs(tmp_path, now=lambda: "now").create("m")
    (tmp_path / ".now-m.partial" / "requests.parquet").symlink_to("/dev/full")
    with pytest.raises(TrituneError, match="the disk is full"):
        run.add_requests(log())
