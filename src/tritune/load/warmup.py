"""Before anything is measured: every batch size on every instance, and 200 requests in all."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

from tritune.model.load import LoadOutcome, Shot, Target, WarmUpDone
from tritune.model.requests import Kind
from tritune.units import NS_PER_S

# Every size up to here, above it powers of two and the largest: a framework that picks kernels by shape
# mostly rounds larger ones itself, and each size costs up to a queue delay.
EVERY_SIZE_TO = 32
MAX_SINGLES_IN_FLIGHT = 64


@dataclass(frozen=True)
class Wave:
    """`count` requests of batch dimension `items`, `concurrency` at a time.

    `until` is the share of the time budget after which the wave is left out or cut.
    """

    items: int
    concurrency: int
    count: int
    until: float


class ClosedLoopEngine(Protocol):
    """What a warm-up needs of the load engine."""

    def closed_loop(
        self,
        target: Target,
        concurrency: int,
        shots: Sequence[Shot],
        *,
        timeout_ns: int,
        count: int | None = None,
        duration_ns: int | None = None,
    ) -> LoadOutcome:
        """See verbs.ports.LoadEngine."""


def batch_sizes(max_batch_size: int) -> tuple[int, ...]:
    """The batch dimensions to send: 1..min(max, 32), powers of two above, the largest; 1 for no batching."""
    if max_batch_size <= 1:
        return (1,)
    sizes = set(range(1, min(max_batch_size, EVERY_SIZE_TO) + 1)) | {max_batch_size}
    power = EVERY_SIZE_TO
    while power < max_batch_size:
        sizes.add(power)
        power *= 2
    return tuple(sorted(sizes))


def waves(max_batch_size: int, instances: int, minimum: int) -> tuple[Wave, ...]:
    """What to send, in order; at least `minimum` requests in all.

    Each size goes out twice, `instances` requests at a time, so that each instance gets one. The batcher
    may merge small ones into one larger batch instead; they still reach sizes, and the single requests
    between the two rounds reach those that merging makes under load. Singles are sent many at a time: one
    after the other each would wait for the whole max_queue_delay. The second round comes last, as it is
    what a short budget may do without. max_batch_size 0: single requests only.
    """
    if max_batch_size <= 0:
        return (Wave(1, 2 * instances, max(minimum, 2 * instances), 1.0),)
    sizes = batch_sizes(max_batch_size)
    singles_at_once = min(max(2, max_batch_size) * instances, MAX_SINGLES_IN_FLIGHT)
    in_rounds = 2 * instances * len(sizes)
    return (
        *(Wave(size, instances, instances, 0.5) for size in sizes),
        Wave(1, singles_at_once, max(minimum - in_rounds, 2 * singles_at_once), 0.8),
        *(Wave(size, instances, instances, 1.0) for size in sizes),
    )


def warm_up(
    engine: ClosedLoopEngine,
    target: Target,
    make_shots: Callable[[int], Sequence[Shot]],
    *,
    max_batch_size: int,
    instances: int,
    minimum: int = 200,
    budget_s: float,
    timeout_ns: int,
) -> WarmUpDone:
    """Send the waves one after the other; what was sent, what failed, and the sizes that were answered.

    `make_shots(items)` are the requests of one batch dimension. Takes at most `budget_s` and one timeout
    longer; fewer than `minimum` requests are sent only where the budget ends first, or where the engine
    cut a wave (`cut`, for example "interrupted"): nothing is sent after that. Raises what `make_shots` and
    the engine raise.
    """
    began = time.monotonic_ns()
    requests = errors = 0
    answered: set[int] = set()
    cut = ""
    for wave in waves(max_batch_size, instances, minimum):
        left_ns = round(wave.until * budget_s * NS_PER_S) - (time.monotonic_ns() - began)
        if left_ns <= 0:
            continue
        outcome = engine.closed_loop(
            target,
            wave.concurrency,
            make_shots(wave.items),
            timeout_ns=timeout_ns,
            count=wave.count,
            duration_ns=left_ns,
        )
        failed = int((outcome.log.kind != Kind.OK).sum())
        requests += len(outcome.log)
        errors += failed
        if failed < len(outcome.log):
            answered.add(wave.items)
        cut = outcome.cut
        if cut:
            break
    seconds = (time.monotonic_ns() - began) / NS_PER_S
    return WarmUpDone(requests, errors, seconds, tuple(sorted(answered)), cut)
