"""A run folder's manifest (version 1). Readers ignore fields that they do not know."""

from __future__ import annotations

from typing import Literal

import msgspec

from tritune.model.measurement import Measurement
from tritune.model.slo import Slo

SCHEMA_VERSION = 1


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """manifest.json: what this folder holds and whether it is whole.

    `kind` says which verb wrote it; `cut` why it is not complete. A tune run has its story in
    tune.json and one run folder per measured setting under trials/.
    """

    schema_version: int = SCHEMA_VERSION
    kind: Literal["load", "tune"]
    status: Literal["complete", "cut"]
    cut: str = ""
    created: str
    tool_version: str
    server_version: str
    url: str
    model: str
    slo: Slo | None = None
    measurement: Measurement | None = None
