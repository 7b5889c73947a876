"""Does the twin batch and refuse as the real server does? Random timelines on a real Triton, and on the twin.

    python benchmarks/bench_timelines.py [--families 43] [--seed 1] [--record FOLDER [--minutes M]]

Takes about seven minutes; leave the machine alone meanwhile. Writes benchmarks/results/timelines.json. With
--record everything measured is kept in FOLDER and used again: --minutes stops playing early (0: before the
first, and judge what there is), the next call with the same FOLDER goes on, and once all is played it only
judges. An incomplete record changes no result.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec

from tritune.embedded.environment import ensure_environment
from tritune.embedded.server import start, stop
from tritune.model.timeline import ExecutedTimeline
from tritune.store.environment import environment
from tritune.testing.timelines.judge import Judged, judge
from tritune.testing.timelines.nature import Nature
from tritune.testing.timelines.plan import Plan, plans
from tritune.testing.timelines.play import Player
from tritune.testing.timelines.power import RULES
from tritune.testing.timelines.repository import write_repository
from tritune.twin.engine.setting import setting_of

RESULT = Path(__file__).parent / "results" / "timelines.json"
RELEASE = "24.10"
PLAYED_TARGET = 200
RAW_TARGET = 0.90
CLEAR_TARGET = 0.97
CLEAR_COUNT_TARGET = 100


class Played(msgspec.Struct, frozen=True):
    """A line of the record: the plan's number, what the server did, and whether it ran undisturbed."""

    number: int
    executed: ExecutedTimeline
    triton: str
    undisturbed: bool


class Row(msgspec.Struct, frozen=True):
    """A timeline and its verdict."""

    plan: Plan
    judged: Judged


class Record:
    """plans.json and played.jsonl in a folder."""

    def __init__(self, folder: Path) -> None:
        self.plans_file = folder / "plans.json"
        self.played_file = folder / "played.jsonl"
        folder.mkdir(parents=True, exist_ok=True)

    def plans(self, families: int, seed: int) -> list[Plan]:
        """Those of the record; drawn where there are none yet."""
        if not self.plans_file.exists():
            print("Drawing the timelines", flush=True)
            drawn = list(plans(families, seed, RELEASE))
            self.plans_file.write_bytes(msgspec.json.encode(drawn))
        return msgspec.json.decode(self.plans_file.read_bytes(), type=list[Plan])

    def played(self) -> list[Played]:
        if not self.played_file.exists():
            return []
        lines = self.played_file.read_bytes().splitlines()
        return [msgspec.json.decode(line, type=Played) for line in lines]

    def add(self, played: Played) -> None:
        with self.played_file.open("ab") as file:
            file.write(msgspec.json.encode(played) + b"\n")


def play(wanted: Sequence[Plan], record: Record, minutes: float, folder: Path) -> None:
    """Play what is not played yet, one configuration after the other, until the time is over."""
    done = {played.number for played in record.played()}
    left = [number for number in range(len(wanted)) if number not in done]
    if not left or minutes <= 0:
        return
    end = time.monotonic() + 60 * minutes
    server = start(write_repository(folder), environment=ensure_environment(print), folder=folder)
    try:
        with Player(server) as player:
            before: Plan | None = None
            dirty = False
            for number in left:
                if time.monotonic() > end:
                    return
                plan = wanted[number]
                if before is None or dirty or plan.config != before.config:
                    same_family = before is not None and plan.family == before.family
                    player.configure(plan.config, fresh=dirty and same_family)
                    print(f"{number:4} {plan.name}", flush=True)
                executed = player.play(plan.timeline)
                record.add(Played(number, executed, server.version, player.undisturbed))
                before, dirty = plan, leaves_a_mark(plan, executed)
    finally:
        stop(server)


def leaves_a_mark(plan: Plan, executed: ExecutedTimeline) -> bool:
    """Whether what the scheduler counts as queued is too much from now on, and decides anything.

    A refused request stays counted (dynamic_batch_scheduler.cc:Enqueue), which wakes the batcher where the
    wake filter would not; that filter works with a delay and without shapes to check only.
    """
    setting = setting_of(plan.config, RELEASE)
    refused = any(request.refusal for request in executed.requests)
    return refused and setting.delay_ns > 0 and not setting.shapes_enforced


def share(rows: Sequence[Row], holds: Callable[[Judged], bool]) -> float:
    return sum(holds(row.judged) for row in rows) / len(rows) if rows else float("nan")


def results(rows: Sequence[Row]) -> list[dict[str, Any]]:
    beforehand = [row for row in rows if not row.plan.tie]
    clear = [row for row in rows if not row.judged.tie]
    surely = [row for row in clear if not row.judged.batcher_first]
    figures: list[tuple[str, float, float | None, str]] = [
        ("timelines played", len(rows), PLAYED_TARGET, "timelines"),
        ("identical: every batch and refusal", share(rows, lambda j: j.identical), RAW_TARGET, "share"),
        ("no tie by the instants measured", len(clear), CLEAR_COUNT_TARGET, "timelines"),
        ("identical of these", share(clear, lambda j: j.identical), CLEAR_TARGET, "share"),
        ("no tie by the instants planned", len(beforehand), CLEAR_COUNT_TARGET, "timelines"),
        ("identical of these planned", share(beforehand, lambda j: j.identical), None, "share"),
        ("no tie, and no faster batcher turns one", len(surely), None, "timelines"),
        ("identical of these, too", share(surely, lambda j: j.identical), None, "share"),
        (
            "identical, given the lost wake-ups too",
            share(rows, lambda j: j.identical_given_them),
            None,
            "share",
        ),
    ]
    return [
        {
            "name": name,
            "measured": measured,
            "target": None if target is None else f">= {target}",
            "unit": unit,
            "holds": None if target is None else measured >= target,
        }
        for name, measured, target, unit in figures
    ]


def lost_wakeups(rows: Sequence[Row]) -> dict[str, Any]:
    """Per completion under lazy dispatch with a tick: how many were lost, as the starts show."""
    lazy = [
        row for row in rows if not (setting := setting_of(row.plan.config, RELEASE)).eager and setting.dynamic
    ]
    lost = sum(row.judged.lost_wakeups for row in lazy)
    completions = sum(row.judged.batches for row in lazy)
    return {
        "lost": lost,
        "completions": completions,
        "per_completion": lost / completions if completions else None,
    }


def tested(rows: Sequence[Row]) -> dict[str, Any]:
    """What is in these timelines: mean counts, and the share of timelines that have any."""
    natures = [msgspec.to_builtins(row.judged.nature) for row in rows]
    return {
        name: {
            "mean": sum(nature[name] for nature in natures) / len(natures),
            "share_with_any": sum(nature[name] > 0 for nature in natures) / len(natures),
        }
        for name in (Nature.__struct_fields__ if natures else ())
    }


def noticed(rows: Sequence[Row]) -> dict[str, int]:
    """By rule: how many of these timelines would differ if the twin did not have it."""
    return {rule: sum(rule in row.judged.notices for row in rows) for rule in RULES}


def refused_late(rows: Sequence[Row]) -> dict[str, float] | None:
    """How much later than the twin the server answered those that both refused; without ties."""
    late = [ms for row in rows if not row.judged.tie for ms in row.judged.refused_late_ms]
    if not late:
        return None
    worst = max(late, key=abs)
    return {"requests": len(late), "median_ms": median(late), "worst_ms": worst}


def by_group(rows: Sequence[Row]) -> Iterator[dict[str, Any]]:
    """Per queue policy and instance count: counts."""
    groups: dict[tuple[str, int], list[Row]] = {}
    for row in rows:
        groups.setdefault((row.plan.policy, row.plan.config.instances), []).append(row)
    for (policy, instances), group in sorted(groups.items()):
        clear = [row.judged for row in group if not row.judged.tie]
        yield {
            "policy": policy,
            "instances": instances,
            "timelines": len(group),
            "identical": sum(row.judged.identical for row in group),
            "no_ties": len(clear),
            "no_ties_identical": sum(judged.identical for judged in clear),
            "executions": sum(row.judged.batches for row in group),
            "lost_wakeups": sum(row.judged.lost_wakeups for row in group),
        }


def report(rows: Sequence[Row], played: Sequence[Played]) -> dict[str, Any]:
    return {
        "schema": 2,
        "environment": msgspec.to_builtins(environment())
        | {
            "triton": ", ".join(sorted({one.triton for one in played})),
            "server_at_real_time_priority": all(one.undisturbed for one in played),
        },
        "results": results(rows),
        "data": {
            "candidates_drawn": sum(row.plan.candidates for row in rows),
            "sent_late_by_more_than_1_ms": sum(row.judged.late_ms > 1 for row in rows),
            "lost_wakeups": lost_wakeups(rows),
            "tested_by_no_ties": tested([row for row in rows if not row.judged.tie]),
            "tested_by_all": tested(rows),
            "no_ties_that_would_differ_without": noticed([row for row in rows if not row.judged.tie]),
            "refused_answered_later_than_the_twin": refused_late(rows),
            "by_group": list(by_group(rows)),
            "timelines": [
                {"setting": row.plan.name, "steered": row.plan.steered, "tie_as_planned": row.plan.tie}
                | msgspec.to_builtins(row.judged)
                for row in rows
            ],
        },
    }


def show(whole: dict[str, Any]) -> None:
    for figure in whole["results"]:
        held = {True: "holds", False: "DOES NOT HOLD", None: ""}[figure["holds"]]
        target = f"target {figure['target']}" if figure["target"] else ""
        print(f"{figure['name']:45} {figure['measured']:8.4g}  {target:15} {held}")
    data = whole["data"]
    print(f"{data['candidates_drawn']} candidates were drawn for them;", end=" ")
    print(f"{data['sent_late_by_more_than_1_ms']} have a request that came more than 1 ms late")
    lost = data["lost_wakeups"]
    print(f"lost wake-ups: {lost['lost']} in {lost['completions']} completions under lazy dispatch")
    print(
        "per timeline without ties: "
        + ", ".join(
            f"{name} {seen['mean']:.3g} (in {seen['share_with_any']:.0%})"
            for name, seen in data["tested_by_no_ties"].items()
        )
    )
    if late := data["refused_answered_later_than_the_twin"]:
        print(f"{late['requests']} refused, answered {late['median_ms']:.2f} ms later", end=" ")
        print(f"than by the twin (median), at worst {late['worst_ms']:.2f} ms")
    print("timelines without ties that would differ if the twin did not know")
    for rule, count in data["no_ties_that_would_differ_without"].items():
        print(f"  {rule:35} {count:4}")
    for one in data["timelines"]:
        if not one["identical"]:
            print(f"  other: {'tie' if one['tie'] else 'NO TIE'} {one['setting']}")


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--families", type=int, default=43)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--record", type=Path)
    parser.add_argument("--minutes", type=float, default=60.0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        record = Record(asked.record or Path(folder) / "record")
        wanted = record.plans(asked.families, asked.seed)
        play(wanted, record, asked.minutes, Path(folder))
        played = record.played()
    if len(played) < len(wanted):
        print(f"{len(played)} of {len(wanted)} played; run again with the same --record to go on")
        if asked.minutes > 0 or not played:
            return 0
    rows = [
        Row(
            plan := wanted[one.number],
            judge(setting_of(plan.config, one.triton), plan.timeline, one.executed),
        )
        for one in played
    ]
    whole = report(rows, played)
    show(whole)
    if len(played) < len(wanted):
        return 0
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_bytes(msgspec.json.format(msgspec.json.encode(whole), indent=1) + b"\n")
    print(f"written to {RESULT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
