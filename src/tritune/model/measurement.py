"""What one load against one setting showed: the figures that comparisons, rules and reports work from."""

from __future__ import annotations

from typing import Literal

import msgspec

from tritune.model.server import ServerWindow
from tritune.model.workload import Workload

Verdict = Literal["better", "worse", "equivalent", "undecided"]


class Estimate(msgspec.Struct, frozen=True):
    """A figure with its 95 % interval, ns. None bounds: too few requests to tell (a legal answer).

    `value` None: nothing was measured. `units.NEVER_NS`: failed requests reach this percentile.
    """

    value: float | None = None
    low: float | None = None
    high: float | None = None


class Sender(msgspec.Struct, frozen=True):
    """The load generator's own error in this run; lateness = sent - planned, ns."""

    lateness_p50_ns: float = 0.0
    lateness_p99_ns: float = 0.0
    lateness_max_ns: float = 0.0
    cpu_share: float = 0.0
    new_connections: int = 0


class Measurement(msgspec.Struct, frozen=True):
    """One cell: a workload sent to one setting, from the client's side and the server's.

    `latency` is keyed mean, p50, p90, p95, p99, p99.9 over all planned requests. `block_p99_ns` are the
    p99 of equal, consecutive slices of the plan: with the same plan in two cells, slice i of one pairs
    with slice i of the other. `window` is the server's statistics over the same time. `cut` says why the
    run ended early, empty if it did not.
    """

    setting: str
    workload: Workload
    requests: int
    seconds: float
    errors: dict[str, int]
    latency: dict[str, Estimate]
    block_p99_ns: tuple[float, ...] = ()
    window: ServerWindow | None = None
    sender: Sender = Sender()
    summaries_us: dict[str, float] | None = None
    cut: str = ""
    run: str = ""

    @property
    def error_share(self) -> float:
        """Failed requests / planned requests."""
        return sum(self.errors.values()) / self.requests if self.requests else 0.0


class Comparison(msgspec.Struct, frozen=True):
    """A candidate against the best so far, on p99: `ratio` = candidate / best with its 95 % interval.

    Verdicts: better / worse (interval on one side of 1 and the effect above what is worth a change),
    equivalent (interval within +-5 %), undecided (anything else). `basis` says in a sentence what the
    interval was made from.
    """

    ratio: float
    low: float
    high: float
    verdict: Verdict
    basis: str
