"""An ensemble in virtual time: its models one after the other, each with the requests that really reach it.

An ensemble has no queue and does not batch (ensemble_scheduler.cc:Enqueue): each step is an ordinary request
to its model, sent when the tensors it takes are there. A later model thus never slows an earlier one, so that
in an open loop each model can be played on its own, once those before it are: exact as long as they do not
share a device. What leaves a model leaves it in batches, and that is how it reaches the next one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import msgspec
import numpy as np

from tritune.errors import UsageError
from tritune.model.requests import Bools, Floats, Int64
from tritune.twin.engine.setting import Setting
from tritune.twin.engine.simulate import Load, Outcome, Requests, Simulated, simulate
from tritune.twin.engine.state import NEVER
from tritune.twin.engine.timing import Timing
from tritune.twin.ensemble.wiring import Wiring, unplayable

SEPARATE = "Every model is taken to have a device of its own: how models slow each other down is not known."


class Served(msgspec.Struct, frozen=True):
    """How one model is served, and how long it takes."""

    setting: Setting
    timing: Timing


class HandOver(msgspec.Struct, frozen=True):
    """From one step to the next. `ns`: from the end of an execution to the next step's queue, or from the
    last step to the answer; negative where answers leave before the execution counts as ended.

    The answers of a batch leave one after the other, `spacing_ns` apart, the last one at its end; for each
    batch that is stretched by a lognormal factor of median 1 whose logarithm varies by `spread` (standard
    deviation). How many of them are found together depends on it, and on the next model's wake_ns.
    """

    ns: int = 0
    spacing_ns: int = 0
    spread: float = 0.0


@dataclass(frozen=True)
class StepPlay:
    """One step, by number of the ensemble's request; ns, -1 where the request never reached the step.

    `arrived_ns` at the model's scheduler, `start_ns` and `done_ns` of the execution, `answered_ns`: when its
    tensors were there for the next step. The last four are the queue parts of `Simulated`.
    """

    model: str
    arrived_ns: Int64
    start_ns: Int64
    done_ns: Int64
    answered_ns: Int64
    batch_wait_ns: Int64
    stall_ns: Int64
    busy_wait_ns: Int64
    formed_wait_ns: Int64


@dataclass(frozen=True)
class ChainPlay:
    """What happened: per request of the ensemble, per step (in the configuration's order), and per model
    (`Simulated`, its requests in order of arrival there). `notes` say what was not played.
    """

    planned_ns: Int64
    done_ns: Int64
    outcome: Int64
    steps: tuple[StepPlay, ...]
    models: Mapping[str, Simulated]
    notes: tuple[str, ...] = (SEPARATE,)

    def latency_ns(self) -> Floats:
        """Per request: done - planned; infinite where a step failed."""
        latency = (self.done_ns - self.planned_ns).astype(np.float64)
        latency[self.outcome != Outcome.OK] = np.inf
        return latency


def simulate_chain(
    name: str,
    plan: Wiring,
    served: Mapping[str, Served],
    load: Load,
    *,
    hand_over: HandOver = HandOver(),  # noqa: B008 - frozen
    send_ns: int = 0,
    reply_ns: int = 0,
    seed: int = 1,
) -> ChainPlay:
    """Play an open loop against the ensemble `name` until every request has ended.

    `served` by model; their timings' send_ns and reply_ns are not used: those of the client are given here,
    and between steps there is the hand-over. A request's items pass whole; a model with max_batch_size 0
    takes it as one. The same arguments give the same columns; each model has noise of its own.

    Raises UsageError (ensemble-closed-loop): a closed loop, whose requests follow the last answers; and what
    `simulate` raises. TrituneError (twin-unsupported): clients that give up, and steps that may refuse
    requests in an ensemble with branches (one branch's refusal stops the others, or hangs them: 24.10).
    """
    if not isinstance(load, Requests):
        raise UsageError(
            "a closed loop through an ensemble is not simulated: its requests follow the last step's answers",
            slug="ensemble-closed-loop",
            hint="Give a rate instead.",
        )
    if load.client is not None or np.any(np.asarray(load.give_up_ns) > 0):
        raise unplayable(name, "its clients give up or try again")
    if not plan.straight and any(_may_refuse(one.setting) for one in served.values()):
        raise unplayable(name, "it has branches, and a step that may refuse a request")
    planned = np.ascontiguousarray(load.planned_ns, np.int64)
    n = len(planned)
    entered = planned + send_ns
    steps: list[StepPlay | None] = [None] * len(plan.steps)
    models: dict[str, Simulated] = {}
    outcome = np.zeros(n, np.int64)
    failed_at = np.full(n, -1, np.int64)
    for number, (model, of) in enumerate(plan.models):
        ready = [_ready(plan.feeders[i], steps, entered) for i in of]
        # Each model draws from a stream of its own, the first one the very draws that it would have alone.
        own = seed + number * 1_000_003
        play, request, step = _play(served[model], load, of, ready, own)
        models[model] = play
        answered = _answered(play, hand_over, own)
        for i in of:
            mine = step == i
            steps[i] = _by_request(model, n, request[mine], play, mine, answered)
        failed = play.outcome != Outcome.OK
        first = failed & (outcome[request] == Outcome.OK)
        outcome[request[first]] = play.outcome[first]
        failed_at[request[first]] = play.server_done_ns[first]
    found = tuple(step for step in steps if step is not None)
    done = np.max([found[i].answered_ns for i in plan.last], axis=0)
    done = np.where(outcome == Outcome.OK, done, failed_at + hand_over.ns)
    return ChainPlay(planned, done + reply_ns, outcome, found, models)


def _may_refuse(setting: Setting) -> bool:
    return any(p.max_queue_size or p.default_timeout_ns or p.allow_timeout_override for p in setting.policies)


def _ready(feeders: tuple[int, ...], steps: list[StepPlay | None], entered: Int64) -> Int64:
    """When a step's tensors are all there; NEVER where one of them never comes."""
    ready = entered.copy()
    for i in feeders:
        before = steps[i]
        if before is None:
            raise ValueError("a model is played after those that feed it")
        ready = np.where(before.answered_ns < 0, NEVER, np.maximum(ready, before.answered_ns))
    return ready


def _play(
    served: Served, load: Requests, of: tuple[int, ...], ready: list[Int64], seed: int
) -> tuple[Simulated, Int64, Int64]:
    """A model under all requests of its steps; for each of those the ensemble's request, and the step."""
    n = len(ready[0])
    at = np.concatenate(ready)
    request = np.tile(np.arange(n), len(of))
    step = np.repeat(np.array(of, np.int64), n)
    order = np.argsort(at, kind="stable")
    order = order[at[order] < NEVER]
    request, step = request[order], step[order]

    def column(values: object) -> Int64:
        return np.broadcast_to(np.asarray(values, np.int64), n)[request]

    arrivals = Requests(
        at[order],
        items=column(load.items) if served.setting.max_batch_size else 1,
        shape=column(load.shape),
        priority=column(load.priority),
        timeout_ns=column(load.timeout_ns),
    )
    timing = msgspec.structs.replace(served.timing, send_ns=0, reply_ns=0)
    return simulate(served.setting, arrivals, timing, seed=seed), request, step


def _answered(play: Simulated, hand_over: HandOver, seed: int) -> Int64:
    """When each answer is at the next step; -1 for requests that were not executed."""
    at = play.server_done_ns + hand_over.ns
    if hand_over.spacing_ns:
        chance = np.random.Generator(np.random.PCG64([seed, 3]))
        stretch = np.exp(hand_over.spread * chance.standard_normal(max(1, len(play.batch_items))))
        ahead = _later_in_batch(play) * hand_over.spacing_ns * stretch[play.batch]
        at = at - np.where(play.batch >= 0, np.rint(ahead), 0).astype(np.int64)
    # Not before it began: a short execution of many items would otherwise answer first.
    at = np.maximum(at, play.start_ns)
    return np.where(play.outcome == Outcome.OK, at, -1)


def _later_in_batch(play: Simulated) -> Int64:
    """How many requests of the same batch are answered after this one; a batch keeps the order of arrival."""
    order = np.argsort(play.batch, kind="stable")
    batch = play.batch[order]
    ends = np.searchsorted(batch, batch, side="right")
    later = np.empty_like(order)
    later[order] = ends - 1 - np.arange(len(order))
    return later


def _by_request(
    model: str, n: int, request: Int64, play: Simulated, mine: Bools, answered: Int64
) -> StepPlay:
    def column(values: Int64) -> Int64:
        found = np.full(n, -1, np.int64)
        found[request] = values[mine]
        return found

    return StepPlay(
        model=model,
        arrived_ns=column(play.arrived_ns),
        start_ns=column(play.start_ns),
        done_ns=column(play.server_done_ns),
        answered_ns=column(answered),
        batch_wait_ns=column(play.batch_wait_ns),
        stall_ns=column(play.stall_ns),
        busy_wait_ns=column(play.busy_wait_ns),
        formed_wait_ns=column(play.formed_wait_ns),
    )
