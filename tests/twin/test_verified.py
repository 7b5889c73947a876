"""What the rules were checked on is what the bench wrote, and anything else is said to be different."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tritune.model.config import InstanceGroup, ServingConfig
from tritune.twin.ask.verified import FIDELITY, TIMELINES, verified

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results"
LIKE = ServingConfig("m", backend="python", instance_group=(InstanceGroup(kind="KIND_CPU"),))


def test_the_figures_are_those_of_the_bench() -> None:
    written = json.loads((RESULTS / TIMELINES.file).read_text())
    results = written["results"]
    shares = [one["measured"] for one in results if one["unit"] == "share" and one["target"]]
    assert TIMELINES.server == written["environment"]["triton"]
    assert TIMELINES.timelines == results[0]["measured"], "copy the bench's figures into twin/verified.py"
    assert [TIMELINES.share, TIMELINES.share_without_ties] == pytest.approx(shares[:2], abs=5e-4)


def test_so_are_those_of_the_predictions() -> None:
    written = json.loads((RESULTS / FIDELITY.file).read_text())
    points, median, ninetieth, _ = (one["measured"] for one in written["results"])
    assert TIMELINES.server == written["environment"]["triton"]
    assert FIDELITY.points == points
    assert [FIDELITY.median, FIDELITY.ninetieth] == pytest.approx([median, ninetieth], abs=5e-4)


@pytest.mark.parametrize("version", ["2.51.0", "24.10"])
def test_the_checked_server_has_no_gaps(version: str) -> None:
    found = verified(LIKE, version)
    assert not found.lower
    assert "2.51.0 (24.10), python backend, KIND_CPU, a synthetic device" in found.on


@pytest.mark.parametrize(
    ("config", "version", "gap"),
    [
        (LIKE, "2.50.0", "rules read in the source of 24.03–26.06, run on 24.10 only (here 2.50.0)"),
        (LIKE, "2.58.0", "run on 24.10 only"),
        (LIKE, "23.12", "other rules"),
        (LIKE, "27.01", "newer than the source"),
        (LIKE, "", "version of Triton is not known"),
        (LIKE, "nonsense", "version of Triton is not known"),
        (
            ServingConfig("m", backend="onnxruntime", instance_group=LIKE.instance_group),
            "2.51.0",
            "onnxruntime not",
        ),
        (
            ServingConfig("m", platform="tensorrt_plan", instance_group=LIKE.instance_group),
            "2.51.0",
            "tensorrt_plan not",
        ),
        (ServingConfig("m", instance_group=LIKE.instance_group), "2.51.0", "backend is not known"),
        (
            ServingConfig("m", backend="python", instance_group=(InstanceGroup(kind="KIND_GPU"),)),
            "2.51.0",
            "KIND_GPU not",
        ),
        (ServingConfig("m", backend="python"), "2.51.0", "KIND_AUTO not"),
    ],
)
def test_anything_else_lowers_the_confidence(config: ServingConfig, version: str, gap: str) -> None:
    found = verified(config, version)
    assert found.lower
    assert any(gap in each for each in found.gaps), found.gaps
