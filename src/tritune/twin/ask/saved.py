"""A calibration as a file keeps it: enough to predict without the run that it came from."""

from __future__ import annotations

import msgspec

from tritune.model.profile import TwinProfile
from tritune.twin.ask.parts import QueueParts
from tritune.twin.ask.validate import Validity

SCHEMA_VERSION = 1


class SavedRecord(msgspec.Struct, frozen=True):
    """Recorded arrivals, where no process fits: gaps, ns, items of the later request, the mean block."""

    gaps_ns: list[int]
    items: list[int]
    block: float


class SavedProfile(msgspec.Struct, frozen=True, kw_only=True):
    """A profile file (docs/formats.md). `config_json`: the configuration that was served. `validity`: what
    the replay of the run found; None for figures typed by hand. `queue_parts`: where the time in its queue
    went. `concurrency`: of a closed loop, else 0.
    """

    schema_version: int = SCHEMA_VERSION
    profile: TwinProfile
    config_json: str
    validity: Validity | None = None
    queue_parts: QueueParts | None = None
    recorded: SavedRecord | None = None
    concurrency: int = 0
