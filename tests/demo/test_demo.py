"""Whole demos on the real Triton, through the command line, as a user runs them.

One is played by `make demo` at full length, the others with a smaller window. Each must find the cause
that its scenario expects, change exactly what its remedy names, meet its SLO, and be confirmed by witnesses
that are not ours: Triton's own latency summaries and hey.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tritune.scenarios import load_scenario, scenario_names

pytestmark = [pytest.mark.demo, pytest.mark.timeout(900)]

ROOT = Path(__file__).parents[2]
FULL = "delay-too-long"
SMALL_WINDOW = "6s"
# A shared machine may be too busy to measure, which a demo says with exit code 4; and a stall of a fifth of a
# second in one witness's window is that window's p99, whatever was tuned. A minute later it may be quieter.
TRIES = 3

Doubt = Callable[[dict[str, Any]], str]


def play(scenario: str, folder: Path, doubt: Doubt = lambda _: "") -> dict[str, Any]:
    """The result of a demo, played again while the machine was too busy or while there is a doubt."""
    why = ""
    for attempt in range(TRIES):
        place = folder / str(attempt)
        done = once(scenario, place)
        sys.stderr.write(done.stderr)
        # make turns every exit code into 2 and says the real one.
        if done.returncode == 4 or "Error 4" in done.stderr:
            why = done.stderr
            continue
        assert done.returncode == 0, done.stderr
        assert "Traceback" not in done.stderr
        # make may have said something about its set-up first.
        result: dict[str, Any] = json.loads(done.stdout[done.stdout.index("{") :])
        result["report"] = next(place.glob("2*"))
        why = doubt(result)
        if not why:
            return result
        sys.stderr.write(f"played again: {why}\n")
    raise AssertionError(why)


def once(scenario: str, folder: Path) -> subprocess.CompletedProcess[str]:
    flags = ["--runs", str(folder), "--json"]
    if scenario == FULL:
        command = ["make", "--silent", "demo", f"SCENARIO={scenario}", f"DEMO_FLAGS={' '.join(flags)}"]
    else:
        command = [sys.executable, "-m", "tritune", "demo", "--scenario", scenario, *flags]
        command += ["--window", SMALL_WINDOW]
    environment = os.environ | {"XDG_STATE_HOME": str(folder / "state")}
    return subprocess.run(
        command, capture_output=True, text=True, timeout=280, env=environment, cwd=ROOT, check=False
    )


def doubtful_witness(result: dict[str, Any], limit: float) -> str:
    """The first view whose p99 does not say what was proven; empty where all three do."""
    for view in result["views"]:
        before, after = view["before_p99_ns"], view["after_p99_ns"]
        assert None not in (before, after), view
        if after >= before or (view["name"] != "hey" and not after <= limit < before):
            return f"{view['name']}: p99 {before / 1e6:.1f} -> {after / 1e6:.1f} ms"
    return ""


@pytest.mark.parametrize("name", [n for n in scenario_names() if n != "healthy"])
def test_a_failure_is_found_fixed_and_confirmed(name: str, tmp_path: Path) -> None:
    scenario = load_scenario(name)
    limit = scenario.objective.main.limit
    result = play(name, tmp_path, lambda found: doubtful_witness(found, limit))
    assert result["status"] == "met"
    assert result["before_whole"]["latency"]["p99"]["value"] > limit
    assert result["after_whole"]["latency"]["p99"]["high"] <= limit
    slugs = [finding["slug"] for finding in result["diagnosis"]["findings"]]
    assert slugs[0] == scenario.expect.primary
    assert not set(slugs) & set(scenario.expect.not_)
    changed = {setting["path"] for setting in result["change"]["settings"]}
    assert changed <= {*scenario.remedy, "dynamic_batching.preferred_batch_size"}
    assert changed & set(scenario.remedy)
    assert [view["name"] for view in result["views"]] == ["fresh server", "Triton's summary", "hey"]
    folder = result["report"]
    assert (folder / "config.diff").read_text() == result["diff"]
    assert "\n-" in result["diff"]
    assert "<html" in (folder / "report.html").read_text()
    assert json.loads((folder / "manifest.json").read_text())["status"] == "complete"


def test_a_healthy_model_is_left_alone(tmp_path: Path) -> None:
    result = play("healthy", tmp_path)
    assert result["status"] == "already met"
    assert result["diagnosis"]["findings"] == []
    assert result["change"]["settings"] == []
    assert result["reloads"] == 0
    assert result["diff"] == ""
    assert not (result["report"] / "config.diff").exists()
