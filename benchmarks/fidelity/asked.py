"""The predictions of one point, made before it is measured."""

from __future__ import annotations

import msgspec
import numpy as np

from fidelity.points import BURSTS, MAX_BATCH, Point
from fidelity.rivals import inoue_mean_ns, late_binding_ns
from tritune.model.config import ServingConfig
from tritune.model.profile import TwinProfile
from tritune.model.requests import Int64
from tritune.stats.quantiles import quantile
from tritune.twin.ask.predict import predict
from tritune.twin.ask.traffic import Traffic
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import Requests, simulate
from tritune.twin.fit.calibrate import timing_of

REPLAYS = 16
SHOWN = {"p50": 0.5, "p95": 0.95, "p99": 0.99}


class Asked(msgspec.Struct, frozen=True):
    """Milliseconds. `twin` for the plan that will be sent (median over draws of the noise), `low` and `high`
    the range of its p99 over those draws; `fresh` for other arrivals of the same kind, as `tritune simulate`
    gives them; `late_binding` the recursion on the same plan; `inoue` a mean, where it applies. `batches`:
    share of executions by size. `refusal`: why `tritune simulate` would not have answered.
    """

    point: str
    requests: int
    twin: dict[str, float]
    low: float
    high: float
    batches: dict[int, float]
    fresh: dict[str, float]
    late_binding: dict[str, float]
    inoue: float | None
    refusal: str = ""


def ask(point: Point, config: ServingConfig, profile: TwinProfile, planned_ns: Int64) -> Asked:
    setting = setting_of(config, profile.triton_version)
    timing = timing_of(profile, setting.largest)
    plays = [simulate(setting, Requests(planned_ns), timing, seed=seed) for seed in range(1, REPLAYS + 1)]
    latencies = [play.latency_ns() for play in plays]
    p99 = [quantile(one, 0.99) for one in latencies]
    sizes = np.bincount(np.concatenate([play.batch_items for play in plays]))
    traffic = Traffic(
        point.rate_per_s,
        "on-off" if point.on_off else "poisson",
        bursts=BURSTS if point.on_off else None,
    )
    fresh = predict(profile, config, traffic)
    overhead = timing.send_ns + timing.reply_ns
    recursion = late_binding_ns(
        planned_ns,
        timing.service_ns,
        instances=point.instances,
        max_batch=MAX_BATCH,
        delay_ns=point.delay_us * 1000,
        contention=timing.contention[0] if timing.contention else 0.0,
        overhead_ns=overhead,
    )
    applies = point.instances == 1 and not point.on_off
    return Asked(
        point=str(point),
        requests=len(planned_ns),
        twin={
            "mean": float(np.mean([one.mean() for one in latencies])) / 1e6,
            **{n: float(np.median([quantile(one, q) for one in latencies])) / 1e6 for n, q in SHOWN.items()},
        },
        low=min(p99) / 1e6,
        high=max(p99) / 1e6,
        batches={size: float(n / sizes.sum()) for size, n in enumerate(sizes.tolist()) if n},
        fresh={name: (e.value or float("nan")) / 1e6 for name, e in fresh.latency.items()},
        late_binding={
            "mean": float(recursion.mean()) / 1e6,
            **{name: quantile(recursion, q) / 1e6 for name, q in SHOWN.items()},
        },
        inoue=inoue_mean_ns(point.rate_per_s, timing.service_ns, overhead) / 1e6 if applies else None,
        refusal=fresh.refusal,
    )
