"""What `tritune simulate URL` watches, and for how long."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from cyclopts import Group, Parameter

from tritune.cli.options import Where
from tritune.errors import UsageError
from tritune.units import parse_duration

if TYPE_CHECKING:
    from tritune.verbs.observe import Observed


@Parameter(name="*", group=Group("From a running server's counters"))
@dataclass(frozen=True)
class Watch:
    """Which model's counters are read.

    Parameters
    ----------
    model
        The model, at a URL instead of a run: its traffic is watched, nothing is sent.
    for_
        How long to watch, 20s or more; the longer, the better are bursts told.
    """

    model: str | None = None
    for_: Annotated[str, Parameter(name="--for")] = "60s"


def of_server(urls: Sequence[str], watch: Watch, where: Where) -> Observed:
    """What a server's counters show. Raises UsageError (one-server); otherwise as `observe` and
    `from_observation`.
    """
    from tritune.cli.live import live_progress
    from tritune.cli.wiring import connect
    from tritune.clock import RealClock
    from tritune.verbs.observe import from_observation, observe

    if len(urls) != 1:
        raise UsageError(
            "--model reads the counters of one server",
            slug="one-server",
            hint="Name its URL, for example tritune simulate localhost:8000 --model M.",
        )
    server = connect(urls[0], grpc=where.grpc, metrics=where.metrics)
    progress = live_progress()
    seen = observe(server, RealClock(), progress, watch.model or "", parse_duration(watch.for_))
    progress.step("finding service times and bursts in the counters")
    return from_observation(seen)
