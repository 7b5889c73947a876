"""The virtual clock with clients that give up, retry and keep a budget. Compiled as it stands.

The scheduler's events and rules are those of `driver.run`; added is what happens at the clients. Of what
happens at the same instant, this comes first: requests are sent as planned; then, at the server, arrivals,
completions, the batcher's timer; then, at the clients, answers and refusals in the order in which they left
the server, attempts that are given up in the order in which they were sent, and last the retries (and a
closed loop's next requests) in the order in which they were decided on. So an answer that comes just when
its client gives up still counts, as it does without retries.

A client decides on a retry, and takes its token, at the instant of the failure; it waits afterwards.
"""

from __future__ import annotations

from typing import NamedTuple

from tritune.model.requests import Int64
from tritune.twin.engine.driver import Plan, Record, Speed, accept, begin, first_to_free, refuse
from tritune.twin.engine.rules import completion, timer
from tritune.twin.engine.state import DROPPED, FIRST, NEVER, NEXT, NONE, STARTED, Rules, State

# What became of an attempt, as its client sees it.
WAITING, ANSWERED, REFUSED, GIVEN_UP = range(4)
# What a client learns or does. The subject is the first row of the executed batch; the refused row; the
# request to try again, NONE for a closed loop's next one.
ANSWER, REFUSAL, SEND = range(3)
# Columns of Clients.calendar, and what puts sends behind all else of their instant.
AT, ORDER, KIND, SUBJECT = range(4)
LATER = 2**60
# Slots of Clients.s.
(
    SENT,  # attempts
    BEGUN,  # requests that were sent at least once
    PROMISED,  # those, and the ones that are planned or that a closed loop is about to send
    ENDED,  # requests
    TOKENS,  # in millionths, so that sums are exact
    FIRST_WAITING,  # no attempt before this one is waited for
    EVENTS,  # entries of the calendar
    EVER,  # that there ever were
    SLOTS,
) = range(9)
TOKEN = 1_000_000


class Clients(NamedTuple):
    """What clients do, and what becomes of their requests and attempts.

    Given, by request: `planned_ns` (closed loop: filled in), and `backoff_ns` by the number of the retry.
    Filled in: `attempts` by request; by attempt (row, in order of sending) `request`, `attempt`, `sent_ns`
    and `status`. `calendar` is a heap, the earliest event first. timeout_ns 0: they never give up;
    tokens_each -1: there is no budget.
    """

    planned_ns: Int64
    backoff_ns: Int64
    timeout_ns: int
    retries: int
    cancels: bool
    tokens_each: int
    tokens_most: int
    send_ns: int
    reply_ns: int
    pause_ns: int
    attempts: Int64
    request: Int64
    attempt: Int64
    sent_ns: Int64
    status: Int64
    calendar: Int64
    s: Int64


def earlier(c: Clients, a: int, b: int) -> bool:
    """Whether entry a of the calendar comes before entry b."""
    by = AT if c.calendar[a, AT] != c.calendar[b, AT] else ORDER
    return bool(c.calendar[a, by] < c.calendar[b, by])


def swap(c: Clients, a: int, b: int) -> None:
    """Exchange two entries of the calendar."""
    for j in range(4):
        kept = c.calendar[a, j]
        c.calendar[a, j] = c.calendar[b, j]
        c.calendar[b, j] = kept


def note(c: Clients, at: int, kind: int, subject: int) -> None:
    """Put an event into the calendar."""
    i = c.s[EVENTS]
    c.calendar[i, AT] = at
    c.calendar[i, ORDER] = c.s[EVER] + LATER if kind == SEND else c.s[EVER]
    c.calendar[i, KIND] = kind
    c.calendar[i, SUBJECT] = subject
    c.s[EVENTS] += 1
    c.s[EVER] += 1
    while i > 0 and earlier(c, i, (i - 1) // 2):
        swap(c, i, (i - 1) // 2)
        i = (i - 1) // 2


def strike(c: Clients) -> None:
    """Take the first event out of the calendar; it stands behind the last one for the caller to read."""
    c.s[EVENTS] -= 1
    last = c.s[EVENTS]
    swap(c, 0, last)
    i = 0
    while 2 * i + 1 < last:
        child = 2 * i + 1
        if child + 1 < last and earlier(c, child + 1, child):
            child += 1
        if not earlier(c, child, i):
            break
        swap(c, child, i)
        i = child


def send(c: Clients, now: int, q: int) -> None:
    """Request q is sent: the first time or again."""
    row = c.s[SENT]
    c.s[SENT] += 1
    c.request[row] = q
    c.attempt[row] = c.attempts[q]
    c.attempts[q] += 1
    c.sent_ns[row] = now
    c.status[row] = WAITING


def over(c: Clients, now: int, closed: bool) -> None:
    """A request has ended; in a closed loop the next one is sent after the pause."""
    c.s[ENDED] += 1
    if closed and c.s[PROMISED] < c.attempts.shape[0]:
        c.s[PROMISED] += 1
        note(c, now + c.pause_ns, SEND, NONE)


def fail(c: Clients, now: int, row: int, status: int, closed: bool) -> None:
    """An attempt was refused or given up: the request is tried again, or has failed."""
    c.status[row] = status
    k = c.attempt[row]
    if k < c.retries and (c.tokens_each < 0 or c.s[TOKENS] >= TOKEN):
        if c.tokens_each >= 0:
            c.s[TOKENS] -= TOKEN
        note(c, now + c.backoff_ns[c.request[row], k], SEND, c.request[row])
    else:
        over(c, now, closed)


def answer(c: Clients, st: State, now: int, first: int, closed: bool) -> None:
    """The answers of one batch reach their clients; whoever has given up does not hear them."""
    r = first
    while r != NONE:
        if c.status[r] == WAITING:
            c.status[r] = ANSWERED
            c.s[TOKENS] = min(c.s[TOKENS] + c.tokens_each, c.tokens_most)
            over(c, now, closed)
        r = st.request[r, NEXT]


def next_given_up(c: Clients) -> int:
    """When the next attempt is given up. All wait equally long, so that is the one sent first."""
    if c.timeout_ns == 0:
        return NEVER
    while c.s[FIRST_WAITING] < c.s[SENT] and c.status[c.s[FIRST_WAITING]] != WAITING:
        c.s[FIRST_WAITING] += 1
    return c.sent_ns[c.s[FIRST_WAITING]] + c.timeout_ns if c.s[FIRST_WAITING] < c.s[SENT] else NEVER


def next_at_clients(c: Clients) -> int:
    """When something happens at the clients next, planned requests left out."""
    return min(next_given_up(c), c.calendar[0, AT] if c.s[EVENTS] > 0 else NEVER)


def at_clients(c: Clients, st: State, now: int, closed: bool) -> None:
    """Let one such event happen; `now` is its instant."""
    noted = c.s[EVENTS] > 0 and c.calendar[0, AT] == now
    if noted and (c.calendar[0, KIND] != SEND or next_given_up(c) > now):
        strike(c)
        kind, subject = c.calendar[c.s[EVENTS], KIND], c.calendar[c.s[EVENTS], SUBJECT]
        if kind == ANSWER:
            answer(c, st, now, subject, closed)
        elif kind == SEND:
            if subject == NONE:
                subject = c.s[BEGUN]
                c.s[BEGUN] += 1
                c.planned_ns[subject] = now
            send(c, now, subject)
        elif c.status[subject] == WAITING:
            fail(c, now, subject, REFUSED, closed)
    else:
        fail(c, now, c.s[FIRST_WAITING], GIVEN_UP, closed)


def run_clients(
    rules: Rules, st: State, plan: Plan, speed: Speed, record: Record, free_at: Int64, c: Clients
) -> None:
    """Simulate until every request has ended and the server is done with every attempt."""
    n = c.attempts.shape[0]
    closed = plan.concurrency > 0
    ready = min(plan.concurrency, n) if closed else n
    c.s[PROMISED] = ready
    arrived = 0
    finished = 0
    completed = 0
    due = NEVER
    first_free = 0
    while c.s[ENDED] < n or finished < c.s[SENT]:
        planned = c.planned_ns[c.s[BEGUN]] if c.s[BEGUN] < ready else NEVER
        arrives = c.sent_ns[arrived] + c.send_ns if arrived < c.s[SENT] else NEVER
        frees = free_at[first_free]
        client = next_at_clients(c)
        if planned <= arrives and planned <= frees and planned <= due and planned <= client:
            send(c, planned, c.s[BEGUN])
            c.s[BEGUN] += 1
            continue
        if client < arrives and client < frees and client < due:
            at_clients(c, st, client, closed)
            continue
        if arrives <= frees and arrives <= due:
            now = arrives
            left = c.timeout_ns > 0 and c.cancels
            cancelled_at = now + c.timeout_ns if left else NEVER
            due = accept(rules, st, plan, record, now, arrived, c.request[arrived], cancelled_at)
            arrived += 1
        elif frees <= due:
            now = frees
            free_at[first_free] = NEVER
            due = completion(rules, st, now, first_free, speed.lost[completed])
            completed += 1
        else:
            now = due
            due = timer(rules, st, now)
        for j in range(st.s[STARTED]):
            i = st.started[j]
            k = record.batches[0]
            finished += begin(rules, st, now, speed, record, free_at, i)
            note(c, record.batch_done_ns[k] + c.reply_ns, ANSWER, st.payload[st.running[i], FIRST])
        st.s[STARTED] = 0
        for j in range(st.s[DROPPED]):
            note(c, now + c.reply_ns, REFUSAL, refuse(st, record, now, j))
            finished += 1
        st.s[DROPPED] = 0
        first_free = first_to_free(free_at)
