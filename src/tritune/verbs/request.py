"""What an operator asks of a tuning."""

from __future__ import annotations

from dataclasses import dataclass

from tritune.model.slo import Slo
from tritune.model.workload import Workload
from tritune.tune.space import STAGES, Stage
from tritune.units import NS_PER_S


@dataclass(frozen=True)
class TuneRequest:
    """The workload, the objective, and the bounds within which the server may be touched.

    `data` is a JSON inference request, None = zeros. `may_reload` false = advice only. `every_stage`
    goes on after the SLO is met.
    """

    workload: Workload
    slo: Slo
    stages: tuple[Stage, ...] = STAGES
    budget_ns: int = 600 * NS_PER_S
    max_reloads: int = 30
    load_deadline_s: float = 120.0
    may_reload: bool = True
    data: bytes | None = None
    shared_repository: bool = False
    every_stage: bool = False
