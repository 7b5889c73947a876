"""The composition: real server, load engine, store, clock and progress, wired into what the verbs need."""

from __future__ import annotations

import resource
from functools import partial

from tritune.cli.live import live_progress
from tritune.clock import RealClock
from tritune.load.engine import HttpLoadEngine
from tritune.load.warmup import warm_up
from tritune.triton.server import connect
from tritune.tune.verdict import in_flight_cap
from tritune.verbs.measure import Instruments
from tritune.verbs.ports import Progress, Server


def open_files() -> int:
    """How many files this process may open, after raising its own limit as far as it is allowed to."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = min(65_536, hard) if hard != resource.RLIM_INFINITY else 65_536
    if soft < wanted:
        resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))
    return max(soft, wanted)


def instruments(
    server: Server, *, rate_per_s: float | None, timeout_ns: int, progress: Progress | None = None
) -> Instruments:
    """What a measurement of `server` is made with."""
    engine = HttpLoadEngine()
    return Instruments(
        server=server,
        engine=engine,
        warm_up=partial(warm_up, engine),
        clock=RealClock(),
        progress=progress or live_progress(),
        max_in_flight=in_flight_cap(rate_per_s or 0.0, timeout_ns, open_files()),
    )


__all__ = ["connect", "instruments"]
