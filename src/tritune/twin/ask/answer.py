"""Everything that `tritune simulate` found, as one value: what it rests on, and what it predicts."""

from __future__ import annotations

import msgspec

from tritune.model.client import ClientPolicy
from tritune.model.profile import TwinProfile
from tritune.model.slo import Slo
from tritune.twin.ask.knee import Headroom, Knee
from tritune.twin.ask.parts import QueueParts
from tritune.twin.ask.predict import Prediction
from tritune.twin.ask.sweep import Effort
from tritune.twin.ask.validate import Validity
from tritune.twin.ask.verified import Verified


class Simulation(msgspec.Struct, frozen=True):
    """The answer. `validity` is None for figures typed by hand: nothing was observed that they could be
    held against.

    `predictions` in the order asked, each with its rank. `best_knee`: the knee of the best setting
    (`pareto.by_setting`), where that is not the one as it is. `traffic`: what was sent, in words. `client`:
    what clients do, None = they wait for ever. `queue_parts`: of the observed run, None without one.
    """

    profile: TwinProfile
    validity: Validity | None
    predictions: tuple[Prediction, ...]
    headroom: Headroom
    slo: Slo | None = None
    verified: Verified = Verified("")
    effort: Effort = Effort()
    best_knee: Knee | None = None
    traffic: str = ""
    client: ClientPolicy | None = None
    queue_parts: QueueParts | None = None

    @property
    def refused(self) -> tuple[Prediction, ...]:
        """The predictions that were refused."""
        return tuple(prediction for prediction in self.predictions if prediction.refusal)

    @property
    def in_rank(self) -> tuple[Prediction, ...]:
        """The predictions, best first."""
        return tuple(sorted(self.predictions, key=lambda prediction: prediction.rank))
