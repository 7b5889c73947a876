"""What a replay leaves unexplained: lost wake-ups, pauses before executions, how lone requests vary.

Each is estimated only where the run can show it, and is otherwise None.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import msgspec
import numpy as np
from scipy.optimize import brentq
from scipy.special import chdtri

from tritune.model.profile import Figure, TwinProfile
from tritune.model.requests import Floats, Int64, Kind
from tritune.twin.engine.rules import TICK_NS
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.timing import Timing
from tritune.twin.fit.calibration_run import CalibrationRun, played
from tritune.twin.fit.figures import timing_of
from tritune.twin.fit.replay import by_sending, sent_ns
from tritune.twin.fit.stalls import binomial

# Below this load executions seldom follow each other at once, and a pause between them shows in no queue.
MIN_LOAD = 0.3
# A pause of more than this part of an execution is another mistake, which the validation must see.
MOST_PAUSE = 0.1
# By how much the mean queue must grow with each ns of a pause, for the pause to be told from the queue.
MOVES = 0.5
# research.md 2: the batcher thread takes 50 to 100 us to wake up.
USUAL_WAKE_NS = 100_000
PLAYS = 6
# Fewer completions that could show a lost wake-up give an interval that says nothing.
MIN_EXPOSED = 30
# An execution may last this many standard deviations longer, and an answer be so late: nothing is lost then.
FAR, SLACK_NS = 5.0, 1_000_000
# Fewer lone requests than that say little of a variance.
MIN_LONE = 30
_OUTLIER = 6.0
_TO_SIGMA = 1.4826


def pauses(run: CalibrationRun, profile: TwinProfile) -> dict[str, Figure]:
    """`wake_ns` as lone requests show it, and `turnaround_ns` (from the end of an execution to the instance's
    next one): what then makes the replayed mean queue time equal the observed one (simulated moments).

    Only where a turnaround moves the mean queue by at least half of its length, which takes executions that
    follow each other: a small error elsewhere would otherwise read as a large pause, and mislead under
    another setting. Where it does not, and there are no lone requests, the wake-up is taken from the queue.
    0 with an upper bound where chance explains the difference, or a usual wake-up where that is not known;
    None where more than MOST_PAUSE of an execution would be needed. The interval is that of the replays'
    noise, and of the unknown wake-up.
    """
    wake = lone_wake(run, profile)
    known = {} if wake is None else {"wake_ns": wake}
    return known | _from_queue(run, msgspec.structs.replace(profile, **known), () if known else ("wake_ns",))


def _from_queue(run: CalibrationRun, profile: TwinProfile, others: tuple[str, ...]) -> dict[str, Figure]:
    """The turnaround, or the first of `others` that moves the queue enough."""
    counters = run.window.counters
    stats = (counters.batch_stats or {}).values()
    busy, executions = sum(stat.ns for stat in stats), sum(stat.count for stat in stats)
    if not executions:
        return {}
    most = MOST_PAUSE * busy / executions
    observed = counters.queue.ns / counters.success.count
    timing = timing_of(profile, setting_of(run.config, profile.triton_version).largest)

    def queues(name: str, pause_ns: float) -> Floats:
        paused = msgspec.structs.replace(timing, **{name: round(pause_ns)})
        return np.array([played(run, paused, seed).queue_ns().mean() for seed in range(1, PLAYS + 1)])

    none = queues("turnaround_ns", 0.0)
    loaded = busy >= MIN_LOAD * run.window.seconds * 1e9 * run.config.instances
    for name in ("turnaround_ns", *others):
        slope = float((queues(name, most) - none).mean()) / most
        if slope >= MOVES and (loaded or name != "turnaround_ns"):
            break
    else:
        return {}
    # Each replay's own mean speed is chance that the observed run, whose mean S(b) is, does not have twice.
    half = 1.96 * float(none.std(ddof=1)) * math.sqrt(1 + 1 / PLAYS) / slope
    surplus = (observed - float(none.mean())) / slope
    if name != "wake_ns" and "wake_ns" in others:
        half += max(0.0, float((queues("wake_ns", USUAL_WAKE_NS) - none).mean())) / slope
    if surplus <= half:
        return {name: Figure(0.0, 0.0, max(0.0, surplus) + half)}
    if queues(name, most).mean() < observed:
        return {}
    value = float(brentq(lambda p: queues(name, p).mean() - observed, 0.0, most, xtol=500.0, maxiter=20))
    return {name: Figure(value, max(0.0, value - half), value + half)}


def lost_wakeups(run: CalibrationRun, timing: Timing, overhead_ns: float) -> Figure | None:
    """The chance per completion that lazy dispatch misses it, with the exact interval; none lost in n: 3 / n.

    Counted over the completions after which requests wait, may be batched at once, and would start clearly
    later if the wake-up were lost: with the next arrival, or after 500 ms. Lost is what then started so,
    rather than an execution that merely took long. `overhead_ns`: the client's latency outside of queue and
    execution. None for eager dispatch, releases without the tick, several instances (whose completions rescue
    each other's), and fewer than MIN_EXPOSED such completions.
    """
    setting = setting_of(run.config, run.triton_version)
    if setting.eager or not setting.dynamic or not setting.ticks or setting.instances > 1:
        return None
    service, _ = timing.table(setting.largest)
    seen = _Completions.of(run, overhead_ns, round(service[1] / 4))
    limit = setting.preferred[-1] if setting.preferred else setting.largest
    lost = exposed = 0
    for done, following in zip(seen.done_ns[:-1], seen.done_ns[1:], strict=True):
        waiting = seen.waiting(done)
        items = int(seen.items[waiting].sum())
        if not items:
            continue
        oldest = int(seen.arrived_ns[waiting].min())
        if items < limit and done - oldest < setting.delay_ns + SLACK_NS:
            continue
        slowest = service[min(items, setting.largest)] * (1 + FAR * timing.cv) + SLACK_NS
        again = seen.next_arrival(done)
        wait = min(again - done, TICK_NS)
        quickest = service[min(items, setting.largest)] if limit == setting.largest else service[1]
        if done + wait + quickest * (1 - FAR * timing.cv) <= done + slowest:
            continue
        exposed += 1
        late = following - done > slowest
        # The next arrival, or the tick, started it: in time, or in one batch with that arrival.
        joined = bool((seen.ended_ns[seen.arrived_ns == again] <= following + seen.apart_ns).all())
        lost += int(late and (joined or following - done - wait <= slowest or items >= limit))
    return binomial(lost, exposed) if exposed >= MIN_EXPOSED else None


@dataclass(frozen=True)
class _Completions:
    """Requests in order of arrival, and when batches ended, on the client's clock (`arrived_ns` is moved by
    all that lies outside of queue and execution).
    """

    arrived_ns: Int64
    ended_ns: Int64
    items: Int64
    done_ns: Int64
    apart_ns: int

    @classmethod
    def of(cls, run: CalibrationRun, overhead_ns: float, apart_ns: int) -> _Completions:
        """Answers less than `apart_ns` apart belong to one batch."""
        last = by_sending(run.log)
        ok = last.kind == Kind.OK
        ended = last.done_ns[ok]
        order = np.sort(ended)
        done: Int64 = order[np.append(True, np.diff(order) > apart_ns)] if len(order) else order
        return cls(sent_ns(last)[ok] + round(overhead_ns), ended, last.items[ok], done, apart_ns)

    def waiting(self, done_ns: int) -> Int64:
        """Requests that had arrived when a batch ended, and were not in it."""
        upto = int(np.searchsorted(self.arrived_ns, done_ns, side="right"))
        first = max(0, upto - 1000)
        found: Int64 = first + np.flatnonzero(self.ended_ns[first:upto] > done_ns + self.apart_ns)
        return found

    def next_arrival(self, done_ns: int) -> int:
        """The first arrival after a batch ended, far off where there is none."""
        at = int(np.searchsorted(self.arrived_ns, done_ns, side="right"))
        return int(self.arrived_ns[at]) if at < len(self.arrived_ns) else done_ns + 2 * TICK_NS


def lone_variation(run: CalibrationRun, service_ns: float) -> Figure | None:
    """How much the latency of requests that met no other one varies, as a share of S of one request.

    No more than that can be the execution's own variation: the way to and fro is in it. None for fewer than
    MIN_LONE, or requests of several sizes.
    """
    lone = _lone(run)
    if lone is None:
        return None
    freedom = len(lone) - 1
    squares = float(((lone - lone.mean()) ** 2).sum()) / service_ns**2
    low, high = (math.sqrt(squares / float(chdtri(freedom, p))) for p in (0.025, 0.975))
    return Figure(math.sqrt(squares / freedom), low, high)


def lone_wake(run: CalibrationRun, profile: TwinProfile) -> Figure | None:
    """The wake-up of the batcher thread, ns: what requests that met no other one waited beyond the delay.

    Nothing else holds them up, so this tells a wake-up from a turnaround. 0 with an upper bound where chance
    explains it; None without enough of them, without a dynamic batcher, and for more than MOST_PAUSE of an
    execution.
    """
    lone, setting = _lone(run), setting_of(run.config, profile.triton_version)
    items = int(run.log.items[0]) if len(run.log) else 0
    service = profile.service_ns.get(items)
    if lone is None or service is None or not setting.dynamic:
        return None
    timing = timing_of(profile, setting.largest)
    delayed = 0 if items in setting.preferred or items >= setting.largest else setting.delay_ns
    expected = timing.service_ns[items] + timing.send_ns + timing.reply_ns + delayed
    value = float(lone.mean()) - expected
    doubts = [float(lone.std(ddof=1)) / math.sqrt(len(lone))]
    if service.executions:
        doubts.append(timing.cv * service.ns / math.sqrt(service.executions))
    half = 1.96 * math.hypot(*doubts)
    if value > MOST_PAUSE * service.ns:
        return None
    return (
        Figure(value, value - half, value + half)
        if value > half
        else Figure(0.0, 0.0, max(0.0, value + half))
    )


def _lone(run: CalibrationRun) -> Floats | None:
    """Latency from the send of the requests during which no other one was under way; what lies far from their
    median (a stall, a late answer) is left out.
    """
    last = by_sending(run.log)
    if len(last) < MIN_LONE or (last.kind != Kind.OK).any() or len(np.unique(last.items)) > 1:
        return None
    sent, done = sent_ns(last), last.done_ns
    before = np.append(-1, np.maximum.accumulate(done)[:-1])
    after = np.append(sent[1:], np.iinfo(np.int64).max)
    lone = (done - sent)[(sent > before) & (after > done)].astype(np.float64)
    if len(lone) < MIN_LONE:
        return None
    middle = float(np.median(lone))
    sigma = _TO_SIGMA * float(np.median(np.abs(lone - middle)))
    kept: Floats = lone[np.abs(lone - middle) <= _OUTLIER * sigma]
    return kept if len(kept) >= MIN_LONE else None
