"""What a played timeline has in it: which of the scheduler's rules it puts to the test."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from tritune.testing.timelines.compare import Replay
from tritune.twin.engine.simulate import Outcome
from tritune.twin.engine.state import (
    EXECUTING,
    NEXT_PAYLOAD,
    PHASE,
    READY,
    READY_FIRST,
    SCHEDULED,
    SLEEP_DELAY,
    Rules,
    State,
)
from tritune.twin.engine.variant import Namespace, variant


class Nature(msgspec.Struct, frozen=True):
    """Counts in one timeline, as the twin plays it.

    `grown`: requests that joined a payload which had been scheduled before. `merged`: payloads that an
    instance took together with another. `frozen`: payloads that were left behind because they did not fit.
    `delay_waits`: how often the batcher waited for a delay.
    """

    batches: int
    several: int
    grown: int
    merged: int
    frozen: int
    delay_waits: int
    queue_full: int
    timed_out: int


def nature_of(replay: Replay) -> Nature:
    """Plays it by the interpreted rules and watches them."""
    seen = {"grown": 0, "merged": 0, "frozen": 0, "delay_waits": 0}
    simulated = replay.simulated(variant(lambda rules: _watched(rules, seen)))
    outcomes = simulated.outcome.tolist()
    return Nature(
        batches=len(simulated.batch_start_ns),
        several=int((simulated.batch_requests > 1).sum()),
        queue_full=outcomes.count(Outcome.QUEUE_FULL),
        timed_out=outcomes.count(Outcome.TIMED_OUT),
        **seen,
    )


def _watched(rules: Namespace, seen: dict[str, int]) -> Mapping[str, Any]:
    def add_request(st: State, now: int, p: int, r: int) -> None:
        seen["grown"] += int(st.payload[p, PHASE] == SCHEDULED)
        rules["add_request"](st, now, p, r)

    def dequeue(fixed: Rules, st: State, now: int) -> int:
        before = int(st.s[READY])
        waiting, p = set(), st.s[READY_FIRST]
        for _ in range(before):
            if st.payload[p, PHASE] == SCHEDULED:
                waiting.add(int(p))
            p = st.payload[p, NEXT_PAYLOAD]
        taken = int(rules["dequeue"](fixed, st, now))
        seen["merged"] += before - int(st.s[READY]) - 1
        if st.s[READY] > 0:
            front = int(st.s[READY_FIRST])
            seen["frozen"] += int(st.payload[front, PHASE] == EXECUTING and front in waiting)
        return taken

    def sleep(fixed: Rules, st: State, kind: int, until: int) -> None:
        seen["delay_waits"] += int(kind == SLEEP_DELAY)
        rules["sleep"](fixed, st, kind, until)

    return {"add_request": add_request, "dequeue": dequeue, "sleep": sleep}
