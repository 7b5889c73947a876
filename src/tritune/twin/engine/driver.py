"""The virtual clock: takes events in order of time and lets the rules act. Compiled as it stands.

At the same instant arrivals come first, then completions, then the batcher's timer.
"""

from __future__ import annotations

from typing import NamedTuple

from tritune.model.requests import Bools, Floats, Int64
from tritune.twin.engine.rules import arrival, completion, timer
from tritune.twin.engine.state import (
    BUSY_CLOCK,
    CANCELLED_AT,
    DELAY_CLOCK,
    DROPPED,
    FIRST,
    IDLE,
    ITEMS,
    JOINED,
    JOINED_BUSY,
    NEVER,
    NEXT,
    NONE,
    PAYLOAD_ITEMS,
    REQUESTS,
    SHAPE,
    STARTED,
    Rules,
    State,
)


class Plan(NamedTuple):
    """Per request, in order of arrival: when it reaches the scheduler and what it is.

    Closed loop (`concurrency` > 0): only the first `concurrency` instants are given; an answer at t brings
    the next request at t + `again_ns`, not before its instance is free.
    """

    arrive_ns: Int64
    items: Int64
    shape: Int64
    level: Int64
    timeout_ns: Int64
    cancelled_at_ns: Int64
    concurrency: int
    again_ns: int


class Speed(NamedTuple):
    """How long executions take; the last three by number of the batch, in order of start.

    Batch k of b items with a other instances active runs service_ns[b] x (1 + contention[b] x a) x noise[k]
    + stalls_ns[k], or until ends_ns[k] where that is given; its instance is free turnaround_ns later.
    """

    service_ns: Floats
    contention: Floats
    turnaround_ns: int
    noise: Floats
    stalls_ns: Int64
    lost: Bools
    ends_ns: Int64


class Record(NamedTuple):
    """What happened. Per request: start_ns to outcome; per batch: the rest. Filled by `run`."""

    start_ns: Int64
    done_ns: Int64
    joined_ns: Int64
    batch: Int64
    outcome: Int64
    batch_wait_ns: Int64
    busy_wait_ns: Int64
    formed_wait_ns: Int64
    batch_start_ns: Int64
    batch_done_ns: Int64
    batch_items: Int64
    batch_requests: Int64
    batch_instance: Int64
    batches: Int64


def service_time(speed: Speed, items: int, others: int, k: int, now: int) -> int:
    """How long batch k runs, ns."""
    if k < speed.ends_ns.shape[0]:
        return max(0, speed.ends_ns[k] - now)
    mean = speed.service_ns[items] * (1.0 + speed.contention[items] * others)
    return int(mean * speed.noise[k] + 0.5) + speed.stalls_ns[k]


def begin(rules: Rules, st: State, now: int, speed: Speed, record: Record, free_at: Int64, i: int) -> int:
    """Instance i executes its payload: note what is known of it now; how many requests it holds."""
    p = st.running[i]
    k = record.batches[0]
    record.batches[0] = k + 1
    items = st.payload[p, PAYLOAD_ITEMS]
    done = now + service_time(speed, items, rules.instances - st.s[IDLE] - 1, k, now)
    free_at[i] = done + speed.turnaround_ns
    record.batch_start_ns[k] = now
    record.batch_done_ns[k] = done
    record.batch_items[k] = items
    record.batch_requests[k] = st.payload[p, REQUESTS]
    record.batch_instance[k] = i
    busy, delay = st.s[BUSY_CLOCK], st.s[DELAY_CLOCK]
    r = st.payload[p, FIRST]
    while r != NONE:
        record.start_ns[r] = now
        record.done_ns[r] = done
        record.joined_ns[r] = st.request[r, JOINED]
        record.batch[r] = k
        record.batch_wait_ns[r] += delay
        record.formed_wait_ns[r] = busy - st.request[r, JOINED_BUSY]
        record.busy_wait_ns[r] += busy - record.formed_wait_ns[r]
        r = st.request[r, NEXT]
    return st.payload[p, REQUESTS]


def accept(
    rules: Rules, st: State, plan: Plan, record: Record, now: int, row: int, q: int, cancelled_at_ns: int
) -> int:
    """Planned request q arrives at the scheduler, as this row; when the timer is due."""
    st.request[row, ITEMS] = plan.items[q]
    st.request[row, SHAPE] = plan.shape[q]
    st.request[row, CANCELLED_AT] = cancelled_at_ns
    due = arrival(rules, st, now, row, plan.level[q], plan.timeout_ns[q])
    record.batch_wait_ns[row] -= st.s[DELAY_CLOCK]
    record.busy_wait_ns[row] -= st.s[BUSY_CLOCK]
    return due


def refuse(st: State, record: Record, now: int, j: int) -> int:
    """Note the j-th of those that are answered without execution now; its row."""
    row = st.dropped[j, 0]
    record.outcome[row] = st.dropped[j, 1]
    record.done_ns[row] = now
    record.batch_wait_ns[row] += st.s[DELAY_CLOCK]
    record.busy_wait_ns[row] += st.s[BUSY_CLOCK]
    return row


def first_to_free(free_at: Int64) -> int:
    """The instance that becomes free first; the lowest number of several."""
    first = 0
    for j in range(1, free_at.shape[0]):
        if free_at[j] < free_at[first]:
            first = j
    return first


def run(rules: Rules, st: State, plan: Plan, speed: Speed, record: Record, free_at: Int64) -> None:
    """Simulate until every request is done or refused."""
    n = plan.arrive_ns.shape[0]
    closed = plan.concurrency > 0
    ready = min(plan.concurrency, n) if closed else n
    arrived = 0
    finished = 0
    completed = 0
    due = NEVER
    first_free = 0
    while finished < n:
        arrives = plan.arrive_ns[arrived] if arrived < ready else NEVER
        frees = free_at[first_free]
        if arrives <= frees and arrives <= due:
            now = arrives
            due = accept(rules, st, plan, record, now, arrived, arrived, plan.cancelled_at_ns[arrived])
            arrived += 1
        elif frees <= due:
            now = frees
            i = first_free
            if closed:
                # Not before those that a refusal has brought in between.
                again = max(now, now - speed.turnaround_ns + plan.again_ns, plan.arrive_ns[ready - 1])
                for _ in range(min(st.payload[st.running[i], REQUESTS], n - ready)):
                    plan.arrive_ns[ready] = again
                    ready += 1
            free_at[i] = NEVER
            due = completion(rules, st, now, i, speed.lost[completed])
            completed += 1
        else:
            now = due
            due = timer(rules, st, now)
        for j in range(st.s[STARTED]):
            finished += begin(rules, st, now, speed, record, free_at, st.started[j])
        st.s[STARTED] = 0
        for j in range(st.s[DROPPED]):
            refuse(st, record, now, j)
            finished += 1
            if closed and ready < n:
                plan.arrive_ns[ready] = now + plan.again_ns
                ready += 1
        st.s[DROPPED] = 0
        first_free = first_to_free(free_at)
