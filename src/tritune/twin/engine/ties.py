"""Where a batch hangs by a thread: an event so near to a decision that a real server may decide otherwise."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from tritune.model.requests import Bools, Int64
from tritune.twin.engine.setting import Setting
from tritune.twin.engine.simulate import Requests, Simulated, simulate
from tritune.twin.engine.state import QUEUED, SLEEP, SLEEP_SLOT, Rules, State
from tritune.twin.engine.timing import Timing
from tritune.twin.engine.variant import Namespace, variant
from tritune.units import NS_PER_MS


def ties(simulated: Simulated, *, within_ns: int = NS_PER_MS) -> Bools:
    """Per batch: an arrival or completion lies within `within_ns` of one of its decisions.

    Decisions are its start and the instants at which its requests were moved into a payload. The one
    event that brought a decision about, at the very same instant, is no tie; a second one there is.
    """
    events = np.sort(np.concatenate([simulated.arrived_ns, simulated.batch_done_ns]))
    tied = _is_tied(events, simulated.batch_start_ns, within_ns)
    executed = simulated.batch >= 0
    moved = _is_tied(events, simulated.joined_ns[executed], within_ns)
    np.logical_or.at(tied, simulated.batch[executed], moved)
    return tied


def batcher_first(setting: Setting, load: Requests, timing: Timing, **played: Any) -> Bools:
    """Per batch: it is the first to hold other requests if, at one completion, the batcher is faster.

    A finished instance notifies the batcher before it takes its next payload (payload.cc:Execute,
    backend_model_instance.cc:BackendThread). Usually it takes it first; if the batcher runs first, the open
    payload grows once more. Only eager dispatch is looked at: with lazy dispatch that is the lost wake-up,
    which the twin draws. `played` is what `simulate` is given beside load and timing. Costs two plays of the
    interpreted rules, and one more for each completion that finds the batcher with something to do.
    """
    usual = simulate(setting, load, timing, **played)
    marked = np.zeros(len(usual.batch_start_ns), np.bool_)
    if not (setting.dynamic and setting.eager):
        return marked
    matters: list[int] = []
    simulate(setting, load, timing, run=variant(_noting(matters)), **played)
    for completion in matters:
        other = simulate(setting, load, timing, run=variant(_batcher_before(completion)), **played)
        differs = usual.batch != other.batch
        if differs.any():
            numbers = np.concatenate([usual.batch[differs], other.batch[differs]])
            first = numbers[numbers >= 0].min()
            marked[min(first, len(marked) - 1)] = True
    return marked


def _noting(matters: list[int]) -> Callable[[Namespace], Mapping[str, Callable[..., Any]]]:
    """Notes the numbers of the completions at which an earlier batcher could do anything."""
    number = itertools.count()

    def replaced(rules: Namespace) -> Mapping[str, Callable[..., Any]]:
        def completion(fixed: Rules, st: State, *event: Any) -> int:
            waits = st.s[SLEEP] == SLEEP_SLOT and not rules["slot_available"](fixed, st)
            k = next(number)
            if st.s[QUEUED] > 0 and not waits:
                matters.append(k)
            return int(rules["completion"](fixed, st, *event))

        return {"completion": completion}

    return replaced


def _batcher_before(chosen: int) -> Callable[[Namespace], Mapping[str, Callable[..., Any]]]:
    """At the chosen completion the batcher runs before the instance is free, and again afterwards."""
    number = itertools.count()

    def replaced(rules: Namespace) -> Mapping[str, Callable[..., Any]]:
        def completion(fixed: Rules, st: State, now: int, *event: Any) -> int:
            if next(number) == chosen:
                rules["run_clocks"](st, now)
                rules["wake_up"](fixed, st, now)
            return int(rules["completion"](fixed, st, now, *event))

        return {"completion": completion}

    return replaced


def _is_tied(events: Int64, decisions: Int64, within_ns: int) -> Bools:
    near = np.searchsorted(events, decisions + within_ns, "right") - np.searchsorted(
        events, decisions - within_ns, "left"
    )
    at_once = np.searchsorted(events, decisions, "right") > np.searchsorted(events, decisions, "left")
    tied: Bools = near > at_once
    return tied
