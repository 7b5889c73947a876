"""delay-too-long: requests wait for company while an instance is free."""

from __future__ import annotations

from tritune.diagnose.context import Context
from tritune.diagnose.delay import delay_queue_ns
from tritune.diagnose.moves import DELAY_US, LEAST_DELAY_US, MOST_DELAY_US, plain_batching, short_delay
from tritune.diagnose.result import Confidence, Finding, Remedy
from tritune.units import format_duration

SLUG = "delay-too-long"
# Above this load the queue is busy wait, whatever the delay.
MOST_LOAD = 0.8
# The delay matters where it makes this share of the mean request, and explains this share of the queue.
OF_REQUEST, OF_QUEUE = 0.3, 0.5


def find(context: Context) -> Finding | None:
    """Fires where the delay's own queue is most of the observed one, at low load (taxonomy B4 a, d)."""
    if context.delay_ns <= MOST_DELAY_US * 1000:
        return None  # within the article's range
    made = delay_queue_ns(context)
    load = context.capacity.load if context.capacity is not None else context.utilisation
    if made is None or load is None or load >= MOST_LOAD:
        return None
    queue = context.queue_ns
    if queue < OF_REQUEST * context.request_ns or made < max(
        OF_REQUEST * context.request_ns, OF_QUEUE * queue
    ):
        return None
    if queue < OF_QUEUE * made:
        return None  # the queue is shorter than the delay would make it: something else is going on
    close = 0.67 * made <= queue <= 1.5 * made
    exact = context.capacity is not None
    confidence: Confidence = "high" if close and exact and load < 0.6 else "medium"
    return Finding(
        slug=SLUG,
        title="Requests wait for the queue delay while an instance is free",
        confidence=confidence,
        evidence=_evidence(context, made, load),
        remedies=_remedies(context),
        check=(
            f"Send the same traffic with max_queue_delay_microseconds: {DELAY_US}: "
            f"the mean queue should fall by about {format_duration(made)}."
        ),
    )


def _evidence(context: Context, made: float, load: float) -> tuple[str, ...]:
    preferred = context.config.preferred
    lines = [
        (
            f"queue {format_duration(context.queue_ns)} of {format_duration(context.request_ns)} "
            f"({context.queue_ns / context.request_ns:.0%} of the mean request)"
        ),
        (
            f"max_queue_delay {format_duration(context.delay_ns)} at this rate makes "
            f"{format_duration(made)} of queue; an execution takes {format_duration(context.service_ns)}"
        ),
    ]
    if context.capacity is not None:
        lines.append(f"load {load:.0%} of capacity: there is room to start at once")
    else:
        lines.append(f"instances busy {load:.0%} at most (upper bound: no batch statistics)")
    if context.batches:
        reached = sum(
            row.execution_share
            for row in context.batches
            if row.size in preferred or row.size >= max(preferred, default=1)
        )
        sizes = ", ".join(map(str, sorted(preferred)))
        lines.append(
            f"mean batch {context.mean_batch:.1f} of {context.config.max_batch_size}; {reached:.0%} of the "
            f"batches filled up to a preferred size ({sizes}), the others waited the whole delay"
        )
    return tuple(lines)


def _remedies(context: Context) -> tuple[Remedy, ...]:
    remedies = [
        Remedy(
            f"Shorten the delay to {DELAY_US} us (range to try: {LEAST_DELAY_US} to {MOST_DELAY_US} us).",
            short_delay(),
        )
    ]
    plain = plain_batching(context.config)
    if plain is not None:
        remedies.append(
            Remedy(
                "Or batch what is waiting and never wait: remove preferred sizes and delay together.",
                plain,
            )
        )
    return tuple(remedies)
