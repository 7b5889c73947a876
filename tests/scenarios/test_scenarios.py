"""The shipped scenarios are whole, and a repository made from one is what a server needs."""

from __future__ import annotations

from pathlib import Path

import pytest
from google.protobuf import text_format
from tritonclient.grpc import model_config_pb2

from tritune.errors import TrituneError, UsageError
from tritune.model.config import PATHS
from tritune.scenarios import load_scenario, materialise, scenario_names
from tritune.units import NS_PER_S

NAMES = ("bigger-is-slower", "delay-too-long", "healthy", "instances-fight", "staircase")
CAUSES = {"delay-too-long", "saturated", "bigger-batches-slower", "instances-contend"}


def test_these_are_shipped() -> None:
    assert scenario_names() == NAMES


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(UsageError) as caught:
        load_scenario("stairs")
    assert caught.value.slug == "unknown-scenario"
    assert all(name in caught.value.hint for name in NAMES)


@pytest.mark.parametrize("name", ["../scenarios/healthy", "device", "", "loader.py"])
def test_only_scenarios_are_scenarios(name: str) -> None:
    with pytest.raises(UsageError):
        load_scenario(name)


@pytest.mark.parametrize("name", NAMES)
def test_each_says_what_must_be_found_and_what_fixes_it(name: str) -> None:
    scenario = load_scenario(name)
    assert scenario.name == name
    assert set(scenario.remedy) <= set(PATHS)
    expected = {scenario.expect.primary} - {""}
    assert expected | set(scenario.expect.not_) == CAUSES
    assert not expected & set(scenario.expect.not_)
    assert bool(expected) == bool(scenario.remedy)
    assert scenario.objective.main.metric == "p99"
    plan = scenario.plan()
    assert plan.rate_per_s == scenario.workload.rate_per_s
    assert plan.rate_per_s is not None
    assert plan.rate_per_s <= 600  # two shared cores
    assert scenario.plan(rate_per_s=5, duration_ns=2 * NS_PER_S).planned_count == 10


@pytest.mark.parametrize("name", NAMES)
def test_its_repository_holds_its_model_with_the_device(name: str, tmp_path: Path) -> None:
    scenario = load_scenario(name)
    repository = materialise(scenario, tmp_path)
    [model] = repository.iterdir()
    assert model.name == scenario.workload.model
    assert sorted(p.relative_to(model).as_posix() for p in model.rglob("*")) == [
        "1",
        "1/model.py",
        "config.pbtxt",
    ]
    text = (model / "config.pbtxt").read_text()
    config = text_format.Parse(text, model_config_pb2.ModelConfig())
    assert config.name == model.name
    assert config.backend == "python"
    assert [(t.name, list(t.dims)) for t in config.input] == [("x", [4])]
    assert "#" in text  # a person wrote it


def test_materialise_replaces_what_was_there(tmp_path: Path) -> None:
    materialise(load_scenario("staircase"), tmp_path)
    repository = materialise(load_scenario("healthy"), tmp_path)
    assert [model.name for model in repository.iterdir()] == ["ranker"]


def test_an_unwritable_folder_is_said(tmp_path: Path) -> None:
    blocker = tmp_path / "file"
    blocker.touch()
    with pytest.raises(TrituneError) as caught:
        materialise(load_scenario("healthy"), blocker)
    assert caught.value.slug == "folder-not-writable"
    assert str(blocker) in caught.value.message
