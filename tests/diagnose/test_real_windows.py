"""Windows that were captured from a real Triton under load (tests/data/windows/README.md)."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tritune.diagnose.diagnose import diagnose
from tritune.model.config import ServingConfig
from tritune.model.server import ServerWindow

WINDOWS = Path(__file__).parents[1] / "data" / "windows"


class Captured(msgspec.Struct):
    config: ServingConfig
    window: ServerWindow
    quiet: ServerWindow
    client_mean_ns: float


def captured(name: str) -> Captured:
    return msgspec.json.decode((WINDOWS / f"{name}.json").read_bytes(), type=Captured)


@pytest.mark.parametrize(
    ("name", "cause", "confidence", "first_edit"),
    [
        ("delay-too-long", "delay-too-long", "high", "dynamic_batching.max_queue_delay_microseconds: 500"),
        ("staircase", "saturated", "high", "instance_group.count: 2"),
        (
            "bigger-is-slower",
            "bigger-batches-slower",
            "high",
            "max_batch_size: 7",
        ),
        ("instances-fight", "instances-contend", "low", "instance_group.count: 1"),
    ],
)
def test_the_cause_of_a_real_window_is_named_alone(
    name: str, cause: str, confidence: str, first_edit: str
) -> None:
    seen = captured(name)
    found = diagnose(seen.config, seen.window, client_mean_ns=seen.client_mean_ns)
    assert [(f.slug, f.confidence) for f in found.findings] == [(cause, confidence)]
    assert str(found.findings[0].remedies[0].change) == first_edit
    assert found.breakdown is not None
    assert found.breakdown.total_ns == pytest.approx(seen.client_mean_ns)


@pytest.mark.parametrize("name", ["healthy-100", "healthy-200", "healthy-400"])
def test_a_healthy_server_has_no_finding_at_three_loads(name: str) -> None:
    seen = captured(name)
    assert diagnose(seen.config, seen.window, client_mean_ns=seen.client_mean_ns).findings == ()
    assert diagnose(seen.config, seen.window, parts=(seen.quiet, seen.window)).findings == ()


def test_a_quiet_window_decides_whether_instances_contend() -> None:
    fight, alone = captured("instances-fight"), captured("four-instances-alone")
    assert [f.confidence for f in diagnose(alone.config, alone.window).findings] == ["low"]
    assert diagnose(alone.config, alone.window, parts=(alone.quiet, alone.window)).findings == ()
    (found,) = diagnose(fight.config, fight.window, parts=(fight.quiet, fight.window)).findings
    assert (found.slug, found.confidence) == ("instances-contend", "high")


@pytest.mark.parametrize("path", sorted(WINDOWS.glob("*.json")), ids=lambda path: path.stem)
def test_the_same_real_window_without_batch_statistics_is_never_surely_wrong(path: Path) -> None:
    """As Prometheus shows it: means only. Silence or the right cause, and never `high`."""
    right = {"delay-too-long": "delay-too-long", "staircase": "saturated", "bigger-is-slower": "saturated"}
    seen = captured(path.stem)
    counters = msgspec.structs.replace(seen.window.counters, batch_stats=None)
    found = diagnose(seen.config, msgspec.structs.replace(seen.window, source="metrics", counters=counters))
    assert all(f.confidence != "high" for f in found.findings)
    assert {f.slug for f in found.findings} <= {right.get(path.stem, "")}
