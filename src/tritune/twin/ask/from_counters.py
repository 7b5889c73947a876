"""A TwinProfile from counters alone: traffic that is not ours, no log, no client's times.

Service times and their variation come from batch statistics, the arrivals from what the windows show
(`burst`). What only a client or a log could show stays empty, and what follows is the server's part of the
latency: from the arrival to the server's answer.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import reduce
from operator import add

import msgspec
import numpy as np

from tritune.errors import ExitCode, TrituneError
from tritune.model.config import ServingConfig
from tritune.model.measurement import Estimate
from tritune.model.profile import ArrivalFit, Figure, ObservedRanges, ServiceTime, TwinProfile
from tritune.model.server import ServerWindow
from tritune.model.workload import Bursts
from tritune.twin.ask.predict import Prediction
from tritune.twin.ask.traffic import Traffic, requests_of
from tritune.twin.ask.validate import Validity
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import simulate
from tritune.twin.fit.agreement import chance, distance, distance_allowed, observed_sizes, queue_off
from tritune.twin.fit.burst import MIN_WINDOWS, BurstFit, fit_arrivals
from tritune.twin.fit.calibrate import MAX_FAILED, PRIOR_CV
from tritune.twin.fit.figures import timing_of
from tritune.twin.fit.replay import REPLAYS, executed_sizes
from tritune.twin.fit.service_fit import fit_service
from tritune.twin.fit.variation import variation
from tritune.units import format_duration

# Requests per simulation of the validation: more than any watch of a minute, so that chance is the watch's.
REQUESTS = 40_000
# Counters read without a lock may be a request apart.
_WHOLE = 0.01
# Bursts this long, as a part of the time watched, may as well be a load that drifts.
_DRIFT = 0.1
_Z95 = 1.959963984540054


class CounterProfile(msgspec.Struct, frozen=True):
    """The profile, how the arrivals were found, and how well both explain the counters they come from."""

    profile: TwinProfile
    arrivals: BurstFit
    validity: Validity

    @property
    def traffic(self) -> Traffic:
        """What came, as a prediction plays it; Poisson where no process fits (the validity then refuses)."""
        fit, items = self.arrivals.arrival, (self.profile.observed or _NOTHING).request_items[0]
        return Traffic(fit.rate_per_s, fit.process or "poisson", items, fit.bursts)


_NOTHING = ObservedRanges((), (), (1,), (), ())


def from_counters(
    config: ServingConfig,
    windows: Sequence[ServerWindow],
    *,
    triton_version: str = "",
    source: str = "",
) -> CounterProfile:
    """The profile that neighbouring windows of one model show (about a second each, MIN_WINDOWS at least).

    Raises TrituneError (exit 4): twin-bad-run (no traffic, a reset, failures, requests of several sizes, too
    few windows), twin-no-batches, twin-unsupported.
    """
    if why := _unusable(windows):
        raise TrituneError(
            f"nothing can be predicted from these counters: {why}",
            slug="twin-bad-run",
            hint="Watch for a minute or more while the model is used, or measure with tritune load.",
            exit_code=ExitCode.NOT_TRUSTWORTHY,
        )
    total = reduce(add, windows)
    counters = total.counters
    setting = setting_of(config, triton_version)
    cv = variation(windows) or Figure(PRIOR_CV, source="prior")
    stats = counters.batch_stats or {}
    inside = counters.queue.ns + counters.compute_input.ns + counters.compute_infer.ns
    overhead = (counters.success.ns - inside - counters.compute_output.ns) / counters.success.count
    busy = sum(stat.ns for stat in stats.values()) / (total.seconds * 1e9)
    items = round(mean_items(total))
    profile = TwinProfile(
        model=config.name,
        source=source,
        triton_version=triton_version,
        service_ns=fit_service(stats, {}, largest=max(1, config.max_batch_size), cv=cv.value),
        cv=cv,
        server_overhead_ns=Figure(max(0.0, overhead)),
        observed=ObservedRanges(
            rates_per_s=(counters.success.count / total.seconds,),
            batch_sizes=tuple(sorted(stats)),
            request_items=(items,),
            instances=(config.instances,),
            delays_us=(
                config.dynamic_batching.max_queue_delay_microseconds if config.dynamic_batching else 0,
            ),
            others_active=max(0.0, busy * (config.instances - 1) / config.instances),
        ),
    )
    arrivals = fit_arrivals(setting, timing_of(profile, setting.largest), windows, items=items)
    profile = msgspec.structs.replace(
        profile, arrival=arrivals.arrival, notes=(*profile.notes, *_notes(arrivals, total.seconds))
    )
    found = CounterProfile(profile, arrivals, Validity(0, 0, 0, 0, 0, None, None, None, 0))
    return msgspec.structs.replace(found, validity=_validated(config, found, total))


def mean_items(window: ServerWindow) -> float:
    """Items per request."""
    return window.counters.inference_count / window.counters.success.count


def variants(found: CounterProfile) -> tuple[tuple[TwinProfile, Bursts | None], ...]:
    """Profiles and bursts that the counters allow as well; how far apart their predictions lie is how
    sure one can be.
    """
    draws: Sequence[Bursts | None] = found.arrivals.draws or (None,) * 8
    generator = np.random.Generator(np.random.PCG64(11))
    shifts = generator.standard_normal((len(draws), len(found.profile.service_ns)))
    return tuple(
        (
            msgspec.structs.replace(
                found.profile,
                service_ns={
                    size: _shifted(time, float(by))
                    for (size, time), by in zip(found.profile.service_ns.items(), row, strict=True)
                },
            ),
            bursts,
        )
        for row, bursts in zip(shifts, draws, strict=True)
    )


def widened(prediction: Prediction, others: Sequence[Prediction]) -> Prediction:
    """The prediction with intervals that hold the spread of `others` (those of `variants`) as well.

    The value stays. An interval of the simulation and the spread of the others, both on the logarithm, add
    like independent errors.
    """
    latency = dict(prediction.latency)
    for name, estimate in prediction.latency.items():
        seen = [other.latency[name].value for other in others if other.settles and name in other.latency]
        logs = np.log([value for value in seen if value])
        if estimate.value and estimate.low and estimate.high and len(logs) > 1:
            own = math.log(estimate.high / estimate.value)
            half = math.hypot(own, _Z95 * float(logs.std(ddof=1)))
            latency[name] = Estimate(
                estimate.value, estimate.value * math.exp(-half), estimate.value * math.exp(half)
            )
    return msgspec.structs.replace(prediction, latency=latency)


def _shifted(time: ServiceTime, by: float) -> ServiceTime:
    if time.low_ns is None or time.high_ns is None:
        return time
    return msgspec.structs.replace(time, ns=max(1.0, time.ns + by * (time.high_ns - time.low_ns) / 2 / _Z95))


def _validated(config: ServingConfig, found: CounterProfile, total: ServerWindow) -> Validity:
    """The windows against simulations of the arrivals that were found in them.

    Where bursts were fitted to these counters, that they agree is necessary and no proof. Nobody timed a
    request, so the p99 is not compared.
    """
    setting = setting_of(config, found.profile.triton_version)
    timing = timing_of(found.profile, setting.largest)
    plays = [
        simulate(setting, requests_of(found.traffic, seed, REQUESTS), timing, seed=seed)
        for seed in range(1, REPLAYS + 1)
    ]
    observed = total.counters.queue.ns / total.counters.success.count
    replayed = float(np.mean([play.queue_ns().mean() for play in plays]))
    sizes = executed_sizes(plays)
    validity = Validity(
        queue_observed_ns=observed,
        queue_replayed_ns=replayed,
        queue_error=(replayed - observed) / observed if observed else float(replayed > 0),
        batch_distance=distance(observed_sizes(total), sizes),
        batch_noise=chance([executed_sizes([play]) for play in plays], sizes),
        p99_observed_ns=None,
        p99_replayed_ns=None,
        p99_error=None,
        requests=total.counters.success.count,
    )
    return msgspec.structs.replace(validity, refusal=_refusal(validity, found, total))


def _refusal(validity: Validity, found: CounterProfile, total: ServerWindow) -> str:
    if found.arrivals.arrival.process is None:
        return f"{found.arrivals.notes[0]}; measure with tritune load, which knows when it sends"
    request_ns = total.counters.success.mean_ns
    if queue_off(validity.queue_observed_ns, validity.queue_replayed_ns, request_ns):
        return (
            f"no arrivals that the twin can play explain the mean queue time of "
            f"{format_duration(validity.queue_observed_ns)}: the nearest gives "
            f"{format_duration(validity.queue_replayed_ns)}; watch for longer while the load is steady, or "
            f"measure with tritune load"
        )
    allowed = distance_allowed(validity.batch_noise)
    if validity.batch_distance > allowed:
        return (
            f"no arrivals that the twin can play explain the batch sizes (distance "
            f"{validity.batch_distance:.3f}, at most {allowed:.3f} would do); watch for longer while the "
            f"load is steady, or measure with tritune load"
        )
    return ""


def _notes(arrivals: BurstFit, seconds: float) -> tuple[str, ...]:
    fit: ArrivalFit = arrivals.arrival
    notes = [
        "from counters alone: latencies are the server's part, and no p99 was there to check against",
        *arrivals.notes,
    ]
    if fit.bursts is not None:
        notes.append(
            "bursts were fitted to the queue that they must explain, so that the queue proves nothing"
        )
        if fit.bursts.dwell_ns > _DRIFT * seconds * 1e9:
            notes.append("the bursts are so long that the load may have drifted instead; watch for longer")
    return tuple(notes)


def _unusable(windows: Sequence[ServerWindow]) -> str:
    """Why nothing can be learnt from these windows, empty where something can."""
    if len(windows) < MIN_WINDOWS:
        return f"{len(windows)} reads a second apart are too few, {MIN_WINDOWS} are needed"
    total = reduce(add, windows)
    counters = total.counters
    answered, failed = counters.success.count, counters.fail.count
    if total.reset:
        return "the server's counters were reset meanwhile"
    if any(window.replicas > 1 for window in windows):
        return "several replicas answer behind the address"
    if not answered:
        return "no request was answered"
    if failed > MAX_FAILED * (answered + failed):
        return f"{failed} of {answered + failed} requests failed"
    items = mean_items(total)
    if abs(items - round(items)) > _WHOLE or round(items) < 1:
        return f"requests differ in size ({items:.2f} items on average), and counters do not tell how"
    return ""
