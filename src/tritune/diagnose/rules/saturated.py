"""saturated: more is asked than the instances can do at the batch sizes that they may form."""

from __future__ import annotations

from tritune.diagnose.context import Context
from tritune.diagnose.moves import instance_count, plain_batching
from tritune.diagnose.result import Confidence, Finding, Remedy
from tritune.model.config import Change, Setting
from tritune.units import format_duration

SLUG = "saturated"
# Taxonomy A1; p99 is 3 x its base at a load of 0.86 and 5 x at 0.93 (research.md 5).
HIGH_LOAD, SURE_LOAD = 0.85, 0.9


def find(context: Context) -> Finding | None:
    """Load near 1 with batches at their cap, or a queue of several executions on busy instances.

    Busy instances alone say nothing: with a dynamic batcher they are always busy at half their capacity.
    Without batch statistics or a time span only a queue of many executions speaks, with less confidence.
    """
    confidence = _by_load(context) if context.capacity is not None else _by_queue(context)
    if confidence is None:
        return None
    return Finding(
        slug=SLUG,
        title="The model is at the limit of what its instances can do",
        confidence=confidence,
        evidence=_evidence(context),
        remedies=_remedies(context),
        check="In open loop at 10 % less traffic the queue should shrink to a fraction.",
    )


def _by_load(context: Context) -> Confidence | None:
    capacity = context.capacity
    if capacity is None:
        return None
    queue = context.queue_ns / context.service_ns if context.service_ns > 0 else 0.0
    if capacity.load >= HIGH_LOAD and context.share_at_cap >= 0.5:
        # Only full batches were seen: smaller ones might do more (bigger-batches-slower), who knows.
        smaller = context.hard_cap < 4 or min(context.curve) < 0.75 * context.hard_cap
        return "high" if smaller and (capacity.load >= SURE_LOAD or queue >= 2) else "medium"
    # A queue of several executions while larger batches would be allowed: the batches that really form
    # (mixed shapes, frozen payloads) are the limit.
    if (capacity.utilisation or 0.0) >= SURE_LOAD and queue >= 3:
        return "medium"
    return None


def _by_queue(context: Context) -> Confidence | None:
    if context.queue_ns < max(5 * context.service_ns, 2 * context.delay_ns) or context.share_at_cap < 0.5:
        return None
    busy = context.utilisation
    if busy is None:
        return "low"  # totals since the load: no rate, any old backlog counts
    return "medium" if busy >= HIGH_LOAD else None


def _evidence(context: Context) -> tuple[str, ...]:
    lines = []
    capacity = context.capacity
    if capacity is not None:
        lines.append(
            f"load {capacity.load:.0%}: {capacity.rate_items_per_s:.0f} of {capacity.items_per_s:.0f} "
            f"items/s at batches of {capacity.best_size}"
        )
        if capacity.utilisation is not None:
            lines.append(f"instances busy {capacity.utilisation:.0%} of the time")
    elif context.utilisation is not None:
        lines.append(f"instances busy {context.utilisation:.0%} at most (upper bound: no batch statistics)")
    lines.append(
        f"queue {format_duration(context.queue_ns)}, {context.queue_ns / max(context.service_ns, 1):.1f} x "
        f"an execution of {format_duration(context.service_ns)}"
    )
    if context.config.dynamic_batching is None:
        lines.append("no dynamic_batching: every request is executed alone")
    else:
        lines.append(
            f"mean batch {context.mean_batch:.1f}; {context.share_at_cap:.0%} of the items ran in batches "
            f"near the cap of {context.hard_cap}"
        )
    if context.window.pending:
        lines.append(f"{context.window.pending} requests were waiting at the end of the window")
    return tuple(lines)


def _remedies(context: Context) -> tuple[Remedy, ...]:
    config = context.config
    remedies = []
    if config.dynamic_batching is None and config.max_batch_size > 1 and not config.sequence_batching:
        remedies.append(
            Remedy(
                f"Let requests merge, up to {config.max_batch_size} a batch.",
                Change((Setting("dynamic_batching", "{}"),)),
            )
        )
    if context.hard_cap < config.max_batch_size or context.delay_ns:
        plain = plain_batching(config)
        if plain is not None:
            remedies.append(Remedy("Let batches grow to max_batch_size: plain batching.", plain))
    if context.instances == 1:
        remedies.append(
            Remedy(
                "A second instance, kept only if executions of equal size stay less than 25 % slower.",
                instance_count(config, 2),
            )
        )
    remedies.append(
        Remedy(
            "A larger max_batch_size, if the model (engine) takes it and items get cheaper in larger batches."
        )
    )
    remedies.append(
        Remedy(
            "More replicas; until then limit the requests in flight to objective x throughput, or shed load."
        )
    )
    return tuple(remedies)
