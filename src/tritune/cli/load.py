"""`tritune load URL --model M`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tritune.cli.options import Traffic, Where, read_data, workload
from tritune.errors import ExitCode


def load(
    url: str,
    /,
    *,
    model: str,
    traffic: Traffic | None = None,
    slo: str | None = None,
    warm_up: Annotated[bool, Parameter(negative="--no-warm-up")] = True,
    allow_load: bool = False,
    runs: Path = Path("tritune-runs"),
    json: bool = False,
    where: Where | None = None,
) -> int:
    """Load a model and report latency from the planned instants, errors by kind, and batch sizes.

    Exit code 3 when --slo is given and does not hold, 4 when that stays undecided, or the generator could
    not keep its own plan.

    Parameters
    ----------
    url
        The HTTP endpoint of the server.
    model
        The model to load.
    slo
        What must hold, e.g. p99=50ms.
    warm_up
        200 requests before measuring, reaching every batch size on every instance.
    allow_load
        Required where the server is not on this machine.
    runs
        Where the run folder goes.
    json
        Print the measurement as JSON.
    """
    plan = workload(model, traffic or Traffic())
    body = read_data(traffic.data if traffic else None)
    from tritune.model.slo import parse_slo

    objective = parse_slo(slo) if slo else None

    from tritune.cli.output import cut_code, print_json, say
    from tritune.cli.wiring import connect, instruments
    from tritune.report.content.load import load_document
    from tritune.report.render.text import print_text
    from tritune.stats.slo import judge
    from tritune.stats.trust import doubt
    from tritune.store.runs import Runs
    from tritune.triton.address import parse_url
    from tritune.verbs.load import load as send
    from tritune.verbs.preflight import require_loopback_or

    where = where or Where()
    require_loopback_or(allow_load, parse_url(url).host, "--allow-load", "loading")
    server = connect(url, grpc=where.grpc, metrics=where.metrics)
    kit = instruments(server, rate_per_s=plan.rate_per_s, timeout_ns=plan.timeout_ns)
    cell, manifest, path = send(kit, Runs(runs), plan, data=body, slo=objective, warm=warm_up)
    if json:
        print_json("load", manifest)
    else:
        print_text(load_document(manifest, cell.log))
    say(f"Wrote {path}")
    if cut := cell.measurement.cut:
        say(f"error: the run was cut short ({cut}); what was measured is kept")
        return cut_code(cut)
    if why := doubt(cell.measurement):
        say(f"error: not trustworthy: {why}")
        return ExitCode.NOT_TRUSTWORTHY
    if objective is not None:
        return {"met": ExitCode.OK, "not met": ExitCode.OBJECTIVE_NOT_MET}.get(
            judge(objective, cell.measurement).answer, ExitCode.NOT_TRUSTWORTHY
        )
    return ExitCode.OK
