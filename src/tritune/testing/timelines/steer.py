"""How long each execution of a timeline will take, or should take so that nothing hangs by a thread."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import msgspec
import numpy as np

from tritune.model.timeline import Timeline
from tritune.testing.timelines.compare import Replay
from tritune.twin.engine.setting import Setting
from tritune.twin.engine.simulate import Simulated
from tritune.units import NS_PER_MS

# From an execution's start until its instance is free, less what its requests ask for: a 24.10 with the
# Python backend, undisturbed.
OVERHEAD_NS = 600_000
# How far an end is kept from what else happens, where that can be had.
_CLEAR_NS = round(1.9 * NS_PER_MS)


def planned(setting: Setting, timeline: Timeline) -> Replay:
    """The timeline as it should go: sent as planned, each execution as long as its requests ask for."""

    def end(simulated: Simulated, k: int, _: Sequence[int]) -> int:
        asked = (timeline.requests[i].service_ns for i in np.flatnonzero(simulated.batch == k))
        return int(simulated.batch_start_ns[k]) + max(asked) + OVERHEAD_NS

    return _with_ends(setting, timeline, end)


def steered(
    setting: Setting, timeline: Timeline, random: np.random.Generator, first_ms: float
) -> tuple[Timeline, Replay]:
    """The timeline with executions that end away from arrivals, and from delays and timeouts that end.

    They take 4 to 40 ms or a little more for each instance there is, the first one at least `first_ms`.
    """
    arrivals = np.array([request.planned_ns for request in timeline.requests])
    waits = {setting.delay_ns} | {policy.default_timeout_ns for policy in setting.policies}
    own = np.array([request.timeout_ns for request in timeline.requests])
    instants = np.concatenate([arrivals, *(arrivals + wait for wait in waits if wait), arrivals + own])

    def end(simulated: Simulated, k: int, ends: Sequence[int]) -> int:
        ms = first_ms if k == 0 else np.exp(random.uniform(np.log(4), np.log(40))) * setting.instances
        least = int(simulated.batch_start_ns[k]) + int(ms * NS_PER_MS) + OVERHEAD_NS
        choices = least + np.arange(0, 6 * NS_PER_MS, NS_PER_MS // 4)
        others = np.concatenate([instants, np.array(ends, np.int64)])
        distance = np.abs(choices[:, None] - others[None, :]).min(axis=1)
        clear = np.flatnonzero(distance >= _CLEAR_NS)
        return int(choices[clear[0] if len(clear) else int(distance.argmax())])

    replay = _with_ends(setting, timeline, end)
    simulated = replay.simulated()
    requests = list(timeline.requests)
    for i, k in enumerate(simulated.batch.tolist()):
        if k >= 0:
            service_ns = replay.free_ns[k] - int(simulated.batch_start_ns[k]) - OVERHEAD_NS
            requests[i] = msgspec.structs.replace(requests[i], service_ns=service_ns)
    return Timeline(tuple(requests)), replay


def _with_ends(
    setting: Setting, timeline: Timeline, end: Callable[[Simulated, int, Sequence[int]], int]
) -> Replay:
    """One execution after the other: what starts later depends on the ends before it, not on later ones."""
    replay = Replay(
        setting,
        timeline,
        tuple(range(len(timeline.requests))),
        tuple(request.planned_ns for request in timeline.requests),
        (),
    )
    while True:
        simulated = replay.simulated()
        k = len(replay.free_ns)
        if k >= len(simulated.batch_start_ns):
            return replay
        ends = (*replay.free_ns, end(simulated, k, replay.free_ns))
        replay = msgspec.structs.replace(replay, free_ns=ends)
