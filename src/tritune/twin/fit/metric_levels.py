"""Prometheus counters at several loads, or why they do not tell how long a batch takes."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

import numpy as np

from tritune.errors import ExitCode, TrituneError
from tritune.model.config import ServingConfig
from tritune.model.server import ServerWindow
from tritune.twin.fit.calibrate import MAX_FAILED

# Scrapes of about the same rate are taken together, in so many levels at most.
MOST_LEVELS = 8
# Two points always lie on a line; the third says whether all do.
MIN_LEVELS = 3
# Requests at a level below this leave its means to chance.
MIN_REQUESTS = 200
# The mean batch at the highest level over that at the lowest: less, and the line hangs by a thread.
MIN_SPAN = 1.3
# Batches are full where the mean is this near to max_batch_size.
_FULL = 0.97
_WHOLE = 0.01


def load_levels(
    config: ServingConfig, windows: Sequence[ServerWindow], contention: float | None
) -> list[ServerWindow]:
    """Windows of about the same rate as one, by rate. Raises TrituneError where they cannot be used."""
    used = [window for window in windows if window.counters.success.count and window.seconds > 0]
    if any(window.reset for window in windows):
        raise _bad("the counters were reset between two scrapes")
    if not used:
        raise _bad("no request was answered, or the server counts no latencies")
    total = reduce(add, used).counters
    if total.fail.count > MAX_FAILED * (total.fail.count + total.success.count):
        raise _bad(f"{total.fail.count} requests failed beside {total.success.count} that were answered")
    if not all(window.counters.execution_count for window in used):
        raise _bad("executions were not counted")
    if any(abs(items_of(window) - round(items_of(used[0]))) > _WHOLE for window in used):
        raise _bad("requests differ in size")
    if config.dynamic_batching is None or config.max_batch_size <= 1:
        raise missing("each request is a batch of its own, so nothing tells what larger batches would take")
    if config.instances > 1 and contention is None:
        raise missing(
            f"{config.instances} instances may slow each other down, and the metrics do not tell that from "
            "larger batches"
        )
    ordered = sorted(used, key=rate_of)
    groups = np.array_split(np.arange(len(ordered)), min(MOST_LEVELS, len(ordered)))
    # In order of time, because only then does a sum know the gaps within it.
    by_time = [sorted((ordered[k] for k in group.tolist()), key=lambda w: w.t1_ns) for group in groups]
    levels = [reduce(add, group) for group in by_time]
    levels = [level for level in levels if level.counters.success.count >= MIN_REQUESTS]
    batches = [mean_batch(level) for level in levels]
    if batches and min(batches) >= _FULL * config.max_batch_size:
        raise missing(
            f"every batch was full ({config.max_batch_size} items), so only the time of that size was seen"
        )
    if len(levels) < MIN_LEVELS or max(batches) < MIN_SPAN * min(batches):
        seen = f"from {min(batches):.2f} to {max(batches):.2f} items" if batches else "in no way"
        raise missing(
            f"the load varied too little: the mean batch changed {seen} over {len(levels)} levels of at "
            f"least {MIN_REQUESTS} requests"
        )
    return levels


def rate_of(window: ServerWindow) -> float:
    """Answered requests per second."""
    return window.counters.success.count / window.seconds


def items_of(window: ServerWindow) -> float:
    """Items per request."""
    return window.counters.inference_count / window.counters.success.count


def mean_batch(window: ServerWindow) -> float:
    """Items per execution."""
    return window.counters.inference_count / window.counters.execution_count


def compute_ns(window: ServerWindow) -> float:
    """Compute time per request, ns: each is charged the whole execution."""
    c = window.counters
    return (c.compute_input.ns + c.compute_infer.ns + c.compute_output.ns) / c.success.count


def outside_ns(window: ServerWindow) -> float:
    """What a request takes in the server beside queue and compute, ns."""
    c = window.counters
    return (c.success.ns - c.queue.ns) / c.success.count - compute_ns(window)


def missing(why: str) -> TrituneError:
    """The refusal that says what the metrics lack."""
    return TrituneError(
        f"the metrics alone do not tell how long a batch takes: {why}",
        slug="twin-no-batches",
        hint="Give the server's HTTP endpoint, whose statistics count batch sizes, or scrape at other loads.",
        exit_code=ExitCode.NOT_TRUSTWORTHY,
    )


def _bad(why: str) -> TrituneError:
    return TrituneError(
        f"nothing can be predicted from these metrics: {why}",
        slug="twin-bad-run",
        hint="Scrape while the model is used and left alone.",
        exit_code=ExitCode.NOT_TRUSTWORTHY,
    )
