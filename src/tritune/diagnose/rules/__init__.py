"""One file per cause: `find(context)` gives a Finding or None. Order as in the taxonomy."""

from __future__ import annotations

from collections.abc import Callable

from tritune.diagnose.context import Context
from tritune.diagnose.result import Finding
from tritune.diagnose.rules import (
    bigger_batches_slower,
    delay_too_long,
    instances_contend,
    preferred_caps,
    saturated,
)

Rule = Callable[[Context], Finding | None]

# A high queue alone is a symptom of most causes, so `saturated` speaks only where no other rule does.
RULES: tuple[Rule, ...] = (
    delay_too_long.find,
    preferred_caps.find,
    instances_contend.find,
    bigger_batches_slower.find,
)
LAST: Rule = saturated.find
