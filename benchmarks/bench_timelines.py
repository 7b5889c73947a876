"""Does the twin batch as the real server does? Random timelines on a real Triton, replayed by the twin.

    python benchmarks/bench_timelines.py [TIMELINES PER SETTING = 4] [FIRST SEED = 1]

Takes about six minutes; leave the machine alone meanwhile. Writes benchmarks/results/timelines.json.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import msgspec

from tritune.embedded.environment import ensure_environment
from tritune.embedded.server import start, stop
from tritune.store.environment import environment
from tritune.testing.timelines.generate import Setting, random_timeline, settings
from tritune.testing.timelines.judge import Judged, judge
from tritune.testing.timelines.play import Player
from tritune.testing.timelines.repository import write_repository
from tritune.twin.setting import setting_of

RESULT = Path(__file__).parent / "results" / "timelines.json"
RAW_TARGET = 0.90
CLEAR_TARGET = 0.97

Row = tuple[Setting, int, Judged]


def play(each: int, seed: int, folder: Path) -> tuple[list[Row], str, bool]:
    """What was judged, the server's version, and whether it ran undisturbed."""
    server = start(write_repository(folder), environment=ensure_environment(print), folder=folder)
    rows: list[Row] = []
    undisturbed = True
    try:
        with Player(server) as player:
            for setting in settings():
                player.configure(setting.config)
                undisturbed = undisturbed and player.undisturbed
                twin = setting_of(setting.config, server.version)
                for _ in range(each):
                    timeline = random_timeline(seed, priority_levels=setting.priority_levels)
                    rows.append((setting, seed, judge(twin, timeline, player.play(timeline))))
                    seed += 1
                same = sum(judged.identical for _, _, judged in rows[-each:])
                print(f"{setting.name:50} {same} of {each}", flush=True)
    finally:
        stop(server)
    return rows, server.version, undisturbed


def share(rows: Sequence[Row], holds: Callable[[Judged], bool]) -> float:
    return sum(holds(judged) for _, _, judged in rows) / len(rows) if rows else float("nan")


def results(rows: Sequence[Row]) -> list[dict[str, Any]]:
    clear = [row for row in rows if not row[2].tie]
    figures = [
        ("timelines played", len(rows), 200, "timelines"),
        ("identical in every batch", share(rows, lambda j: j.identical), RAW_TARGET, "share"),
        (
            f"identical in every batch, without the {len(rows) - len(clear)} ties",
            share(clear, lambda j: j.identical),
            CLEAR_TARGET,
            "share",
        ),
    ]
    return [
        {"name": n, "measured": m, "target": f">= {t}", "unit": unit, "holds": m >= t}
        for n, m, t, unit in figures
    ]


def by_group(rows: Sequence[Row]) -> list[dict[str, Any]]:
    """Per mode, instance count and delay: counts."""
    groups: dict[tuple[str, int, int], list[Judged]] = {}
    for setting, _, judged in rows:
        block = setting.config.dynamic_batching
        delay_us = block.max_queue_delay_microseconds if block else 0
        groups.setdefault((setting.mode, setting.config.instances, delay_us), []).append(judged)
    return [
        {
            "mode": mode,
            "instances": instances,
            "delay_us": delay_us,
            "timelines": len(group),
            "identical": sum(j.identical for j in group),
            "identical_given_lost_wakeups": sum(j.identical_given_them for j in group),
            "lost_wakeups": sum(j.lost_wakeups for j in group),
            "executions": sum(j.batches for j in group),
            "ties": sum(j.tie for j in group),
        }
        for (mode, instances, delay_us), group in sorted(groups.items())
    ]


def main() -> int:
    each, seed = (int(word) for word in [*sys.argv[1:], *("4", "1")[len(sys.argv) - 1 :]])
    with tempfile.TemporaryDirectory() as folder:
        rows, version, undisturbed = play(each, seed, Path(folder))
    figures = results(rows)
    report = {
        "schema": 1,
        "environment": msgspec.to_builtins(environment())
        | {"triton": version, "server_at_real_time_priority": undisturbed},
        "results": figures,
        "data": {
            "by_setting": by_group(rows),
            "timelines": [
                {"setting": setting.name, "seed": seed} | msgspec.to_builtins(judged)
                for setting, seed, judged in rows
            ],
        },
    }
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_bytes(msgspec.json.format(msgspec.json.encode(report), indent=1) + b"\n")
    for figure in figures:
        held = "holds" if figure["holds"] else "DOES NOT HOLD"
        print(f"{figure['name']:55} {figure['measured']:8.4g}  target {figure['target']:8} {held}")
    given = share(rows, lambda j: j.identical_given_them)
    print(f"{'identical, given the lost wake-ups as well':55} {given:8.4g}")
    print(f"written to {RESULT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
