"""Triton's dynamic batcher, dequeue and default scheduler, rule by rule, as functions of state and time.

Three events drive them: `arrival`, `completion`, `timer`. None knows where time comes from: each is given
`now` (ns), changes the state, announces in `State.started` which instances must begin to execute and in
`State.dropped` which requests are answered without execution, and returns when `timer` is due next (NEVER:
not at all). All threads of Triton run here in one instant, except that the batcher thread takes
`Rules.wake_ns` to wake up. Nothing is drawn at random.

Each function names the source it mirrors: file:function under triton-inference-server/core `src/`, commit
73aad7c, where batching is what it was in r24.10. `Rules` holds what other releases do otherwise
(`engine/setting.py`). The functions are compiled as they stand (`engine/compiled.py`), so they use integers
and arrays only.
"""

from __future__ import annotations

# isort: off
# fmt: off
from tritune.twin.engine.state import (
    BUSY_CLOCK, CANCELLED, CANCELLED_AT, CLOCK, CURRENT, CURSOR_AFTER, CURSOR_LEVEL, CURSOR_VALID,
    DEADLINE, DELAY_CLOCK, DROPPED, ENQUEUED, EXECUTING, FIRST, FREE_PAYLOAD, HEAD, HELD, IDLE, ITEMS, JOINED,
    JOINED_BUSY, LAST, MARKED, NEVER, NEXT, NEXT_PAYLOAD, NEXT_PREFERRED, NONE, OLDEST, PAYLOAD_ITEMS,
    PENDING, PENDING_ITEMS, PENDING_OLDEST, PENDING_TIMEOUT, PHASE, QUEUE_FULL, QUEUED, QUEUED_ITEMS,
    READY, READY_FIRST, READY_LAST, RELEASED, REQUESTS, SATURATED, SCHEDULED, SHAPE, SIZE, SLEEP,
    SLEEP_DELAY, SLEEP_EMPTY, SLEEP_SLOT, SLEEP_UNTIL, SPIN, STARTED, TAIL, TIMED_OUT, UNINITIALIZED,
    UNUSED_PAYLOAD, WAKE_AT, Rules, State,
)
# fmt: on
# isort: on

# dynamic_batch_scheduler.cc:BatcherThread, default_wait_microseconds.
TICK_NS = 500_000_000


def run_clocks(st: State, now: int) -> None:
    """Let the clocks of the queue parts run until now (ours, not Triton's)."""
    s = st.s
    if s[IDLE] == 0:
        s[BUSY_CLOCK] += now - s[CLOCK]
    elif s[SLEEP] == SLEEP_DELAY:
        s[DELAY_CLOCK] += now - s[CLOCK]
    s[CLOCK] = now


def new_payload(st: State) -> int:
    """An empty payload (rate_limiter.cc:GetPayload, payload.cc:Reset)."""
    s = st.s
    p = s[FREE_PAYLOAD]
    if p == NONE:
        p = s[UNUSED_PAYLOAD]
        s[UNUSED_PAYLOAD] += 1
    else:
        s[FREE_PAYLOAD] = st.payload[p, NEXT_PAYLOAD]
    st.payload[p, FIRST] = NONE
    st.payload[p, LAST] = NONE
    st.payload[p, PAYLOAD_ITEMS] = 0
    st.payload[p, REQUESTS] = 0
    st.payload[p, OLDEST] = NEVER
    st.payload[p, PHASE] = UNINITIALIZED
    st.payload[p, MARKED] = 0
    st.payload[p, NEXT_PAYLOAD] = NONE
    return p


def release_payload(st: State, p: int) -> None:
    """Take a payload back (rate_limiter.cc:PayloadRelease)."""
    st.payload[p, PHASE] = RELEASED
    st.payload[p, NEXT_PAYLOAD] = st.s[FREE_PAYLOAD]
    st.s[FREE_PAYLOAD] = p


def add_request(st: State, now: int, p: int, r: int) -> None:
    """Append a request to a payload (payload.cc:AddRequest); OLDEST is its batcher_start_ns_."""
    request, payload = st.request, st.payload
    request[r, JOINED] = now
    request[r, JOINED_BUSY] = st.s[BUSY_CLOCK]
    request[r, NEXT] = NONE
    if payload[p, FIRST] == NONE:
        payload[p, FIRST] = r
    else:
        request[payload[p, LAST], NEXT] = r
    payload[p, LAST] = r
    payload[p, PAYLOAD_ITEMS] += request[r, ITEMS]
    payload[p, REQUESTS] += 1
    payload[p, OLDEST] = min(payload[p, OLDEST], request[r, ENQUEUED])


def slot_available(rules: Rules, st: State) -> bool:
    """Whether the batcher may take requests from Q (rate_limiter.cc:PayloadSlotAvailable).

    Eager (SupportPrefetching): fewer than 2 payloads per instance wait in R, whatever executes. Lazy: an
    instance's thread waits for work (WaitingConsumerCount, which EnqueuePayload lowers at once).
    """
    if rules.eager:
        return st.s[READY] < 2 * rules.instances
    return st.s[IDLE] > st.s[READY]


def enqueue_payload(st: State, p: int) -> None:
    """Append a payload to R (rate_limiter.cc:EnqueuePayload)."""
    s = st.s
    st.payload[p, PHASE] = SCHEDULED
    st.payload[p, NEXT_PAYLOAD] = NONE
    if s[READY] == 0:
        s[READY_FIRST] = p
    else:
        st.payload[s[READY_LAST], NEXT_PAYLOAD] = p
    s[READY_LAST] = p
    s[READY] += 1


def dispatch(rules: Rules, st: State, now: int) -> bool:
    """Idle instances take what is in R; whether one did (rate_limiter.cc:DequeuePayload).

    notify_one wakes any of the waiting threads; identical instances make that choice invisible, and the
    lowest number is taken here.
    """
    s = st.s
    taken = False
    i = 0
    while s[IDLE] > 0 and s[READY] > 0:
        while st.running[i] != NONE:
            i += 1
        st.running[i] = dequeue(rules, st, now)
        s[IDLE] -= 1
        st.started[s[STARTED]] = i
        s[STARTED] += 1
        taken = True
    return taken


def pop_ready(st: State) -> None:
    """R without its first payload."""
    st.s[READY_FIRST] = st.payload[st.s[READY_FIRST], NEXT_PAYLOAD]
    st.s[READY] -= 1


def dequeue(rules: Rules, st: State, now: int) -> int:
    """The payload to execute: the first of R, with those behind it that fit (instance_queue.cc:Dequeue).

    Merging needs a delay, and a following payload whose oldest request is older than the delay. That one
    is set EXECUTING before its size is tested: if it does not fit it stays in R and grows no more.
    """
    s, payload = st.s, st.payload
    p = s[READY_FIRST]
    pop_ready(st)
    payload[p, PHASE] = EXECUTING
    if rules.delay_ns == 0 or rules.max_batch == 1 or payload[p, MARKED]:
        return p
    while s[READY] > 0:
        front = s[READY_FIRST]
        if payload[front, MARKED] or now - payload[front, OLDEST] <= rules.delay_ns:
            break
        payload[front, PHASE] = EXECUTING
        if payload[p, PAYLOAD_ITEMS] + payload[front, PAYLOAD_ITEMS] > rules.max_batch:
            break
        if not equal_inputs(rules, st, payload[p, FIRST], payload[front, FIRST]):
            break
        # payload.cc:MergePayload
        pop_ready(st)
        st.request[payload[p, LAST], NEXT] = payload[front, FIRST]
        payload[p, LAST] = payload[front, LAST]
        payload[p, PAYLOAD_ITEMS] += payload[front, PAYLOAD_ITEMS]
        payload[p, REQUESTS] += payload[front, REQUESTS]
        release_payload(st, front)
    return p


def equal_inputs(rules: Rules, st: State, first: int, r: int) -> bool:
    """Whether two requests may share a batch (scheduler_utils.cc:RequiredEqualInputs::HasEqualInputs)."""
    return not rules.inputs_compared or st.request[first, SHAPE] == st.request[r, SHAPE]


def drop(st: State, r: int, reason: int) -> None:
    """Announce that a request is answered with an error and not executed."""
    st.dropped[st.s[DROPPED], 0] = r
    st.dropped[st.s[DROPPED], 1] = reason
    st.s[DROPPED] += 1


def hold_back(st: State, announced: int) -> None:
    """Announce those that were dropped since then when the batcher thread next wakes up.

    dynamic_batch_scheduler.cc:BatcherThread answers what its scan dropped (FinishRejectedCancelledRequests)
    at the end of a pass, behind the wait for the delay.
    """
    s = st.s
    for j in range(announced, s[DROPPED]):
        st.held[s[HELD], 0] = st.dropped[j, 0]
        st.held[s[HELD], 1] = st.dropped[j, 1]
        s[HELD] += 1
    s[DROPPED] = announced


def release_held(st: State) -> None:
    """Announce what was held back."""
    for j in range(st.s[HELD]):
        drop(st, st.held[j, 0], st.held[j, 1])
    st.s[HELD] = 0


def unlink(st: State, level: int, before: int, r: int) -> None:
    """Take a request out of the middle of its level's queue; `before` is NONE for the first."""
    after = st.request[r, NEXT]
    if before == NONE:
        st.level[level, HEAD] = after
    else:
        st.request[before, NEXT] = after
    if after == NONE:
        st.level[level, TAIL] = before
    st.level[level, SIZE] -= 1
    st.s[QUEUED] -= 1


def push(rules: Rules, st: State, now: int, r: int, level: int, timeout_ns: int) -> bool:
    """Append to Q; false where the level is full (scheduler_utils.cc:PriorityQueue, PolicyQueue::Enqueue)."""
    queue, request = st.level, st.request
    if rules.max_queue_size[level] > 0 and queue[level, SIZE] >= rules.max_queue_size[level]:
        return False
    limit = rules.default_timeout_ns[level]
    # A request's own timeout counts only where it is shorter than a default there is.
    if rules.timeout_override[level] and 0 < timeout_ns < limit:
        limit = timeout_ns
    request[r, DEADLINE] = now + limit if limit > 0 else NEVER
    request[r, NEXT] = NONE
    if queue[level, TAIL] == NONE:
        queue[level, HEAD] = r
    else:
        request[queue[level, TAIL], NEXT] = r
    queue[level, TAIL] = r
    queue[level, SIZE] += 1
    st.s[QUEUED] += 1
    if level < st.s[CURSOR_LEVEL]:
        st.s[CURSOR_VALID] = 0
    return True


def arrival(rules: Rules, st: State, now: int, r: int, level: int, timeout_ns: int) -> int:
    """A request enters the scheduler (dynamic_batch_scheduler.cc:Enqueue)."""
    run_clocks(st, now)
    s = st.s
    st.request[r, ENQUEUED] = now
    if not rules.dynamic:
        p = new_payload(st)
        add_request(st, now, p, r)
        enqueue_payload(st, p)
        dispatch(rules, st, now)
        return NEVER
    # Counted before a refusal and not taken back then; it only wakes the batcher more often.
    s[QUEUED_ITEMS] += st.request[r, ITEMS]
    if not push(rules, st, now, r, level, timeout_ns):
        drop(st, r, QUEUE_FULL)
        return s[WAKE_AT]
    wake = slot_available(rules, st)
    if not rules.shapes_enforced:
        wake = wake and (is_closed(st) or s[QUEUED_ITEMS] >= s[NEXT_PREFERRED])
    if wake:
        notify(rules, st, now)
    return s[WAKE_AT]


def completion(rules: Rules, st: State, now: int, instance: int, lost: bool) -> int:
    """An instance has executed its payload and takes the next (backend_model_instance.cc:BackendThread).

    The thread notifies the batcher (payload.cc:Execute) before it waits for work again. `lost`: the
    batcher is faster, finds no waiting thread and sleeps on; only lazy dispatch from 24.03 loses that way.
    """
    run_clocks(st, now)
    s = st.s
    could_before = slot_available(rules, st)
    release_payload(st, st.running[instance])
    st.running[instance] = NONE
    s[IDLE] += 1
    dispatch(rules, st, now)
    if not rules.dynamic:
        return NEVER
    if lost and rules.ticks and not rules.eager and not could_before:
        lose_wakeup(rules, st, now)
    else:
        notify(rules, st, now)
    return s[WAKE_AT]


def timer(rules: Rules, st: State, now: int) -> int:
    """The time that an event returned has come: the batcher thread wakes up."""
    run_clocks(st, now)
    wake_up(rules, st, now)
    return st.s[WAKE_AT]


def is_closed(st: State) -> bool:
    """Whether the open payload takes no more (payload_saturated_, or IsStaleState of its state)."""
    return st.s[SATURATED] == 1 or st.payload[st.s[CURRENT], PHASE] >= EXECUTING


def notify(rules: Rules, st: State, now: int) -> None:
    """cv_.notify_one: the batcher thread wakes up after wake_ns, at once where it never slept."""
    s = st.s
    at = now if s[SLEEP] == SPIN else now + rules.wake_ns
    if at < s[WAKE_AT]:
        s[WAKE_AT] = at
    if s[WAKE_AT] <= now:
        wake_up(rules, st, now)


def lose_wakeup(rules: Rules, st: State, now: int) -> None:
    """The batcher ran before the finished instance waited for work.

    dynamic_batch_scheduler.cc:WaitForPayloadSlotAvailable. Where it waited for a slot it goes on waiting
    until its 500 ms are over; else it begins to, if there are requests. A wake-up that is already under
    way comes later and finds the slot.
    """
    s = st.s
    if s[SLEEP] == SLEEP_SLOT or s[WAKE_AT] < s[SLEEP_UNTIL]:
        return
    release_held(st)
    sleep(rules, st, SLEEP_EMPTY if s[QUEUED] == 0 else SLEEP_SLOT, now + TICK_NS)


def sleep(rules: Rules, st: State, kind: int, until: int) -> None:
    """The batcher thread waits on cv_."""
    st.s[SLEEP] = kind
    st.s[SLEEP_UNTIL] = until
    st.s[WAKE_AT] = until + rules.wake_ns if until < NEVER else NEVER


def wake_up(rules: Rules, st: State, now: int) -> None:
    """The batcher thread runs on (dynamic_batch_scheduler.cc:WaitForPayloadSlotAvailable, BatcherThread)."""
    s = st.s
    if s[SLEEP] == SLEEP_SLOT and not slot_available(rules, st):
        until = s[SLEEP_UNTIL]
        if now >= until:
            reject_timed_out(st, now)
            until = now + TICK_NS
        sleep(rules, st, SLEEP_SLOT, until)
    else:
        batcher_thread(rules, st, now)


def reject_timed_out(st: State, now: int) -> None:
    """Refuse all that waited too long, once per 500 ms (scheduler_utils.cc:RejectTimeoutRequests)."""
    for level in range(st.level.shape[0]):
        before, r = NONE, st.level[level, HEAD]
        while r != NONE:
            after = st.request[r, NEXT]
            if now > st.request[r, DEADLINE]:
                unlink(st, level, before, r)
                drop(st, r, TIMED_OUT)
                st.s[CURSOR_VALID] = 0
            else:
                before = r
            r = after


def batcher_thread(rules: Rules, st: State, now: int) -> None:
    """Form payloads until there is a reason to wait (dynamic_batch_scheduler.cc:BatcherThread).

    An idle instance takes longer to wake up than the batcher to go through this loop once more, so it takes
    what was enqueued when the batcher rests, and notifies it again (rate_limiter.cc:DequeuePayload).
    """
    s = st.s
    while True:
        release_held(st)
        if is_closed(st):
            s[CURRENT] = new_payload(st)
            s[SATURATED] = 0
            s[NEXT_PREFERRED] = 0
        if s[QUEUED] == 0:
            kind, until = SLEEP_EMPTY, now + TICK_NS
        elif not slot_available(rules, st):
            kind, until = SLEEP_SLOT, now + TICK_NS if rules.ticks else NEVER
        else:
            announced = s[DROPPED]
            wait_ns = get_dynamic_batch(rules, st, now)
            if wait_ns > 0:
                hold_back(st, announced)
                kind, until = SLEEP_DELAY, now + wait_ns
            elif s[PENDING] > 0:
                take_pending(st, now)
                if st.payload[s[CURRENT], PHASE] == UNINITIALIZED:
                    enqueue_payload(st, s[CURRENT])
                continue
            elif s[QUEUED] > 0 and not is_closed(st):
                # The next request has another shape than the open payload, which only the payload knows
                # (MarkSaturated): the thread turns in this loop until an instance takes that payload.
                kind, until = SPIN, NEVER
            else:
                continue
        if not dispatch(rules, st, now):
            sleep(rules, st, kind, until)
            return


def take_pending(st: State, now: int) -> None:
    """Move the pending batch from Q to the open payload (BatcherThread; PriorityQueue::Dequeue)."""
    s = st.s
    level = 0
    for _ in range(s[PENDING]):
        while st.level[level, SIZE] == 0:
            level += 1
        r = st.level[level, HEAD]
        unlink(st, level, NONE, r)
        add_request(st, now, s[CURRENT], r)
    s[QUEUED_ITEMS] -= s[PENDING_ITEMS]
    s[PENDING_ITEMS] = 0
    s[PENDING] = 0
    s[CURSOR_VALID] = 0


def apply_policy_at_cursor(rules: Rules, st: State, now: int) -> int:
    """The next request after the pending batch, NONE at the end (PriorityQueue::ApplyPolicyAtCursor).

    Requests in between that were cancelled or whose timeout has passed are dropped: here, not earlier.
    """
    s = st.s
    while True:
        level = s[CURSOR_LEVEL]
        before = s[CURSOR_AFTER]
        r = st.level[level, HEAD] if before == NONE else st.request[before, NEXT]
        if r == NONE:
            if s[QUEUED] == s[PENDING]:
                return NONE
            s[CURSOR_LEVEL] = level + 1
            s[CURSOR_AFTER] = NONE
            continue
        if rules.cancels and st.request[r, CANCELLED_AT] <= now:
            reason = CANCELLED
        elif now > st.request[r, DEADLINE]:
            reason = TIMED_OUT
        else:
            return r
        s[QUEUED_ITEMS] -= st.request[r, ITEMS]
        unlink(st, level, before, r)
        drop(st, r, reason)


def get_dynamic_batch(rules: Rules, st: State, now: int) -> int:
    """Choose the pending batch; how long to wait before taking it, ns.

    dynamic_batch_scheduler.cc:GetDynamicBatch. 0: take PENDING requests now (there may be none). The wait
    is in whole microseconds, rounded down.
    """
    s = st.s
    # PriorityQueue::IsCursorValid is false wherever no scanned request has a timeout.
    if not (s[CURSOR_VALID] and s[PENDING_TIMEOUT] < NEVER and now < s[PENDING_TIMEOUT]):
        s[CURSOR_VALID] = 1
        s[CURSOR_LEVEL] = 0
        s[CURSOR_AFTER] = NONE
        s[PENDING] = 0
        s[PENDING_ITEMS] = 0
        s[PENDING_OLDEST] = NEVER
        s[PENDING_TIMEOUT] = NEVER
    best = 0
    best_pending = 0
    send_now = False
    there = st.payload[s[CURRENT], PAYLOAD_ITEMS]
    first = st.payload[s[CURRENT], FIRST]
    if first == NONE and s[PENDING] > 0:
        first = first_queued(st)
    r = apply_policy_at_cursor(rules, st, now)
    while r != NONE:
        size = st.request[r, ITEMS]
        if first == NONE:
            first = r
        else:
            together = there + s[PENDING_ITEMS] + size
            if together > rules.max_preferred and best == 0:
                best = s[PENDING_ITEMS]
                best_pending = s[PENDING]
                s[SATURATED] = 1
            if together > rules.max_batch:
                send_now = True
                break
            if not equal_inputs(rules, st, first, r):
                st.payload[s[CURRENT], MARKED] = 1
                send_now = True
                break
        # PriorityQueue::AdvanceCursor
        s[PENDING_ITEMS] += size
        s[PENDING] += 1
        s[PENDING_OLDEST] = min(s[PENDING_OLDEST], st.request[r, ENQUEUED])
        s[PENDING_TIMEOUT] = min(s[PENDING_TIMEOUT], st.request[r, DEADLINE])
        s[CURSOR_AFTER] = r
        r = apply_policy_at_cursor(rules, st, now)
        if rules.is_preferred[there + s[PENDING_ITEMS]]:
            best = s[PENDING_ITEMS]
            best_pending = s[PENDING]

    # The clock of the delay is the age of the oldest request still in Q; what is in the payload is past it.
    age = now - s[PENDING_OLDEST]
    exceeded = rules.delay_ns > 0 and (s[PENDING] == 0 or age >= rules.delay_ns)
    if best != 0 and not exceeded:
        if rules.delay_ns == 0:
            s[SATURATED] = 1
        s[PENDING_ITEMS] = best
        s[PENDING] = best_pending
        return 0
    if s[PENDING] == 0:
        return 0
    together = there + s[PENDING_ITEMS]
    if send_now or together >= rules.max_preferred:
        s[SATURATED] = 1
        return 0
    if exceeded or rules.delay_ns == 0:
        return 0
    s[NEXT_PREFERRED] = rules.next_preferred[together]
    if s[NEXT_PREFERRED] != 0:
        s[NEXT_PREFERRED] -= there
    # A scheduled payload that is open and not of a preferred size takes what there is.
    if not s[SATURATED] and there != 0 and not rules.is_preferred[there]:
        return 0
    wait_ns = rules.delay_ns - age
    if s[PENDING_TIMEOUT] < NEVER:
        wait_ns = min(wait_ns, s[PENDING_TIMEOUT] - now) if now <= s[PENDING_TIMEOUT] else 1000
    return wait_ns // 1000 * 1000


def first_queued(st: State) -> int:
    """The first request of Q."""
    level = 0
    while st.level[level, SIZE] == 0:
        level += 1
    return st.level[level, HEAD]
