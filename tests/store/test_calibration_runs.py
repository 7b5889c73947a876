"""Run folders give a calibration what it takes: the configuration, the counters of parts, the requests."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pytest

from tritune.errors import TrituneError, UsageError
from tritune.model.measurement import Estimate, Measurement, Sender
from tritune.model.requests import RequestLog
from tritune.model.run import Manifest
from tritune.model.server import BatchStat, ModelCounters, ModelKey, Snapshot, Tally, window
from tritune.model.workload import Workload
from tritune.pbtxt.message import view_json
from tritune.store.calibration import calibration_runs
from tritune.store.earlier import batches_before
from tritune.store.reader import open_run
from tritune.store.rows import statistics_of
from tritune.store.runs import Runs, WritableRun
from tritune.units import NS_PER_MS

KEY = ModelKey("m", "1")
LOG = RequestLog(**{name: np.arange(4, dtype=np.int64) for name in RequestLog.columns()})


def config_json(count: int = 1) -> str:
    return msgspec.json.encode(
        {
            "name": "m",
            "max_batch_size": 8,
            "dynamic_batching": {"preferred_batch_size": [8]},
            "instance_group": [{"name": "m_0", "kind": "KIND_CPU", "count": count}],
        }
    ).decode()


def snapshot(t_ns: int, ran: int) -> Snapshot:
    other = ModelCounters(batch_stats={})
    counters = ModelCounters(
        success=Tally(ran, 9 * ran), queue=Tally(ran, ran), batch_stats={1: BatchStat(ran, 1, 2, 3)}
    )
    return Snapshot(t_ns, "statistics", {KEY: counters, ModelKey("other", "1"): other})


def keep(folder: WritableRun, *, parts: int = 0, late_ns: float = 0.0, cut: str = "", **more: object) -> str:
    before, after = snapshot(1000, 40), snapshot(9000, 120)
    between = [snapshot(1000 + 1000 * k, 40 + 10 * k) for k in range(1, parts + 1)]
    # The metrics and the snapshots of the parts come last in the file; only their instants order them.
    folder.add_server([before, after, Snapshot(9001, "metrics", {KEY: ModelCounters()}), *between])
    folder.add_requests(LOG)
    measured = Measurement(
        "as served",
        msgspec.structs.replace(Workload("m", rate_per_s=100, count=4), **more),
        4,
        0.04,
        {},
        {"p99": Estimate(1e6)},
        window=window(before, after, KEY),
        sender=Sender(lateness_p99_ns=late_ns),
    )
    return folder.finish(
        Manifest(
            kind="load",
            status="cut" if cut else "complete",
            cut=cut,
            created="",
            tool_version="0",
            server_version="2.51.0",
            url="",
            model="m",
            measurement=measured,
        )
    )


def loaded(root: Path, **more: object) -> str:
    folder = Runs(root).create("m")
    folder.add_file("config/effective.json", config_json())
    return keep(folder, **more)  # type: ignore[arg-type]


def test_statistics_come_back_as_snapshots(tmp_path: Path) -> None:
    rows = open_run(loaded(tmp_path, parts=2)).server()
    assert statistics_of(rows) == tuple(
        snapshot(t, ran) for t, ran in ((1000, 40), (2000, 50), (3000, 60), (9000, 120))
    )
    assert statistics_of({}) == ()
    assert batches_before(rows, "m", "1") == {1: BatchStat(40, 1, 2, 3)}
    assert batches_before(rows, "m", "2") == {}


def test_a_load_gives_itself(tmp_path: Path) -> None:
    path = loaded(tmp_path, parts=3)
    [run] = calibration_runs(path)
    assert run.config == view_json(config_json())
    assert run.config_json == config_json()
    assert run.window == open_run(path).manifest.measurement.window
    assert [(part.t0_ns, part.t1_ns) for part in run.parts] == [
        (1000, 2000),
        (2000, 3000),
        (3000, 4000),
        (4000, 9000),
    ]
    assert sum(part.counters.success.count for part in run.parts) == run.window.counters.success.count
    assert run.warm_up == {1: BatchStat(40, 1, 2, 3)}
    assert (run.triton_version, run.source, run.concurrency) == ("2.51.0", path, 0)
    np.testing.assert_array_equal(run.log.done_ns, LOG.done_ns)


def test_a_run_without_parts_has_none(tmp_path: Path) -> None:
    [run] = calibration_runs(loaded(tmp_path))
    assert run.parts == ()


def test_a_closed_loop_says_how_many_were_in_flight(tmp_path: Path) -> None:
    [run] = calibration_runs(loaded(tmp_path, rate_per_s=None, concurrency=8))
    assert run.concurrency == 8


def tuned(root: Path, *trials: dict[str, object], with_config: bool = True) -> str:
    folder = Runs(root).create("m")
    folder.add_file("config/effective.json", config_json())
    for number, trial in enumerate(trials, 1):
        one = folder.trial(f"{number:02d}")
        if with_config:
            one.add_file("config/effective.json", config_json(number))
        keep(one, **trial)  # type: ignore[arg-type]
    return folder.finish(
        Manifest(
            kind="tune", status="complete", created="", tool_version="0", server_version="", url="", model="m"
        )
    )


def test_a_tuning_gives_its_baseline_and_what_it_tried(tmp_path: Path) -> None:
    """What was cut short, or sent late, is left out."""
    path = tuned(tmp_path, {}, {"cut": "interrupted"}, {}, {"late_ns": 50.0 * NS_PER_MS})
    assert [run.config.instances for run in calibration_runs(path)] == [1, 3]
    with pytest.raises(UsageError) as caught:
        calibration_runs(tuned(tmp_path, {"cut": "interrupted"}))
    assert caught.value.slug == "not-a-load"


def test_a_tuning_of_an_older_tritune_is_one_sentence(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="did not keep the configuration") as caught:
        calibration_runs(tuned(tmp_path, {}, {}, with_config=False))
    assert caught.value.slug == "trials-without-config"


def test_what_cannot_be_calibrated_on_is_one_sentence(tmp_path: Path) -> None:
    bare = keep(Runs(tmp_path).create("m"))
    with pytest.raises(UsageError) as caught:
        calibration_runs(bare)
    assert caught.value.slug == "not-a-load"
    with pytest.raises(TrituneError) as cut:
        calibration_runs(loaded(tmp_path, cut="terminated"))
    assert cut.value.slug == "run-cut"
