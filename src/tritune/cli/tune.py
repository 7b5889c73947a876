"""`tritune tune URL --model M --rate R --slo p99=50ms`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tritune.cli.options import Traffic, Where, read_data, workload
from tritune.errors import ExitCode, UsageError
from tritune.tune.result import TuneResult
from tritune.tune.space import STAGES, Stage
from tritune.units import parse_duration

STAGE_WORDS: dict[str, Stage] = {stage.split()[0]: stage for stage in STAGES}


def tune(
    url: str,
    /,
    *,
    model: str,
    slo: str,
    traffic: Traffic | None = None,
    config: Path | None = None,
    stages: str = "delay,plain,preferred,instances,max",
    budget: str = "10m",
    max_reloads: int = 30,
    load_timeout: str = "2m",
    every_stage: bool = False,
    watchdog: Annotated[bool, Parameter(negative="--no-watchdog")] = True,
    allow_load: bool = False,
    allow_reload: bool = False,
    shared_repository: bool = False,
    newer_files_ok: bool = False,
    runs: Path = Path("tritune-runs"),
    json: bool = False,
    where: Where | None = None,
) -> int:
    """Change one thing at a time until the SLO holds; keep what is proven better, undo the rest.

    Exit code 0 when the SLO holds (or for advice), 3 when it does not, 130 when interrupted: the original
    is then served again.

    Parameters
    ----------
    url
        The HTTP endpoint of the server.
    model
        The model to tune.
    slo
        What must hold, e.g. p99=50ms or p99=50ms,p50=10ms,errors<0.1%.
    config
        The model's config.pbtxt: the diff is then made against it, with its comments kept.
    stages
        Which stages to go through, in the fixed order.
    budget
        No new trial begins that would end after this time.
    max_reloads
        Never reload the model more often than this.
    load_timeout
        Deadline of one load call.
    every_stage
        Go on after the SLO is met.
    watchdog
        A detached process restores the model if this one dies.
    allow_load
        Required for load where the server is not on this machine.
    allow_reload
        Required for reloads where the server is not on this machine; without it: advice and a diff.
    shared_repository
        The repository lies on a network file system and no other server loads from it.
    newer_files_ok
        Model files newer than the server's process are what is served (they were loaded since).
    runs
        Where the run folder goes.
    json
        Print the result as JSON.
    """
    from tritune.model.slo import parse_slo

    plan = workload(model, traffic or Traffic())
    body = read_data(traffic.data if traffic else None)
    objective = parse_slo(slo)
    budget_ns, load_timeout_ns = parse_duration(budget), parse_duration(load_timeout)
    words = [word.strip() for word in stages.split(",") if word.strip()]
    if unknown := [word for word in words if word not in STAGE_WORDS]:
        raise UsageError(
            f"'{unknown[0]}' is not a stage", slug="unknown-stage", hint=f"Stages: {', '.join(STAGE_WORDS)}."
        )

    from tritune.cli.output import print_json, say
    from tritune.cli.session import TuneSession
    from tritune.cli.wiring import connect
    from tritune.report.content.tuning import tuning_document
    from tritune.report.render.text import print_text
    from tritune.store.journal import Address
    from tritune.triton.address import parse_url
    from tritune.verbs.preflight import is_loopback, require_loopback_or
    from tritune.verbs.request import TuneRequest

    where = where or Where()
    local = is_loopback(parse_url(url).host)
    require_loopback_or(allow_load, parse_url(url).host, "--allow-load", "loading")
    server = connect(url, grpc=where.grpc, metrics=where.metrics)
    request = TuneRequest(
        workload=plan,
        slo=objective,
        stages=tuple(STAGE_WORDS[word] for word in words),
        budget_ns=budget_ns,
        max_reloads=max_reloads,
        load_deadline_s=load_timeout_ns / 1e9,
        may_reload=local or allow_reload,
        data=body,
        shared_repository=shared_repository,
        every_stage=every_stage,
    )
    session = TuneSession(
        server,
        Address(server.url, where.grpc, where.metrics),
        request,
        runs,
        config=config,
        newer_files_ok=newer_files_ok,
        watchdog=watchdog,
    )
    result = session.run()
    path = session.finish(result)
    if json:
        print_json("tune", result)
    else:
        print_text(tuning_document(result))
    say(f"Wrote {path} (report.html{', config.diff' if result.diff else ''})")
    return exit_code(result)


def exit_code(result: TuneResult) -> ExitCode:
    """What a tuning's outcome says to a script."""
    from tritune.cli.output import cut_code

    if result.status == "cut":
        return cut_code(result.cut)
    codes = {"not met": ExitCode.OBJECTIVE_NOT_MET, "undecided": ExitCode.NOT_TRUSTWORTHY}
    return codes.get(result.status, ExitCode.OK)
