"""Counters that advance by executions, with the bases that Triton uses (semantics 3.1, 3.4)."""

from __future__ import annotations

import msgspec

from tritune.model.server import BatchStat, ModelCounters, Tally


class Execution(msgspec.Struct, frozen=True):
    """One batch that ran: the items of its requests, and how long it took, ns. `queue_ns` is per request."""

    requests: tuple[int, ...] = (1,)
    queue_ns: int = 0
    input_ns: int = 0
    infer_ns: int = 0
    output_ns: int = 0


def counted(counters: ModelCounters, execution: Execution, times: int = 1) -> ModelCounters:
    """`counters` after `times` x `execution`: durations are charged to every request, batch_stats once."""
    n, items = times * len(execution.requests), sum(execution.requests)
    compute = execution.input_ns + execution.infer_ns + execution.output_ns
    batches = dict(counters.batch_stats or {})
    batches[items] = batches.get(items, BatchStat()) + BatchStat(
        times, times * execution.input_ns, times * execution.infer_ns, times * execution.output_ns
    )
    return msgspec.structs.replace(
        counters,
        success=counters.success + Tally(n, n * (execution.queue_ns + compute)),
        queue=counters.queue + Tally(n, n * execution.queue_ns),
        compute_input=counters.compute_input + Tally(n, n * execution.input_ns),
        compute_infer=counters.compute_infer + Tally(n, n * execution.infer_ns),
        compute_output=counters.compute_output + Tally(n, n * execution.output_ns),
        inference_count=counters.inference_count + times * items,
        execution_count=counters.execution_count + times,
        batch_stats=dict(sorted(batches.items())),
    )


def failed(counters: ModelCounters, reason: str, count: int) -> ModelCounters:
    """`counters` after `count` failures of one reason."""
    reasons = dict(counters.failure_reasons)
    reasons[reason] = reasons.get(reason, 0) + count
    return msgspec.structs.replace(counters, fail=counters.fail + Tally(count), failure_reasons=reasons)
