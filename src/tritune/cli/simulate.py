"""`tritune simulate RUN [MORE_RUNS]`, `... PROFILE.json`, or `... --service ... --rate ... --config ...`."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Group, Parameter

from tritune.cli.client_options import Clients, policy
from tritune.cli.options import Where
from tritune.cli.watch_options import Watch, of_server
from tritune.errors import ExitCode, UsageError


@Parameter(name="*", group=Group("Output"))
@dataclass(frozen=True)
class Output:
    """What becomes of the answer.

    Parameters
    ----------
    full
        Show every prediction, the service times and everything that went in.
    json
        Print profile, validity and predictions as JSON.
    html
        Write the report with its charts to this file.
    save_profile
        Write the calibration to this file; `tritune simulate FILE` predicts from it without the run.
    force
        Overwrite these files.
    """

    full: bool = False
    json: bool = False
    html: Path | None = None
    save_profile: Path | None = None
    force: bool = False


def simulate(
    *source: str,
    set_: Annotated[tuple[str, ...], Parameter(name="--set", negative="", show_default=False)] = (),
    rate: Annotated[tuple[str, ...], Parameter(negative="", show_default=False)] = (),
    slo: str | None = None,
    service: str | None = None,
    config: Path | None = None,
    contention: float | None = None,
    items: int = 0,
    requests: int = 0,
    replications: int = 0,
    clients: Clients | None = None,
    watch: Watch | None = None,
    where: Where | None = None,
    output: Output | None = None,
) -> int:
    """Predict latency, batch sizes and the knee of other settings, and say how far to trust that.

    Reads only; no server is needed, but one can be watched. Exit code 4 where a prediction is refused.

    Parameters
    ----------
    source
        Run folders of tritune load or tune: the twin is calibrated on them and checked against the first.
        Or one profile file (--save-profile). Or the URL of a server in use, with --model.
    set_
        A field and its values, e.g. instance_group.count=1:4 or replicas=12:20; repeat it for other fields.
        For a run of an ensemble: MODEL/FIELD, e.g. detector/instance_group.count=1:4.
    rate
        Requests per second, or a sweep 200:1200:100; may be repeated; default: as observed.
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
    requests
        Requests in each simulation; default 20000.
    replications
        Simulations for each prediction; default 8, or 5 from 200 predictions on.
    """
    clients, output = clients or Clients(), output or Output()
    _check(contention, items, requests, replications)
    if bool(source) == (service is not None) or (service is None) != (config is None):
        raise UsageError(
            "a simulation needs either a run folder, or --service with --config and --rate",
            slug="run-or-service",
            hint="Name a RUN, or add for example --service '4ms+0.55ms*b' --config config.pbtxt --rate 200.",
        )
    watch = watch or Watch()
    if watch.model is None and any("://" in one for one in source):
        raise UsageError(
            f"{source[0]} is a server, which serves models",
            slug="model-missing",
            hint="Name the one to watch: --model M.",
        )
    paths = [Path(one) for one in source]
    from tritune.cli.output import print_json, say
    from tritune.cli.report import write_document
    from tritune.cli.twin_source import of_ensemble, of_figures, of_sources
    from tritune.cli.work import ParallelWork
    from tritune.model.slo import parse_slo
    from tritune.report.content.ensemble import ensemble_document
    from tritune.report.content.simulation import simulation_document
    from tritune.report.render.html import html
    from tritune.report.render.text import print_text
    from tritune.store.profiles import write_profile
    from tritune.twin.ask.answer import Simulation
    from tritune.twin.ask.grid import rates
    from tritune.verbs.observe import answer_observed
    from tritune.verbs.simulate import Question, answer

    for path in (output.html, output.save_profile):
        if path is not None and path.exists() and not output.force:
            raise UsageError(f"{path} exists", slug="file-exists", hint="Add --force to overwrite it.")
    question = Question(
        set_,
        rates(rate),
        parse_slo(slo) if slo else None,
        contention,
        items,
        policy(clients),
        requests,
        replications,
    )
    work = ParallelWork()
    found: Simulation
    observed = of_server(source, watch, where or Where()) if watch.model is not None else None
    ensemble = of_ensemble(paths, question, work) if observed is None else None
    if ensemble is not None:
        _no_profile_of(ensemble.profile.model, output)
        found, document = ensemble, ensemble_document(ensemble)
    else:
        if observed is not None:
            basis = observed.basis
        elif service is not None and config is not None:
            basis = of_figures(config, service, question)
        else:
            basis = of_sources(paths, question, work)
        if output.save_profile is not None:
            write_profile(output.save_profile, basis.saved, force=output.force)
            say(f"Wrote {output.save_profile}")
        if observed is not None:
            found = answer_observed(observed, question, work=work)
        else:
            found = answer(basis, question, work=work)
        document = simulation_document(found)
    if output.json:
        print_json("simulation", found)
    else:
        print_text(document, full=output.full)
    if output.html is not None:
        write_document(output.html, html(document), force=output.force)
        say(f"Wrote {output.html}")
    if found.refused:
        say(f"error: {len(found.refused)} of {len(found.predictions)} predictions were refused")
        return ExitCode.NOT_TRUSTWORTHY
    return ExitCode.OK


def _no_profile_of(ensemble: str, output: Output) -> None:
    """Raises UsageError (ensemble-profile)."""
    if output.save_profile is not None:
        raise UsageError(
            f"the calibration of an ensemble is not kept in a file: {ensemble} has one for each model",
            slug="ensemble-profile",
            hint="Predict from its run folder instead.",
        )


def _check(contention: float | None, items: int, requests: int, replications: int) -> None:
    """Raises UsageError (out-of-range)."""
    for flag, value, low, high in (
        ("--contention", contention, 0, 100),
        ("--items", items, 0, 1_000_000),
        ("--requests", requests, 0, 10_000_000),
        ("--replications", replications, 0, 1000),
    ):
        if value is not None and not low <= value <= high:
            raise UsageError(
                f"{flag} {value:g} is out of range", slug="out-of-range", hint=f"From {low} to {high}."
            )
