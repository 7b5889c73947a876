"""From one window of one model to its causes, in order."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tritune.diagnose.batches import batch_rows, mean_batch
from tritune.diagnose.breakdown import breakdown
from tritune.diagnose.capacity import capacity
from tritune.diagnose.context import Context
from tritune.diagnose.limits import not_seen
from tritune.diagnose.result import Diagnosis, Finding
from tritune.diagnose.rules import LAST, RULES
from tritune.model.config import ServingConfig
from tritune.model.server import ServerWindow
from tritune.twin.fit.service import service_curve

# Below these a mean is an anecdote, and no verdict is given (taxonomy G1).
MIN_REQUESTS, MIN_EXECUTIONS = 100, 30

_ORDER = {"high": 0, "medium": 1, "low": 2}


def diagnose(
    config: ServingConfig,
    window: ServerWindow,
    *,
    client_mean_ns: float | None = None,
    parts: Sequence[ServerWindow] = (),
) -> Diagnosis:
    """Breakdown, batches, capacity and findings, most certain first; pure.

    `client_mean_ns` is the mean latency that a client measured over the same requests. `parts` are shorter
    windows of the same setting (each second, or a quiet and a busy time, after the warm-up: first executions
    are slow): they let contention be seen, or excluded.
    Too few requests or executions: no findings and a sentence in `no_verdict`. Every finding is at most
    medium where the counters were reset within the window, and low where there is no time span.
    """
    parts_of_request = breakdown(window, client_mean_ns)
    mean = mean_batch(window)
    found = capacity(config, window)
    rows = batch_rows(window)
    findings: tuple[Finding, ...] = ()
    unseen: tuple[str, ...] = ()
    refusal = _too_little(window)
    if parts_of_request is not None and mean is not None:
        context = Context(
            config=config,
            window=window,
            breakdown=parts_of_request,
            batches=rows,
            mean_batch=mean,
            capacity=found,
            curve=service_curve(window),
            parts=tuple(parts),
        )
        unseen = not_seen(context)
        if not refusal:
            findings = _findings(context)
    return Diagnosis(
        model=window.model,
        version=window.version,
        config=config,
        window=window,
        breakdown=parts_of_request,
        batches=rows,
        mean_batch=mean,
        capacity=found,
        findings=findings,
        no_verdict=refusal,
        not_seen=unseen,
    )


def _too_little(window: ServerWindow) -> str:
    requests = window.counters.success.count
    executions = window.counters.execution_count
    failed = window.counters.fail.count
    if requests <= 0:
        tail = f"; {failed} failed" if failed > 0 else ""
        return f"No request succeeded in this window{tail}, so there is nothing to explain."
    if requests < MIN_REQUESTS or executions < MIN_EXECUTIONS:
        return (
            f"Only {requests} requests in {executions} executions: a verdict needs at least {MIN_REQUESTS} "
            f"and {MIN_EXECUTIONS}. Watch longer, or send traffic."
        )
    return ""


def _findings(context: Context) -> tuple[Finding, ...]:
    if context.config.ensemble_steps or context.config.sequence_batching:
        return ()  # their queues and batches follow other rules (taxonomy C3, I2)
    findings = [f for f in (rule(context) for rule in RULES) if f is not None]
    if all(f.confidence == "low" for f in findings):
        last = LAST(context)
        findings += [last] if last is not None else []
    limited = [_limit(context, f) for f in findings]
    return tuple(sorted(limited, key=lambda f: _ORDER[f.confidence]))


def _limit(context: Context, finding: Finding) -> Finding:
    if context.window.seconds <= 0:
        return msgspec.structs.replace(finding, confidence="low")
    if context.window.reset and finding.confidence == "high":
        return msgspec.structs.replace(finding, confidence="medium")
    return finding
