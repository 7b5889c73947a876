"""One load against one setting in virtual time: what happens to every request and in every batch."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tritune.errors import UsageError
from tritune.model.client import ClientPolicy
from tritune.model.requests import Bools, Int64
from tritune.twin.engine import clients, driver
from tritune.twin.engine.client_plan import acts, client_plan
from tritune.twin.engine.clients import GIVEN_UP, SENT, Clients
from tritune.twin.engine.compiled import compiled, compiled_clients
from tritune.twin.engine.driver import Plan, Record, Speed
from tritune.twin.engine.setting import Setting, rules_of
from tritune.twin.engine.simulated import Outcome, Simulated
from tritune.twin.engine.state import NEVER, new_state
from tritune.twin.engine.timing import Draws, Timing, draw, lost_wakeups

__all__ = ["ClosedLoop", "Load", "Outcome", "Requests", "Simulated", "simulate"]

Column = npt.ArrayLike


@dataclass(frozen=True)
class Requests:
    """Open loop: planned instants, ns, in order, and what each request is; one value stands for all.

    shape: shape class, equal numbers may share a batch. priority: as sent (0 = none). timeout_ns: the
    request's own timeout (0 = none). give_up_ns: the client leaves so long after the planned instant
    (0 = never); `cancels`: the server hears of it (gRPC), otherwise it executes the request all the same.
    client: what all clients do about timeouts and refusals; not beside give_up_ns.
    """

    planned_ns: Column
    items: Column = 1
    shape: Column = 0
    priority: Column = 0
    timeout_ns: Column = 0
    give_up_ns: Column = 0
    cancels: bool = False
    client: ClientPolicy | None = None


@dataclass(frozen=True)
class ClosedLoop:
    """`count` requests, `concurrency` at a time; the end of each brings the next after `pause_ns`.

    With a client that gives up or retries, the end is that of the request, not of an attempt.
    """

    concurrency: int
    count: int
    pause_ns: int = 0
    items: Column = 1
    client: ClientPolicy | None = None


Load = Requests | ClosedLoop


def simulate(
    setting: Setting,
    load: Load,
    timing: Timing,
    *,
    seed: int = 1,
    draws: Draws | None = None,
    batch_ends_ns: Int64 | None = None,
    interpreted: bool = False,
    run: Callable[..., None] | None = None,
) -> Simulated:
    """Play a load against a setting until every request has ended.

    The same arguments give the same columns. `draws` replaces what `seed` would draw. `batch_ends_ns`
    (replay): when the k-th batch in order of start really ended; later batches take `timing`.
    `interpreted` runs the rules uncompiled, a thousand times slower, with equal results.
    `run` takes the place of `driver.run` (see `engine/variant.py`), or of `clients.run_clients` where the
    load's clients act.

    Raises UsageError: bad-plan (instants not in order, or negative), bad-items, bad-client,
    service-times-missing; TrituneError (twin-unsupported): clients that hedge.
    """
    plan, planned, given_up = _plan(setting, load, timing)
    attempts = None
    if load.client is not None and acts(load.client):
        pause_ns = load.pause_ns if isinstance(load, ClosedLoop) else 0
        attempts = client_plan(load.client, planned, timing, seed=seed, pause_ns=pause_ns)
    n = len(planned) if attempts is None else len(attempts.request)
    draws = draws if draws is not None else draw(timing, n, seed)
    service, contention = timing.table(setting.largest)
    speed = Speed(
        service,
        contention,
        timing.turnaround_ns,
        _enough(draws.noise, n, 1.0),
        _enough(draws.stalls_ns, n, 0),
        np.ascontiguousarray(_enough(lost_wakeups(timing, draws), n, False)),
        np.ascontiguousarray(batch_ends_ns if batch_ends_ns is not None else np.empty(0), np.int64),
    )
    rules = rules_of(setting, timing.wake_ns)
    record = _empty_record(n)
    free_at = np.full(setting.instances, NEVER, np.int64)
    if attempts is None:
        run = run or (driver.run if interpreted else compiled())
        run(rules, new_state(rules, n), plan, speed, record, free_at)
        return _simulated(record, plan, planned, given_up, timing)
    run = run or (clients.run_clients if interpreted else compiled_clients())
    run(rules, new_state(rules, n), plan, speed, record, free_at, attempts)
    return _attempted(record, plan, attempts, timing)


def _plan(setting: Setting, load: Load, timing: Timing) -> tuple[Plan, Int64, Int64]:
    """The driver's plan, the clients' instants (filled in later for a closed loop), when clients leave."""
    if isinstance(load, ClosedLoop):
        if load.concurrency < 1 or load.count < 1:
            raise UsageError("a closed loop needs a positive concurrency and count", slug="bad-plan")
        planned = np.zeros(load.count, np.int64)
        loop = Requests(planned, items=load.items)
        again = timing.reply_ns + load.pause_ns + timing.send_ns
        return (
            _open(setting, loop, timing)._replace(concurrency=load.concurrency, again_ns=again),
            planned,
            planned,
        )
    plan = _open(setting, load, timing)
    planned = plan.arrive_ns - timing.send_ns
    patience = _column(load.give_up_ns, len(planned))
    if acts(load.client) and patience.any():
        raise UsageError(
            "requests give up by give_up_ns or by a client's policy, not by both", slug="bad-plan"
        )
    given_up = np.where(patience > 0, planned + patience, NEVER)
    if load.cancels:
        plan = plan._replace(cancelled_at_ns=given_up + np.where(given_up < NEVER, timing.send_ns, 0))
    return plan, planned, given_up


def _open(setting: Setting, load: Requests, timing: Timing) -> Plan:
    planned = np.ascontiguousarray(load.planned_ns, np.int64)
    n = len(planned)
    if n and (planned[0] < 0 or (np.diff(planned) < 0).any() or planned[-1] >= NEVER // 2):
        raise UsageError("planned instants must be in order and not negative", slug="bad-plan")
    items = _column(load.items, n)
    if n and (items.min() < 1 or items.max() > setting.largest):
        raise UsageError(
            f"a request of {items.max() if items.min() >= 1 else items.min()} items does not fit:"
            f" the setting takes 1 to {setting.largest}",
            slug="bad-items",
        )
    level = np.zeros(n, np.int64)
    if setting.priority_levels:
        # infer_request.cc:SetPriority.
        asked = _column(load.priority, n)
        fits = (asked >= 1) & (asked <= setting.priority_levels)
        level = np.where(fits, asked, setting.default_priority_level)
    return Plan(
        arrive_ns=planned + timing.send_ns,
        items=items,
        shape=_column(load.shape, n),
        level=level,
        timeout_ns=_column(load.timeout_ns, n),
        cancelled_at_ns=np.full(n, NEVER, np.int64),
        concurrency=0,
        again_ns=0,
    )


def _column(values: Column, n: int) -> Int64:
    # A copy: a view would be read-only, a type of its own to numba, which compiles all rules again for it.
    return np.array(np.broadcast_to(np.asarray(values, np.int64), n))


def _empty_record(n: int) -> Record:
    none, zeros, unset = (np.full(n, value, np.int64) for value in (-1, 0, -1))
    return Record(
        start_ns=none,
        done_ns=none.copy(),
        joined_ns=none.copy(),
        batch=none.copy(),
        outcome=zeros,
        batch_wait_ns=zeros.copy(),
        busy_wait_ns=zeros.copy(),
        formed_wait_ns=zeros.copy(),
        batch_start_ns=unset,
        batch_done_ns=unset.copy(),
        batch_items=unset.copy(),
        batch_requests=unset.copy(),
        batch_instance=unset.copy(),
        batches=np.zeros(1, np.int64),
    )


def _enough(values: npt.NDArray[Any], n: int, otherwise: object) -> npt.NDArray[Any]:
    """At least n entries."""
    missing = max(0, n - len(values))
    return values if not missing else np.append(values, np.full(missing, otherwise, values.dtype))


def _simulated(record: Record, plan: Plan, planned: Int64, given_up: Int64, timing: Timing) -> Simulated:
    """The columns where every request is one attempt."""
    n = len(planned)
    abandoned = np.zeros(1, np.bool_)
    if plan.concurrency > 0:
        planned = plan.arrive_ns - timing.send_ns
        planned[: plan.concurrency] = 0
    else:
        abandoned = record.done_ns + timing.reply_ns > given_up
    number = np.arange(n)
    first = np.broadcast_to(np.int64(0), n)
    return _columns(record, plan.arrive_ns, timing, number, first, planned, planned, plan.items, abandoned)


def _attempted(record: Record, plan: Plan, c: Clients, timing: Timing) -> Simulated:
    """The columns where requests may have several attempts."""
    rows = slice(int(c.s[SENT]))
    record = Record._make(column[rows] for column in record)._replace(batches=record.batches)
    request, attempt, sent = c.request[rows], c.attempt[rows], c.sent_ns[rows]
    planned, items, abandoned = c.planned_ns[request], plan.items[request], c.status[rows] == GIVEN_UP
    return _columns(record, sent + timing.send_ns, timing, request, attempt, planned, sent, items, abandoned)


def _columns(
    record: Record,
    arrived: Int64,
    timing: Timing,
    request: Int64,
    attempt: Int64,
    planned: Int64,
    sent: Int64,
    items: Int64,
    abandoned: Bools,
) -> Simulated:
    executed = record.start_ns >= 0
    outcome = record.outcome.copy()
    outcome[executed & abandoned] = Outcome.ABANDONED
    batches = int(record.batches[0])
    parts = (record.batch_wait_ns, record.busy_wait_ns, record.formed_wait_ns)
    return Simulated(
        request=request,
        attempt=attempt,
        planned_ns=planned,
        sent_ns=sent,
        arrived_ns=arrived,
        joined_ns=record.joined_ns,
        start_ns=record.start_ns,
        server_done_ns=record.done_ns,
        done_ns=record.done_ns + timing.reply_ns,
        batch=record.batch,
        outcome=outcome,
        items=items,
        batch_wait_ns=record.batch_wait_ns,
        stall_ns=np.where(executed, record.start_ns - arrived - sum(parts), 0),
        busy_wait_ns=record.busy_wait_ns,
        formed_wait_ns=record.formed_wait_ns,
        batch_start_ns=record.batch_start_ns[:batches],
        batch_done_ns=record.batch_done_ns[:batches],
        batch_items=record.batch_items[:batches],
        batch_requests=record.batch_requests[:batches],
        batch_instance=record.batch_instance[:batches],
    )
