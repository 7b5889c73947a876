"""What the rules read and write: fixed figures of one model, and its changing state as int64 arrays.

The same arrays serve a virtual clock (simulation) and a real one. A row of `State.request` belongs to one
request from its arrival until its batch is done or it is refused; who drives the rules hands out the rows
and may use them again. Rows of `State.payload` are handed out and taken back by the rules themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tritune.model.requests import Int64

# Later than anything; far enough below 2**63 that a sum of two durations does not wrap.
NEVER = 2**61
NONE = -1

# Columns of State.request. The driver writes ITEMS, SHAPE and CANCELLED_AT before the arrival.
ITEMS, SHAPE, CANCELLED_AT, ENQUEUED, DEADLINE, NEXT, JOINED, JOINED_BUSY = range(8)
# Columns of State.payload (payload.h). PHASE: see below. NEXT_PAYLOAD links R, and the free rows.
FIRST, LAST, PAYLOAD_ITEMS, REQUESTS, OLDEST, PHASE, MARKED, NEXT_PAYLOAD = range(8)
# Columns of State.level: one FIFO per priority level (level 0 where there are no priorities).
HEAD, TAIL, SIZE = range(3)

# Payload::State, as far as it matters here.
UNINITIALIZED, SCHEDULED, EXECUTING, RELEASED = range(4)
# What the batcher thread is doing: waiting for requests, for a payload slot, for the delay to pass, or
# turning in its loop until the open payload is picked up (see rules.batcher_thread).
SLEEP_EMPTY, SLEEP_SLOT, SLEEP_DELAY, SPIN = range(4)
# Why a request was answered without being executed.
QUEUE_FULL, TIMED_OUT, CANCELLED = 1, 2, 3

# Slots of State.s.
(
    CURRENT,  # curr_payload_
    SATURATED,  # payload_saturated_
    NEXT_PREFERRED,  # next_preferred_batch_size_
    QUEUED_ITEMS,  # queued_batch_size_
    QUEUED,  # requests in Q, all levels
    CURSOR_VALID,  # pending_cursor_, pending_batch_size_
    CURSOR_LEVEL,
    CURSOR_AFTER,  # the last request scanned in that level, NONE before the first
    PENDING,
    PENDING_ITEMS,
    PENDING_OLDEST,
    PENDING_TIMEOUT,
    READY_FIRST,  # R: scheduled payloads, first in, first out
    READY_LAST,
    READY,
    IDLE,  # instances without work
    SLEEP,
    SLEEP_UNTIL,
    WAKE_AT,  # when the batcher thread runs next: the timer that the driver must honour
    STARTED,  # entries of State.started and State.dropped since the driver last emptied them
    DROPPED,
    HELD,  # entries of State.held: dropped by a scan, answered when the batcher next wakes up
    FREE_PAYLOAD,
    UNUSED_PAYLOAD,
    CLOCK,  # time of the last event; the two clocks below ran until then
    BUSY_CLOCK,  # time in which all instances were busy
    DELAY_CLOCK,  # time in which an instance was idle while the batcher waited for the delay
    SCALARS,
) = range(28)


class Rules(NamedTuple):
    """What stays the same while a model serves; booleans are 0 or 1."""

    dynamic: int
    eager: int
    instances: int
    max_batch: int
    delay_ns: int
    max_preferred: int
    shapes_enforced: int
    inputs_compared: int
    levels: int
    ticks: int
    cancels: int
    wake_ns: int
    # is_preferred[b] is 1 where b is a preferred size; next_preferred[b] is the smallest preferred size
    # above b, else the smallest of all, else 0. Both for b = 0 .. max_batch.
    is_preferred: Int64
    next_preferred: Int64
    # By level: 0 = no limit; no timeout; no override.
    max_queue_size: Int64
    default_timeout_ns: Int64
    timeout_override: Int64


class State(NamedTuple):
    """What changes. `running` names each instance's payload, NONE when idle.

    `started` (instances that must begin to execute their payload now) and `dropped` (request, reason) are
    what an event announces; the driver reads them after the event and sets their counts to 0. `held` are
    those that will be dropped when the batcher wakes up.
    """

    s: Int64
    request: Int64
    payload: Int64
    level: Int64
    running: Int64
    started: Int64
    dropped: Int64
    held: Int64


def new_state(rules: Rules, requests: int) -> State:
    """An idle model whose batcher sleeps; room for `requests` requests at a time."""
    s = np.zeros(SCALARS, np.int64)
    s[[CURSOR_AFTER, READY_FIRST, READY_LAST, FREE_PAYLOAD]] = NONE
    s[IDLE] = rules.instances
    s[SLEEP] = SLEEP_EMPTY
    s[[SLEEP_UNTIL, WAKE_AT]] = NEVER
    # In R or executing: at most one payload per request. Beside those: the open one that is still empty.
    payload = np.empty((requests + rules.instances + 2, 8), np.int64)
    payload[0] = (NONE, NONE, 0, 0, NEVER, UNINITIALIZED, 0, NONE)
    s[CURRENT], s[UNUSED_PAYLOAD] = 0, 1
    level = np.zeros((rules.levels + 1, 3), np.int64)
    level[:, [HEAD, TAIL]] = NONE
    return State(
        s=s,
        request=np.empty((requests, 8), np.int64),
        payload=payload,
        level=level,
        running=np.full(rules.instances, NONE, np.int64),
        started=np.empty(rules.instances, np.int64),
        dropped=np.empty((requests, 2), np.int64),
        held=np.empty((requests, 2), np.int64),
    )
