"""`tritune demo`: the main job on a real Triton on this machine, from an exploded p99 to a proven diff."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path


def demo(
    *,
    scenario: str = "delay-too-long",
    runs: Path = Path("tritune-runs"),
    window: str | None = None,
    witnesses: bool = True,
    json: bool = False,
) -> int:
    """Start a real Triton with a model whose p99 has exploded, find out why, tune it, report, stop it.

    Parameters
    ----------
    scenario
        Which failure: bigger-is-slower, delay-too-long, healthy, instances-fight, staircase.
    runs
        Where the run folder goes.
    window
        How long each setting is measured; default: the scenario's own.
    witnesses
        Also ask Triton's own summaries and hey, on freshly started servers, before and after.
    json
        Print the result as JSON.
    """
    from tritune.cli.lab import Lab
    from tritune.cli.live import live_progress
    from tritune.cli.output import print_json, say
    from tritune.cli.play import Play
    from tritune.cli.tune import exit_code
    from tritune.report.content.tuning import tuning_document
    from tritune.report.render.text import print_text
    from tritune.scenarios import load_scenario, materialise
    from tritune.units import parse_duration

    failure = load_scenario(scenario)
    length = parse_duration(window) if window else parse_duration(failure.budget.window)
    workload = failure.plan(duration_ns=length)
    progress = live_progress()
    say(f"{failure.title}\n{failure.story.strip()}\nSLO: {failure.objective} at {workload}\n")
    folder = Path(tempfile.mkdtemp(prefix="tritune-demo-"))
    try:
        repository = materialise(failure, folder)
        play = Play(Lab(folder, progress), failure, workload, runs)
        before = play.testimony(repository, "as found, for the witnesses") if witnesses else None
        session, result = play.tune(repository)
        if before is not None:
            tuned = play.edited(repository, result)
            after = play.testimony(tuned, "with the edited file, for the witnesses") if tuned else None
            result = play.told(result, before, after)
        path = session.finish(result)
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    if json:
        print_json("tune", result)
    else:
        print_text(tuning_document(result))
    say(f"\nThe server is stopped. Wrote {path}")
    if result.diff:
        say(f"  the change      {path}/config.diff")
    say(f"  the report      {path}/report.html   (open it in a browser)")
    say(f"  all of it again tritune report {path}")
    return exit_code(result)
