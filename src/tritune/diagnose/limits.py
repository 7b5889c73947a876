"""What a window does not show, a sentence each, so that silence is not taken for health."""

from __future__ import annotations

from tritune.diagnose.context import Context


def not_seen(context: Context) -> tuple[str, ...]:
    """In the order in which they limit the answer."""
    window, config = context.window, context.config
    lines = []
    if window.seconds <= 0:
        lines.append(
            "These are totals since the model was loaded, without a time span: no rate, no load, no "
            "utilisation, and means over all the traffic there ever was."
        )
    if window.reset:
        lines.append("The counters started anew within the window: rates and load are too low.")
    if window.counters.batch_stats is None or not context.batches:
        lines.append(
            "No batch statistics (metrics have none): batch sizes only as a mean, utilisation only as an "
            "upper bound, no service time per size, no capacity."
        )
    if config.ensemble_steps:
        lines.append(
            "An ensemble has no queue of its own: its rest holds the queues and executions of its steps "
            f"({', '.join(config.ensemble_steps)})."
        )
    if context.capacity is not None and context.capacity.bound and config.dynamic_batching is not None:
        lines.append(
            f"No batch above {max(context.curve)} of {config.max_batch_size} was seen: capacity is a lower "
            "bound, load an upper one."
        )
    if context.instances > 1 and context.capacity is not None:
        lines.append(
            f"What an execution takes when the other {context.instances - 1} instances are idle: service "
            "times and capacity hold for this load only."
        )
    if not any(part.name == "client" for part in context.breakdown.parts):
        lines.append("The time before and after the server (network, connections, upload, the client).")
    lines.append("Percentiles and bursts: server counters are means over the window.")
    return tuple(lines)
