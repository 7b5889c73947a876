"""One played timeline beside the twin: identical or not, and may it be judged at all."""

from __future__ import annotations

import msgspec
import numpy as np

from tritune.model.timeline import NEVER, ExecutedTimeline, Timeline
from tritune.testing.timelines.compare import Replay, in_order, is_tie, refused, with_lost_wakeups
from tritune.testing.timelines.nature import Nature, nature_of
from tritune.testing.timelines.power import RULES, notices
from tritune.twin.engine.setting import Setting
from tritune.twin.engine.simulate import Simulated
from tritune.units import NS_PER_MS


class Judged(msgspec.Struct, frozen=True):
    """`identical`: every execution held the same requests, in the same order, and the same requests were
    refused for the same reasons, fed with measured arrivals and completions.

    `tie`: the twin says that a batch or a refusal changes when one arrival or completion moves by up to 1 ms.
    `batcher_first`: or when the batcher is faster than an instance that has finished. `lost_wakeups` counts
    those that the starts show, `identical_given_them` is the verdict with them fed too. `late_ms`: by how
    much the requests reached the scheduler later than planned, the worst beside the first. `notices`: the
    rules without which the twin would have done otherwise (see `power`). `refused_late_ms`: for each request
    that both refused because of a timeout, by how much later the server answered it. `differs` is the first
    execution that is not the same (-1: none), `real` and `twin` what it held; `refused_by_one` are the
    requests that only one of both refused, or for another reason.
    """

    identical: bool
    tie: bool
    batcher_first: bool
    lost_wakeups: int
    identical_given_them: bool
    batches: int
    late_ms: float
    nature: Nature
    notices: tuple[str, ...]
    refused_late_ms: tuple[float, ...]
    differs: int = -1
    real: tuple[int, ...] = ()
    twin: tuple[int, ...] = ()
    refused_by_one: tuple[int, ...] = ()


def judge(setting: Setting, timeline: Timeline, executed: ExecutedTimeline) -> Judged:
    """The twin replays the timeline; see `compare` for what it is fed with."""
    replay = Replay.of(setting, timeline, executed)
    simulated = replay.simulated()
    real = tuple(batch.requests for batch in executed.batches)
    twin = in_order(replay.batches(simulated), executed)
    refused_there, refused_here = refused(executed), replay.refusals(simulated)
    lost = with_lost_wakeups(replay, executed)
    identical = twin == real and refused_there == refused_here
    judged = Judged(
        identical=identical,
        tie=is_tie(replay),
        batcher_first=bool(replay.batcher_first().any()),
        lost_wakeups=len(lost.lost),
        identical_given_them=lost.matches(executed),
        batches=len(real),
        late_ms=_late_ms(timeline, executed),
        nature=nature_of(replay),
        refused_late_ms=_refused_late_ms(replay, simulated, executed),
        notices=tuple(rule for rule in RULES if notices(replay, rule)),
    )
    if identical:
        return judged
    at = next((k for k, (one, two) in enumerate(zip(real, twin, strict=False)) if one != two), len(real))
    return msgspec.structs.replace(
        judged,
        differs=at if twin != real else -1,
        real=real[at] if at < len(real) else (),
        twin=twin[at] if at < len(twin) else (),
        refused_by_one=tuple(
            i for i in range(len(timeline.requests)) if refused_there.get(i) != refused_here.get(i)
        ),
    )


def _refused_late_ms(replay: Replay, simulated: Simulated, executed: ExecutedTimeline) -> tuple[float, ...]:
    zero = min(request.queue_start_ns for request in executed.requests)
    both = refused(executed).keys() & replay.refusals(simulated).keys()
    answered = dict(zip(replay.order, simulated.server_done_ns.tolist(), strict=True))
    rows = [(executed.requests[i].released_ns, answered[i]) for i in sorted(both)]
    late_ns = [released - zero - twin for released, twin in rows if released != NEVER]
    return tuple(round(late / NS_PER_MS, 3) for late in late_ns)


def _late_ms(timeline: Timeline, executed: ExecutedTimeline) -> float:
    planned = np.array([request.planned_ns for request in timeline.requests])
    late = np.array([request.queue_start_ns for request in executed.requests]) - planned
    return float((late - late[0]).max() / NS_PER_MS)
