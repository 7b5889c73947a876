"""What a diagnosis says of one model."""

from __future__ import annotations

from typing import Literal

import msgspec

from tritune.model.config import Change, ServingConfig
from tritune.model.server import ServerWindow

Confidence = Literal["high", "medium", "low"]


class Part(msgspec.Struct, frozen=True):
    """One part of the mean request, ns; the parts of a breakdown add up to its total."""

    name: str
    ns: float


class Breakdown(msgspec.Struct, frozen=True):
    """Where the mean request spends its time.

    Server parts, in order: queue, compute_input, compute_infer, compute_output, rest (= request - the
    others). With client data a `client` part follows (latency seen by the client - request): network,
    connections, the client itself. Means over requests, ns.
    """

    requests: int
    parts: tuple[Part, ...]

    @property
    def total_ns(self) -> float:
        """The sum of the parts."""
        return sum(part.ns for part in self.parts)

    def share(self, name: str) -> float:
        """The part's share of the total, 0 where there is nothing."""
        total = self.total_ns
        return sum(p.ns for p in self.parts if p.name == name) / total if total > 0 else 0.0


class BatchRow(msgspec.Struct, frozen=True):
    """One executed batch size: how often, its share of executions and of items, S(b) in ns."""

    size: int
    executions: int
    execution_share: float
    item_share: float
    service_ns: float


class Capacity(msgspec.Struct, frozen=True):
    """How much the model could do: max over measured b of instances x b / S(b) (items/s).

    `load` = item rate / capacity: near 1 is saturation. `utilisation` = busy time / (window x instances):
    an instance can be busy all the time at half its capacity, so this is not a saturation signal.
    `best_size` is the b of the maximum. Only observed batch sizes count, so capacity is a lower bound
    and load an upper one; `bound` says so where larger sizes were allowed but not seen.
    """

    items_per_s: float
    best_size: int
    rate_items_per_s: float
    load: float
    utilisation: float | None
    bound: bool


class Remedy(msgspec.Struct, frozen=True):
    """What to do; `change` where it is an edit of the configuration."""

    text: str
    change: Change | None = None


class Finding(msgspec.Struct, frozen=True):
    """One cause, with the figures that say so, what to do in order, and the check that would confirm it."""

    slug: str
    title: str
    confidence: Confidence
    evidence: tuple[str, ...]
    remedies: tuple[Remedy, ...]
    check: str = ""


class Diagnosis(msgspec.Struct, frozen=True):
    """All about one model in one window. No findings and no `no_verdict` = healthy as far as can be seen."""

    model: str
    version: str
    config: ServingConfig
    window: ServerWindow
    breakdown: Breakdown | None
    batches: tuple[BatchRow, ...]
    mean_batch: float | None
    capacity: Capacity | None
    findings: tuple[Finding, ...]
    no_verdict: str = ""
    not_seen: tuple[str, ...] = ()
