"""How much of the queue the configured delay makes by itself."""

from __future__ import annotations

from tritune.diagnose.context import Context


def delay_queue_ns(context: Context) -> float | None:
    """Mean queue per request that max_queue_delay alone explains, ns; None without a delay or a rate.

    A batch that reached a preferred size (or the largest one) left with its last request: its first waited
    for the others, (b - k) / rate with client batches of k, at most the delay. Any other batch left when the
    delay of its first request was over. The requests in between arrive evenly. An instance must stand idle
    for such a wait to be voluntary, so all of them together cannot exceed the idle time; what is known of
    that (batch statistics) bounds the result. Rules of dispatch: semantics 1.5.
    """
    rate, delay = context.items_per_s, float(context.delay_ns)
    if not delay or rate is None:
        return None
    preferred = context.config.preferred
    largest = max(preferred, default=0)
    k = context.items_per_request
    sizes = (
        [(float(row.size), row.executions) for row in context.batches]
        if context.batches
        else [(context.mean_batch, context.window.counters.execution_count)]
    )
    waited = first_waited = items = 0.0
    for size, executions in sizes:
        followers = max(0.0, size - k)
        filled = size in preferred or size >= largest
        first = min(delay, followers / rate * 1e9) if filled else delay
        # The last request of a filled batch waits for nobody; those behind a first request that waits out
        # the delay arrive anywhere in it.
        waited += executions * (size * first / 2 if filled else k * first + followers * first / 2)
        first_waited += executions * first
        items += executions * size
    if items <= 0:
        return None
    return waited / items * _possible(context, first_waited)


def _possible(context: Context, first_waited_ns: float) -> float:
    """The share of the waiting for which instances were idle at all."""
    if context.capacity is None or context.capacity.utilisation is None or first_waited_ns <= 0:
        return 1.0
    instances = context.instances * context.window.replicas
    idle_ns = max(0.0, 1 - context.capacity.utilisation) * instances * context.window.seconds * 1e9
    return min(1.0, idle_ns / first_waited_ns)
