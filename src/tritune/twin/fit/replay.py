"""The observed run once more in virtual time: the same requests at the instants at which they were sent."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tritune.model.config import ServingConfig
from tritune.model.profile import TwinProfile
from tritune.model.requests import Int64, RequestLog
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import ClosedLoop, Requests, Simulated, simulate
from tritune.twin.fit.figures import timing_of

# Each with other noise: what they differ by is chance alone.
REPLAYS = 8


def replay(config: ServingConfig, profile: TwinProfile, log: RequestLog) -> list[Simulated]:
    """REPLAYS plays of the last attempts, in the order of `by_sending`.

    Raises TrituneError (twin-unsupported) for a configuration that the twin does not play.
    """
    last = by_sending(log)
    setting = setting_of(config, profile.triton_version)
    load = Requests(sent_ns(last), items=last.items)
    timing = timing_of(profile, setting.largest)
    return [simulate(setting, load, timing, seed=seed) for seed in range(1, REPLAYS + 1)]


def replay_loop(
    config: ServingConfig, profile: TwinProfile, last: RequestLog, concurrency: int, pause_ns: int
) -> list[Simulated]:
    """REPLAYS plays of a closed loop; `pause_ns`: from an answer until the sender's next request."""
    setting = setting_of(config, profile.triton_version)
    timing = timing_of(profile, setting.largest)
    load = ClosedLoop(concurrency, len(last), pause_ns=max(0, pause_ns), items=last.items)
    return [simulate(setting, load, timing, seed=seed) for seed in range(1, REPLAYS + 1)]


def by_sending(log: RequestLog) -> RequestLog:
    """The last attempt of every request, in the order in which they were sent."""
    last = log.last_attempts()
    order = np.argsort(sent_ns(last), kind="stable")
    return RequestLog(**{name: getattr(last, name)[order] for name in last.columns()})


def sent_ns(log: RequestLog) -> Int64:
    """When each attempt was sent; its planned instant where it never was."""
    instants: Int64 = np.where(log.sent_ns >= 0, log.sent_ns, log.planned_ns)
    return instants


def executed_sizes(plays: Sequence[Simulated]) -> dict[int, int]:
    """Executions of all plays together by batch size."""
    counts = np.bincount(np.concatenate([play.batch_items for play in plays]).astype(np.int64))
    return {size: int(count) for size, count in enumerate(counts.tolist()) if count}
