"""`simulate` on a load run of an ensemble: predictions of the whole and of its models, and every refusal."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from command_line import tritune

from tritune.errors import ExitCode
from tritune.testing.ensemble_truth import CLASSIFIER, COSTS, DETECTOR, TANDEM, EnsembleTruth

DELAY = "detector/dynamic_batching.max_queue_delay_microseconds"
QUICK = ("--requests", 2000, "--replications", 3)


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    truth = EnsembleTruth(TANDEM, {"detector": DETECTOR, "classifier": CLASSIFIER}, COSTS)
    return Path(truth.keep(tmp_path_factory.mktemp("runs")))


def copied(run: Path, to: Path) -> Path:
    return Path(shutil.copytree(run, to / "run"))


def test_the_whole_and_its_models(run: Path) -> None:
    said = tritune("simulate", run, "--set", f"{DELAY}=1000,8000", *QUICK, "--slo", "p99=35ms", "--full")
    assert said.code == ExitCode.OK, said.err
    for text in (
        "Simulation of pipeline",
        "of capacity",
        "detector delay 1000 us",
        "Each model of the ensemble",
        "classifier",
        "a device of its own",
        "SERVICE TIME OF DETECTOR",
        "From one step to the next",
        "(prior)",
    ):
        assert text in said.out, text


def test_as_json(run: Path) -> None:
    sets = (
        "--set",
        f"{DELAY}=0,8000",
        "--set",
        "classifier/dynamic_batching.max_queue_delay_microseconds=0,500",
    )
    said = tritune("simulate", run, *sets, *QUICK, "--json")
    assert said.code == ExitCode.OK, said.err
    value = json.loads(said.out)
    assert len(value["predictions"]) == len(value["shares"]) == 4
    assert [one["model"] for one in value["shares"][0]] == ["detector", "classifier"]
    assert value["replay"]["models"][0]["batch_distance"] < 0.05
    assert value["validity"] == value["replay"]["whole"]
    assert value["chain"]["models"]["detector"]["service_ns"]["1"]["source"] == "measured"
    queues = [shares[0]["queue_ns"] for shares in value["shares"]]
    assert queues[2] > queues[0] + 3e6
    assert value["predictions"][3]["setting"] == (
        "detector max_queue_delay_microseconds: 8000, classifier max_queue_delay_microseconds: 500"
    )


@pytest.mark.parametrize(
    ("argv", "slug", "says"),
    [
        (("--set", "max_batch_size=4"), "bad-set", "one of the ensemble's models"),
        (("--set", "nobody/max_batch_size=4"), "bad-set", "one of the ensemble's models"),
        (("--set", "detector/replicas=2"), "bad-set", "one of the ensemble's models"),
        (("--set", "detector/color=2"), "bad-set", "color"),
        (("--rate", 400), "twin-refused", "1.6 times"),
        (("--set", "classifier/instance_group.count=3"), "twin-refused", "--contention"),
        (("--set", "classifier/max_batch_size=2"), "twin-refused", "does not load pipeline"),
        (("--items", 2), "twin-refused", "2 items"),
        (("--client-timeout", "50ms"), "twin-refused", "give up"),
        (("--save-profile", "kept.json"), "ensemble-profile", "pipeline"),
    ],
)
def test_what_cannot_be_asked(run: Path, argv: tuple[Any, ...], slug: str, says: str) -> None:
    said = tritune("simulate", run, *argv, *QUICK)
    assert f"[{slug}]" in said.complaint
    assert says in said.complaint
    assert said.out == ""
    assert said.code == (ExitCode.NOT_TRUSTWORTHY if slug == "twin-refused" else ExitCode.USAGE)


def test_another_instance_count_with_a_contention(run: Path) -> None:
    counts = ("--set", "classifier/instance_group.count=2:3")
    said = tritune("simulate", run, *counts, "--contention", "0.2", *QUICK, "--json")
    assert said.code == ExitCode.OK, said.err
    assert [one["instances"] for one in json.loads(said.out)["predictions"]] == [3, 4]


def test_two_sources(run: Path) -> None:
    said = tritune("simulate", run, run)
    assert "[ensemble-one-run]" in said.complaint


def test_a_run_whose_replay_is_off(run: Path, tmp_path: Path) -> None:
    """The folder holds another setting of a model than the one that ran."""
    other = copied(run, tmp_path)
    place = other / "config" / "steps" / "detector.json"
    config = json.loads(place.read_text()) | {"dynamic_batching": {"max_queue_delay_microseconds": 30_000}}
    place.write_text(json.dumps(config))
    said = tritune("simulate", other, *QUICK)
    assert said.code == ExitCode.NOT_TRUSTWORTHY
    assert "[twin-not-valid]" in said.complaint
    assert "at detector" in said.complaint


def test_a_run_without_the_configuration_of_a_model(run: Path, tmp_path: Path) -> None:
    other = copied(run, tmp_path)
    (other / "config" / "steps" / "classifier.json").unlink()
    said = tritune("simulate", other, *QUICK)
    assert said.code == ExitCode.USAGE
    assert "[not-a-load]" in said.complaint
    assert "classifier, a step of pipeline" in said.complaint


def test_a_closed_loop(run: Path, tmp_path: Path) -> None:
    other = copied(run, tmp_path)
    manifest = json.loads((other / "manifest.json").read_text())
    manifest["measurement"]["workload"] |= {"rate_per_s": None, "concurrency": 4}
    (other / "manifest.json").write_text(json.dumps(manifest))
    said = tritune("simulate", other, *QUICK)
    assert said.code == ExitCode.USAGE
    assert "[ensemble-closed-loop]" in said.complaint
