"""Triton's dynamic batcher in virtual time, simplified: a stand-in for tests, not the exact twin."""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import msgspec

from tritune.model.config import ServingConfig

# Batch size in items and number of instances -> service time, ns.
Service = Callable[[int, int], float]


class Ran(msgspec.Struct, frozen=True, gc=False):
    """One batch: how many requests, how long it ran, how long its requests were queued altogether, ns."""

    requests: int
    start_ns: int
    service_ns: int
    queue_ns: int


@dataclass
class FakeBatcher:
    """One model under load, in the order in which its batches are launched.

    Late-binding first in, first out (research.md 2): the first free instance launches a batch of what is
    queued then. It may not do so before the oldest request has waited for max_queue_delay_microseconds, or
    enough requests for the smallest preferred size are there; a preferred size that is reached before the
    delay is over is taken exactly. Without dynamic_batching every request runs alone. Every request holds
    `items` items.
    """

    config: ServingConfig
    service: Service
    items: int = 1
    # One factor per batch, endlessly; noise of the service time.
    factor: Callable[[], float] = lambda: 1.0
    ran: list[Ran] = field(default_factory=list)

    def __post_init__(self) -> None:
        block, largest = self.config.dynamic_batching, max(1, self.config.max_batch_size)
        batches = block is not None and self.config.max_batch_size > 0
        self._delay_ns = block.max_queue_delay_microseconds * 1000 if block is not None and batches else 0
        self._most = max(1, largest // self.items) if batches else 1
        sizes = self.config.preferred if batches else (1,)
        self._preferred = sorted({min(self._most, max(1, size // self.items)) for size in sizes})
        self._free = [0] * self.config.instances
        self._times: dict[int, float] = {}

    def open_loop(self, arrivals_ns: Sequence[int]) -> list[int]:
        """When each request is answered; `arrivals_ns` in order."""
        queue = [(at, i) for i, at in enumerate(arrivals_ns)]
        done = [0] * len(queue)
        while queue:
            ended, batch = self._launch(queue)
            for _, i in batch:
                done[i] = ended
        return done

    def closed_loop(
        self, concurrency: int, *, count: int | None, until_ns: int | None, pause_ns: int
    ) -> tuple[list[int], list[int]]:
        """When each request was sent and answered; the next is sent `pause_ns` after an answer."""
        sent = [0] * (concurrency if count is None else min(concurrency, count))
        done = [0] * len(sent)
        queue = [(0, i) for i in range(len(sent))]
        while queue:
            ended, batch = self._launch(queue)
            for _, i in batch:
                done[i] = ended
                again = ended + pause_ns
                if (count is None or len(sent) < count) and (until_ns is None or again < until_ns):
                    heapq.heappush(queue, (again, len(sent)))
                    sent.append(again)
                    done.append(0)
        return sent, done

    def _launch(self, queue: list[tuple[int, int]]) -> tuple[int, list[tuple[int, int]]]:
        """Take the next batch from `queue` (a heap) and run it; when it ends, and what was in it."""
        oldest = queue[0][0]
        free = heapq.heappop(self._free)
        timer = oldest + self._delay_ns
        waiting: list[tuple[int, int]] = []
        while queue and len(waiting) < self._most and queue[0][0] <= max(free, timer):
            waiting.append(heapq.heappop(queue))
        smallest = self._preferred[0]
        ready = min(timer, waiting[smallest - 1][0]) if len(waiting) >= smallest else timer
        start = max(free, ready)
        there = len(waiting)
        while waiting[there - 1][0] > start:
            there -= 1
        reached = [size for size in self._preferred if size <= there]
        is_early = self._delay_ns == 0 or start < timer
        size = reached[-1] if reached and is_early else there
        for item in waiting[size:]:
            heapq.heappush(queue, item)
        batch = waiting[:size]
        service = round(self._time(size) * self.factor())
        heapq.heappush(self._free, start + service)
        self.ran.append(Ran(size, start, service, sum(start - at for at, _ in batch)))
        return start + service, batch

    def _time(self, size: int) -> float:
        if size not in self._times:
            self._times[size] = self.service(size * self.items, self.config.instances)
        return self._times[size]
