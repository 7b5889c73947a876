"""Where the time in the queue goes: four parts that add up, told by the twin's replay of the run."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from tritune.model.config import ServingConfig
from tritune.model.profile import Figure, TwinProfile
from tritune.model.requests import RequestLog
from tritune.model.server import ServerWindow
from tritune.twin.ask.queue_bounds import QueueBounds, queue_bounds
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import Simulated
from tritune.twin.fit.agreement import MAX_QUEUE_ERROR, chance, distance, distance_allowed, observed_sizes
from tritune.twin.fit.replay import executed_sizes, replay
from tritune.units import NS_PER_US, format_duration

# What a run does not show: traces of Triton 2.51.0 with the python backend on two cores. 0.13 to
# 0.15 ms from an arrival at an idle instance to its start (medians of settings without delay), 0.04 ms from a
# release to the next dequeue.
PRIOR_WAKE_NS = 140 * NS_PER_US
PRIOR_TURNAROUND_NS = 40 * NS_PER_US
# What is not known may move the idle-instance wait by so much of the queue time, and no more.
MAX_UNSURE = 0.05


class Part(msgspec.Struct, frozen=True):
    """One part of the mean time in the queue: ns per request, and its share of that time."""

    ns: float
    share: float


class QueueParts(msgspec.Struct, frozen=True):
    """The four parts of the mean time in the queue; all None where they cannot be told, as `refusal` says.

    batch_wait: an instance was idle, and the delay was waited for. stall: an instance was idle and nothing
    justifies it (lost and slow wake-ups). busy_wait: all were busy, in the scheduler's queue. formed_wait:
    all were busy, in a payload that was formed already. `queue_error`: (replayed - observed) / observed mean;
    `batch_distance`: between the replayed and the observed batch sizes; `wake`: how long the batcher was
    taken to wake up, ns.
    """

    bounds: QueueBounds
    queue_error: float
    batch_distance: float
    wake: Figure
    batch_wait: Part | None = None
    stall: Part | None = None
    busy_wait: Part | None = None
    formed_wait: Part | None = None
    refusal: str = ""

    @property
    def idle(self) -> Part | None:
        """Batch wait and stall together: what traces can prove."""
        return _together(self.batch_wait, self.stall)

    @property
    def all_busy(self) -> Part | None:
        """Busy wait and formed wait together."""
        return _together(self.busy_wait, self.formed_wait)


def queue_parts(
    config: ServingConfig, profile: TwinProfile, window: ServerWindow, log: RequestLog
) -> QueueParts:
    """The parts of the twin's queue time when it replays the run, scaled to the observed mean.

    The batch wait is kept within its bounds; what that takes from it goes to the other parts in proportion.
    They cannot be told where the replay is further off the mean queue time or the batch sizes than `validate`
    allows (no queue is too small for that here), and where what is not known well, how long threads take to
    wake up and how often lazy dispatch misses a wake-up, may move the idle-instance wait by more than
    MAX_UNSURE. Lost wake-ups not known at all may be all that the replay lacks of the queue time.

    The profile's own turnaround is not used: it is what made the replayed mean equal the observed one,
    whatever the reason was, and would hide how far off the replay is. Raises TrituneError (twin-unsupported).
    """
    bounds = queue_bounds(config, window)
    awake = msgspec.structs.replace(
        profile,
        wake_ns=profile.wake_ns or Figure(PRIOR_WAKE_NS, source="prior"),
        turnaround_ns=Figure(PRIOR_TURNAROUND_NS, source="prior"),
    )
    plays = replay(config, awake, log)
    sizes, shares = executed_sizes(plays), _shares(plays)
    replayed = float(np.mean([play.queue_ns().mean() for play in plays]))
    off = replayed / bounds.queue_ns - 1 if bounds.queue_ns else 0.0
    apart = distance(observed_sizes(window), sizes)
    allowed = distance_allowed(chance([executed_sizes([play]) for play in plays], sizes))
    idle = _idle(shares)
    waking, losing = (
        max((abs(_idle(_shares(replay(config, other, log))) - idle) for other in others), default=0.0)
        for others in (_waking_otherwise(profile, awake), _losing_otherwise(config, awake))
    )
    if profile.lost_wakeup_p is None and _may_lose(config, profile):
        losing = max(0.0, -off) * (1 - idle)
    refusals = (_replay_off(bounds.queue_ns, replayed, off, apart, allowed), _unsure(waking, losing))
    refusal = next((why for why in refusals if why and bounds.queue_ns), "")
    found = QueueParts(bounds, off, apart, awake.wake_ns or Figure(0), refusal=refusal)
    return found if refusal else msgspec.structs.replace(found, **_parts(bounds, shares))


def _shares(plays: Sequence[Simulated]) -> dict[str, float]:
    """Of all the time in the queue in all plays; all zero where nobody waited."""
    sums = {
        name: float(sum(int(getattr(play, f"{name}_ns").sum()) for play in plays))
        for name in ("batch_wait", "stall", "busy_wait", "formed_wait")
    }
    total = sum(sums.values())
    return {name: ns / total if total else 0.0 for name, ns in sums.items()}


def _parts(bounds: QueueBounds, shares: dict[str, float]) -> dict[str, Part]:
    queue = bounds.queue_ns
    if not queue:
        shares = dict.fromkeys(shares, 0.0)
    most = bounds.most_batch_wait_ns / queue if queue else 0.0
    batch = min(shares["batch_wait"], most)
    left = 1 - shares["batch_wait"]
    # Where the twin has nothing but batch wait and the bound forbids some of it, that is nobody's: a stall.
    scaled = {name: part * (1 - batch) / left if left else 0.0 for name, part in shares.items()}
    scaled["batch_wait"] = batch
    if not left:
        scaled["stall"] = 1 - batch
    return {name: Part(share * queue, share) for name, share in scaled.items()}


def _waking_otherwise(profile: TwinProfile, awake: TwinProfile) -> list[TwinProfile]:
    """With the ends of what is known of waking up; not known at all: as if no thread took any time."""
    if profile.wake_ns is None:
        return [msgspec.structs.replace(profile, wake_ns=None, turnaround_ns=None)]
    return [msgspec.structs.replace(awake, wake_ns=end) for end in _ends(profile.wake_ns)]


def _losing_otherwise(config: ServingConfig, awake: TwinProfile) -> list[TwinProfile]:
    """With the ends of what is known of lost wake-ups."""
    if awake.lost_wakeup_p is None or not _may_lose(config, awake):
        return []
    return [msgspec.structs.replace(awake, lost_wakeup_p=end) for end in _ends(awake.lost_wakeup_p)]


def _ends(known: Figure) -> list[Figure]:
    return [Figure(max(0.0, end)) for end in (known.low, known.high) if end not in (None, known.value)]


def _may_lose(config: ServingConfig, profile: TwinProfile) -> bool:
    setting = setting_of(config, profile.triton_version)
    return setting.dynamic and setting.ticks and not setting.eager


def _replay_off(observed: float, replayed: float, off: float, apart: float, allowed: float) -> str:
    if abs(off) > MAX_QUEUE_ERROR:
        return (
            f"replaying the run gives a mean queue time of {format_duration(replayed)} where "
            f"{format_duration(observed)} was measured"
        )
    if apart > allowed:
        return f"replaying the run gives other batch sizes (distance {apart:.3f}, allowed {allowed:.3f})"
    return ""


def _unsure(by_waking: float, by_losing: float) -> str:
    if by_waking > MAX_UNSURE:
        return (
            f"the queue is so short that waking threads up may be {by_waking:.0%} of it more or less, and how"
            " long that takes is not known well enough"
        ).replace("%", " %")
    if by_losing > MAX_UNSURE:
        return (
            f"lost wake-ups may be {by_losing:.0%} of the queue time more or less, and how many there were "
            "is not known well enough"
        ).replace("%", " %")
    return ""


def _idle(shares: dict[str, float]) -> float:
    return shares["batch_wait"] + shares["stall"]


def _together(one: Part | None, other: Part | None) -> Part | None:
    return Part(one.ns + other.ns, one.share + other.share) if one and other else None
