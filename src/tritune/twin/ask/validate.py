"""How far the twin may be trusted here: it replays what was observed, and its own error decides."""

from __future__ import annotations

import msgspec
import numpy as np

from tritune.model.config import ServingConfig
from tritune.model.profile import TwinProfile
from tritune.model.requests import RequestLog
from tritune.model.server import ServerWindow
from tritune.stats.quantiles import quantile
from tritune.twin.engine.simulate import Simulated
from tritune.twin.fit.agreement import chance, distance, distance_allowed, observed_sizes, queue_off, relative
from tritune.twin.fit.replay import by_sending, executed_sizes, replay, replay_loop, sent_ns
from tritune.twin.fit.service_fit import ran_sizes, reach
from tritune.units import format_duration

# Refusal threshold, as those of fit/agreement.py (interfaces, Twin).
MAX_P99_ERROR = 0.20
MAX_RATE_FACTOR = 1.6
# Batches of an unknown size may hold so small a share of the items: no percentile shown notices them.
RARE = 0.001


class Validity(msgspec.Struct, frozen=True):
    """The observed run against its replay. Errors are (replayed - observed) / observed.

    `batch_distance`: total variation between the two distributions of executed batch sizes, 0 to 1;
    `batch_noise`: that of a single replay to all of them, which is chance alone.
    p99: None where nobody timed the requests (counters alone). `refusal`: why nothing may be predicted and
    what to measure instead; empty where the twin holds.
    """

    queue_observed_ns: float
    queue_replayed_ns: float
    queue_error: float
    batch_distance: float
    batch_noise: float
    p99_observed_ns: float | None
    p99_replayed_ns: float | None
    p99_error: float | None
    requests: int
    refusal: str = ""


def validate(
    config: ServingConfig,
    profile: TwinProfile,
    window: ServerWindow,
    log: RequestLog,
    *,
    concurrency: int = 0,
) -> Validity:
    """Replay the requests at the instants at which they were really sent, several times with other noise.

    The sender's lateness, which the measured latency holds, is added to the replayed one. A closed loop
    (`concurrency` > 0) is replayed as one: its requests follow the replayed answers, not the real ones.
    """
    last = by_sending(log)
    late = (sent_ns(last) - last.planned_ns).astype(np.float64)
    if concurrency:
        late = np.full(len(last), float(late.mean()))
        plays = replay_loop(config, profile, last, concurrency, round(late[0]))
    else:
        plays = replay(config, profile, log)
    observed_queue = window.counters.queue.ns / window.counters.success.count
    replayed_queue = float(np.mean([play.queue_ns().mean() for play in plays]))
    observed_p99 = quantile(log.latency_ns(), 0.99)
    replayed_p99 = float(np.median([quantile(play.latency_ns() + late, 0.99) for play in plays]))
    sizes = executed_sizes(plays)
    found = Validity(
        queue_observed_ns=observed_queue,
        queue_replayed_ns=replayed_queue,
        queue_error=relative(replayed_queue, observed_queue),
        batch_distance=distance(observed_sizes(window), sizes),
        batch_noise=chance([executed_sizes([play]) for play in plays], sizes),
        p99_observed_ns=observed_p99,
        p99_replayed_ns=replayed_p99,
        p99_error=relative(replayed_p99, observed_p99),
        requests=len(last),
    )
    return msgspec.structs.replace(found, refusal=_refusal(found, window.counters.success.mean_ns))


def outside(
    profile: TwinProfile, config: ServingConfig, rate_per_s: float, items: int, contention: float | None
) -> str:
    """Why this question lies outside what was observed, and what to measure instead; empty inside.

    A typed profile has no observed ranges: nothing lies outside of them but what has no service time.
    """
    seen = profile.observed
    if seen is None:
        return ""
    highest = max(seen.rates_per_s)
    if rate_per_s > MAX_RATE_FACTOR * highest * 1.001:
        return (
            f"{rate_per_s:.4g} requests/s is more than {MAX_RATE_FACTOR:g} times the observed {highest:.4g}; "
            f"measure at {rate_per_s / MAX_RATE_FACTOR:.4g} requests/s or more"
        )
    if items not in seen.request_items:
        return f"requests of {items} items were not observed; measure with --items {items}"
    if config.instances not in seen.instances and contention is None and profile.contention is None:
        ran = "1 instance was" if seen.instances == (1,) else f"{_list(seen.instances)} instances were"
        return (
            f"only {ran} observed, and how much others slow each other down is not known; measure "
            f"with {config.instances}, or give --contention"
        )
    return ""


def unknown_sizes(profile: TwinProfile, plays: list[Simulated]) -> str:
    """Why the batches of a prediction are not covered by the service times; empty where they are."""
    sizes = executed_sizes(plays)
    low, high = reach(profile.service_ns)
    beyond = []
    for size in sizes:
        known = profile.service_ns.get(size)
        if known is None or not (known.source != "extrapolated" or known.executions or low <= size <= high):
            beyond.append(size)
    items = sum(size * count for size, count in sizes.items())
    if sum(size * sizes[size] for size in beyond) <= RARE * items:
        return ""
    return (
        f"batches of {_list(tuple(beyond))} items would form, and only "
        f"{_list(ran_sizes(profile.service_ns))} ran; measure with the warm-up of "
        "tritune load, which runs every batch size"
    )


def _refusal(found: Validity, request_ns: float) -> str:
    if queue_off(found.queue_observed_ns, found.queue_replayed_ns, request_ns):
        return (
            f"replaying the run gives a mean queue time of {format_duration(found.queue_replayed_ns)} where "
            f"{format_duration(found.queue_observed_ns)} was measured; measure the settings themselves with "
            f"tritune load, or calibrate again on a quiet machine"
        )
    allowed = distance_allowed(found.batch_noise)
    if found.batch_distance > allowed:
        return (
            f"replaying the run gives other batch sizes (distance {found.batch_distance:.3f}, at most "
            f"{allowed:.3f} would do); measure for longer, so that batches are counted more exactly"
        )
    return p99_refusal(found)


def p99_refusal(found: Validity) -> str:
    """Why the p99 speaks against the twin; empty where it does not, or nobody timed the requests."""
    error, replayed, measured = found.p99_error, found.p99_replayed_ns, found.p99_observed_ns
    if error is None or replayed is None or measured is None or abs(error) <= MAX_P99_ERROR:
        return ""
    return (
        f"replaying the run gives a p99 of {format_duration(replayed)} where "
        f"{format_duration(measured)} was measured; measure for longer, on a quiet machine"
    )


def _list(numbers: tuple[int, ...]) -> str:
    return ", ".join(map(str, numbers))
