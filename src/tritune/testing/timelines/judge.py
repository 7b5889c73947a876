"""One played timeline beside the twin: identical or not, and may it be judged at all."""

from __future__ import annotations

import msgspec

from tritune.model.timeline import ExecutedTimeline, Timeline
from tritune.testing.timelines.compare import Replay, is_tie, with_lost_wakeups
from tritune.twin.setting import Setting


class Judged(msgspec.Struct, frozen=True):
    """`identical`: every execution held the same requests, in the same order, fed with measured completions.

    `tie`: the twin says that its batches change when one arrival or completion moves by up to 1 ms.
    `lost_wakeups` counts those that the starts show, `identical_given_them` is the verdict with them fed too.
    `differs` is the first execution that is not the same (-1: none), `real` and `twin` what it held.
    """

    identical: bool
    tie: bool
    lost_wakeups: int
    identical_given_them: bool
    batches: int
    differs: int = -1
    real: tuple[int, ...] = ()
    twin: tuple[int, ...] = ()


def judge(setting: Setting, timeline: Timeline, executed: ExecutedTimeline) -> Judged:
    """The twin replays the timeline; see `compare` for what it is fed with."""
    replay = Replay.of(setting, timeline, executed)
    real = tuple(batch.requests for batch in executed.batches)
    twin = replay.in_order(executed)
    lost = with_lost_wakeups(replay, executed)
    judged = Judged(
        identical=twin == real,
        tie=is_tie(replay),
        lost_wakeups=len(lost.lost),
        identical_given_them=lost.matches(executed),
        batches=len(real),
    )
    if twin == real:
        return judged
    at = next((k for k, (one, two) in enumerate(zip(real, twin, strict=False)) if one != two), len(real))
    return msgspec.structs.replace(
        judged,
        differs=at,
        real=real[at] if at < len(real) else (),
        twin=twin[at] if at < len(twin) else (),
    )
