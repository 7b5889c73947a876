"""`tritune simulate RUN`, or `tritune simulate --service ... --rate ... --config ...`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tritune.errors import ExitCode, UsageError


def simulate(
    run: Path | None = None,
    /,
    *,
    set_: Annotated[tuple[str, ...], Parameter(name="--set")] = (),
    rate: tuple[float, ...] = (),
    slo: str | None = None,
    service: str | None = None,
    config: Path | None = None,
    contention: float | None = None,
    items: int = 0,
    full: bool = False,
    json: bool = False,
) -> int:
    """Predict latency, batch sizes and the knee of other settings, and say how far to trust that.

    Reads only; no server is needed. Exit code 4 where a prediction is refused.

    Parameters
    ----------
    run
        A run folder of tritune load: the twin is calibrated on it and checked against it.
    set_
        A field and its values, e.g. instance_group.count=1:4; repeat it for other fields.
    rate
        Requests per second, may be repeated; default: as observed.
    slo
        What must hold, e.g. p99=50ms; gives the highest rate at which it does.
    service
        Without a run: the time of a batch of b items, e.g. 4ms+0.55ms*b.
    config
        Without a run: the model's config.pbtxt.
    contention
        How much each other active instance slows one down, e.g. 0.3; without it other counts are refused.
    items
        Batch dimension of every request; default: as observed, else 1.
    full
        Show also the service times and everything that went in.
    json
        Print profile, validity and predictions as JSON.
    """
    if contention is not None and not 0 <= contention <= 100:
        raise UsageError(
            f"--contention {contention:g} is out of range", slug="out-of-range", hint="0 or more."
        )
    if items < 0:
        raise UsageError(f"--items {items} is out of range", slug="out-of-range", hint="At least 1.")
    if (run is None) == (service is None) or (service is None) != (config is None):
        raise UsageError(
            "a simulation needs either a run folder, or --service with --config and --rate",
            slug="run-or-service",
            hint="Name a RUN, or add for example --service '4ms+0.55ms*b' --config config.pbtxt --rate 200.",
        )
    from tritune.cli.output import print_json, say
    from tritune.cli.twin_source import of_figures, of_run
    from tritune.model.slo import parse_slo
    from tritune.report.content.simulation import simulation_document
    from tritune.report.render.text import print_text
    from tritune.verbs.simulate import Question

    question = Question(set_, rate, parse_slo(slo) if slo else None, contention, items)
    found = (
        of_run(run, question) if run is not None else of_figures(config or Path(), service or "", question)
    )
    if json:
        print_json("simulation", found)
    else:
        document = simulation_document(
            found.profile, found.validity, found.predictions, found.headroom, found.slo
        )
        print_text(document, full=full)
    if found.refused:
        say(f"error: {len(found.refused)} of {len(found.predictions)} predictions were refused")
        return ExitCode.NOT_TRUSTWORTHY
    return ExitCode.OK
