"""`tritune diagnose URL`."""

from __future__ import annotations

from typing import Annotated

from cyclopts import Parameter

from tritune.cli.options import Where
from tritune.errors import ExitCode, UsageError
from tritune.units import NS_PER_S, parse_duration


def diagnose(
    url: str,
    /,
    *,
    model: Annotated[tuple[str, ...], Parameter(negative=())] = (),
    watch: Annotated[str, Parameter(name="--watch-for")] = "5s",
    json: bool = False,
    where: Where | None = None,
) -> int:
    """Say where the time goes and what is wrong; reads only, sends no inference.

    Parameters
    ----------
    url
        The HTTP endpoint of the server, e.g. localhost:8000.
    model
        Only this model (repeatable). Default: all of them.
    watch
        How long to watch: figures are what happened in this time, never totals.
    json
        Print the diagnosis as JSON.
    """
    seconds = parse_duration(watch) / NS_PER_S
    if not 0 < seconds <= 3600:
        raise UsageError(f"--watch-for {watch} is out of range", slug="out-of-range", hint="At most 1h.")
    from tritune.cli.live import live_progress
    from tritune.cli.output import print_json
    from tritune.cli.wiring import connect
    from tritune.clock import RealClock
    from tritune.report.content.diagnosis import diagnosis_document
    from tritune.report.render.text import print_text
    from tritune.verbs.diagnose import diagnose as look

    where = where or Where()
    server = connect(url, grpc=where.grpc, metrics=where.metrics)
    found = look(server, RealClock(), live_progress(), models=model, seconds=seconds)
    if json:
        print_json("diagnosis", {"url": server.url, "notes": server.notes, "models": found})
    else:
        version = server.info().version
        print_text(diagnosis_document(found, url=server.url, server_version=version, notes=server.notes))
    return ExitCode.OK
