"""`load`: one cell, kept whatever happened."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Any

import pytest
from tuning_lab import MODEL, Lab, config

from tritune.errors import ExitCode, TrituneError
from tritune.load.warmup import warm_up
from tritune.model.slo import parse_slo
from tritune.model.workload import Workload
from tritune.pbtxt.message import same_json
from tritune.store.reader import open_run
from tritune.store.runs import Runs
from tritune.testing import Mishap
from tritune.units import NS_PER_MS, NS_PER_S
from tritune.verbs.load import load

OPEN = Workload(MODEL, rate_per_s=200, duration_ns=5 * NS_PER_S)


def sent(lab: Lab, workload: Workload = OPEN, **more: Any) -> Any:
    return load(lab.kit, lab.store, workload, data=None, slo=None, **more)


def test_a_whole_run() -> None:
    lab = Lab(config(largest=8))
    cell, manifest, path = sent(lab)
    [run] = lab.store.runs
    assert (manifest.status, manifest.cut, path) == ("complete", "", run.path)
    assert run.requests is cell.log
    sources = [snapshot.source for snapshot in run.snapshots]
    assert sources[:3] == ["statistics", "statistics", "metrics"]  # before and after
    assert len(sources) == 3 + len(cell.parts)
    assert same_json(str(run.files["config/effective.json"]), lab.original)
    found = cell.measurement
    assert found.window.counters.success.count == found.requests == len(cell.log)
    assert found.latency["p50"].value < found.latency["p99"].value
    assert found.errors == {}
    assert lab.warm_up.done == 1
    assert lab.server.loads == []


def test_the_window_holds_nothing_of_the_warm_up_and_agrees_with_the_client() -> None:
    lab = Lab(config(largest=8))
    cell, _, _ = sent(lab)
    counters = cell.measurement.window.counters
    assert counters.batch_stats is not None
    assert sum(size * stat.count for size, stat in counters.batch_stats.items()) == len(cell.log)
    client = cell.measurement.latency["mean"].value
    server = counters.success.mean_ns
    assert 0 < client - server < NS_PER_MS


@pytest.mark.parametrize(("seconds", "parts"), [(3, 6), (5, 10), (20, 19)])
def test_the_counters_are_read_about_once_a_second_while_it_runs(seconds: int, parts: int) -> None:
    """Of the loaded model alone; a short load is read more often, so that parts can be compared."""
    lab = Lab(config(largest=8))
    cell, _, _ = sent(lab, Workload(MODEL, rate_per_s=200, duration_ns=seconds * NS_PER_S))
    assert len(cell.parts) == parts
    assert all([key.model for key in part.models] == [MODEL] for part in cell.parts)
    assert len(lab.progress.ticks) >= parts


def test_a_read_that_fails_is_a_part_less_and_no_trouble() -> None:
    lab = Lab(config(largest=8))
    read, reads = lab.server.statistics, iter(range(1000))

    def statistics() -> Any:
        if next(reads) in (2, 3):
            raise TrituneError("it did not answer in time", slug="server-timeout")
        return read()

    lab.server.statistics = statistics
    cell, manifest, _ = sent(lab)
    assert manifest.status == "complete"
    assert len(cell.parts) == 8


def test_without_a_warm_up() -> None:
    lab = Lab(config(largest=8))
    sent(lab, warm=False)
    assert lab.warm_up.done == 0


def test_the_real_warm_up_reaches_every_batch_size() -> None:
    lab = Lab(config(largest=8, count=2))
    lab.kit = replace(lab.kit, warm_up=partial(warm_up, lab.engine))
    sent(lab)
    [key] = lab.server.statistics().models
    counters = lab.server.statistics().models[key]
    assert counters.batch_stats is not None
    assert set(range(1, 9)) <= set(counters.batch_stats)
    assert counters.success.count >= 200


def test_a_closed_loop_keeps_as_many_in_flight_as_asked() -> None:
    lab = Lab(config(largest=8))
    cell, _, _ = sent(lab, Workload(MODEL, concurrency=4, count=500))
    log = cell.log
    assert len(log) == 500
    edges = sorted([(t, 1) for t in log.sent_ns.tolist()] + [(t, -1) for t in log.done_ns.tolist()])
    most = now = 0
    for _, step in edges:
        now += step
        most = max(most, now)
    assert most == 4


@pytest.mark.parametrize("mishap", [Mishap(interrupted=True), Mishap(gone=True)])
def test_a_run_that_was_cut_short_is_kept_and_says_so(mishap: Mishap) -> None:
    lab = Lab(config(largest=8), mishaps={1: mishap})
    cell, manifest, _ = sent(lab)
    [run] = lab.store.runs
    assert manifest.status == "cut"
    assert manifest.cut == cell.measurement.cut != ""
    assert 400 < cell.measurement.requests < 600
    assert run.requests is not None
    assert len(run.requests) == cell.measurement.requests
    assert (cell.measurement.window is None) == mishap.gone
    if mishap.gone:
        assert set(cell.measurement.errors) <= {"connection"}


def test_a_cut_run_can_be_read_from_disk(tmp_path: Any) -> None:
    lab = Lab(config(largest=8), mishaps={1: Mishap(interrupted=True)})
    _, manifest, path = load(lab.kit, Runs(tmp_path), OPEN, data=None, slo=parse_slo("p99=9ms"))
    stored = open_run(path)
    assert stored.manifest == manifest
    assert len(stored.requests()) == manifest.measurement.requests


def test_errors_are_counted_by_kind_and_never_averaged_into_latency() -> None:
    clean, _, _ = sent(Lab(config(largest=8)))
    cell, _, _ = sent(Lab(config(largest=8), mishaps={1: Mishap(error_share=0.005)}))
    assert set(cell.measurement.errors) == {"server_error"}
    ratio = cell.measurement.latency["mean"].value / clean.measurement.latency["mean"].value
    assert 0.9 < ratio < 1.1
    many, _, _ = sent(Lab(config(largest=8), mishaps={1: Mishap(error_share=0.02)}))
    assert many.measurement.latency["p99"].value == float(2**62)  # a failed request counts as infinitely late


def test_a_warm_up_that_only_fails_ends_it() -> None:
    lab = Lab(config(largest=8))
    lab.engine.service = lambda *_: 20 * NS_PER_S
    lab.kit = replace(lab.kit, warm_up=partial(warm_up, lab.engine))
    with pytest.raises(TrituneError) as caught:
        sent(lab)
    assert caught.value.slug == "warm-up-failed"


@pytest.mark.parametrize(("word", "code"), [("interrupted", 130), ("terminated", 143)])
def test_a_signal_in_the_warm_up_is_its_exit_code(word: str, code: int) -> None:
    lab = Lab(config(largest=8))
    lab.warm_up.cuts[1] = word
    with pytest.raises(TrituneError) as caught:
        sent(lab)
    assert caught.value.exit_code == ExitCode(code)
