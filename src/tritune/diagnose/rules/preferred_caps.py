"""preferred-caps: with delay 0 the largest preferred size is a hard cap, and the traffic needs more."""

from __future__ import annotations

from tritune.diagnose.context import Context
from tritune.diagnose.moves import plain_batching, short_delay
from tritune.diagnose.result import Finding, Remedy
from tritune.twin.fit.service import peak
from tritune.units import format_duration

SLUG = "preferred-caps"
MIN_LOAD = 0.8


def find(context: Context) -> Finding | None:
    """Fires at delay 0 with preferred sizes below max_batch_size, near the capacity that they leave.

    Measured: {4, 8}, delay 0, max 16 has p99 1357 ms and rising at 1000/s where plain batching has 28.5 ms
    (issue 2, part 6); the rule is semantics 1.5. Silent where batches up to the cap are already slower per
    item: then larger ones would not help.
    """
    batching = context.config.dynamic_batching
    rate = context.items_per_s
    if batching is None or not batching.preferred_batch_size or context.delay_ns or rate is None:
        return None
    largest = max(batching.preferred_batch_size)
    if largest >= context.config.max_batch_size:
        return None
    servers = context.instances * context.window.replicas
    capped = peak(context.curve, servers, at_most=largest)
    if capped is None or capped.best_size < 0.75 * largest or context.share_at_cap < 0.5:
        return None
    load = rate / capped.items_per_s
    if load < MIN_LOAD:
        return None
    certain = load >= 0.9 or context.queue_ns >= 2 * context.service_ns
    return Finding(
        slug=SLUG,
        title=f"Preferred sizes with delay 0 cap every batch at {largest} of {context.config.max_batch_size}",
        confidence="high" if certain else "medium",
        evidence=(
            (
                f"max_queue_delay 0 and preferred sizes up to {largest}: a batch that reaches one is closed, "
                f"although max_batch_size is {context.config.max_batch_size}"
            ),
            (
                f"{context.share_at_cap:.0%} of the items ran in batches at the cap; mean batch "
                f"{context.mean_batch:.1f}"
            ),
            f"load {load:.0%} of what batches up to {largest} can do ({capped.items_per_s:.0f} items/s)",
            (
                f"queue {format_duration(context.queue_ns)}, an execution takes "
                f"{format_duration(context.service_ns)}"
            ),
        ),
        remedies=(
            Remedy(
                "Remove the preferred sizes: batches may then grow to max_batch_size.",
                plain_batching(context.config),
            ),
            Remedy("Or keep them and add a short delay: the cap is only hard with delay 0.", short_delay()),
        ),
        check=f"Without preferred sizes, executions above {largest} appear in the batch statistics.",
    )
