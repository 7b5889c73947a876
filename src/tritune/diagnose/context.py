"""What a rule sees: one window of one model with everything derived from it, once."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tritune.diagnose.breakdown import STAGES, mean_of, request_mean
from tritune.diagnose.result import BatchRow, Breakdown, Capacity
from tritune.model.config import ServingConfig
from tritune.model.server import ServerWindow
from tritune.twin.fit.service import ServicePoint


@dataclass(frozen=True)
class Context:
    """Rules are pure functions of this. `parts` are shorter windows of the same setting, may be empty."""

    config: ServingConfig
    window: ServerWindow
    breakdown: Breakdown
    batches: tuple[BatchRow, ...]
    mean_batch: float
    capacity: Capacity | None
    curve: Mapping[int, ServicePoint]
    parts: tuple[ServerWindow, ...] = ()

    @property
    def queue_ns(self) -> float:
        """Mean queue of a request."""
        return mean_of(self.breakdown, "queue")

    @property
    def service_ns(self) -> float:
        """Mean execution that a request was part of, all stages (size-biased: large batches count more)."""
        return sum(mean_of(self.breakdown, stage) for stage in STAGES[1:])

    @property
    def request_ns(self) -> float:
        """Mean request as the server sees it."""
        return request_mean(self.breakdown)

    @property
    def instances(self) -> int:
        """Instances of one server."""
        return self.config.instances

    @property
    def delay_ns(self) -> int:
        """max_queue_delay, 0 without a dynamic batcher."""
        batching = self.config.dynamic_batching
        return batching.max_queue_delay_microseconds * 1000 if batching is not None else 0

    @property
    def items_per_s(self) -> float | None:
        """Items executed per second; None without a time span."""
        count = self.window.counters.inference_count
        return count / self.window.seconds if self.window.seconds > 0 and count > 0 else None

    @property
    def items_per_request(self) -> float:
        """The client's own batch, on average."""
        return max(1.0, self.window.counters.inference_count / self.breakdown.requests)

    @property
    def utilisation(self) -> float | None:
        """Exact from batch statistics, else the upper bound (taxonomy, Quantities); None without a span."""
        if self.capacity is not None:
            return self.capacity.utilisation
        if self.window.seconds <= 0:
            return None
        busy = self.window.counters.execution_count * self.service_ns
        return busy / (self.window.seconds * 1e9 * self.instances * self.window.replicas)

    @property
    def hard_cap(self) -> int:
        """The most items that the scheduler merges.

        With delay 0 a batch is closed when it reaches a preferred size, so the largest preferred size is a
        hard cap (semantics 1.5); with a delay it may grow to max_batch_size. Without a dynamic batcher
        nothing is merged.
        """
        most = max(1, self.config.max_batch_size)
        if self.config.dynamic_batching is None:
            return 1
        if self.delay_ns == 0 and self.config.preferred:
            return min(most, max(self.config.preferred))
        return most

    @property
    def share_at_cap(self) -> float:
        """Share of the items that ran in batches of at least three quarters of `hard_cap`.

        Three quarters, because formed payloads do not grow exactly to the cap (semantics 1.6). Without
        batch statistics: 1 or 0 by the mean batch.
        """
        near = 0.75 * self.hard_cap
        if not self.batches:
            return float(self.mean_batch >= near)
        return sum(row.item_share for row in self.batches if row.size >= near)
