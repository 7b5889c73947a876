"""From one load run to a TwinProfile: what the counters and the client's own times say, and no more."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from tritune.errors import ExitCode, TrituneError
from tritune.model.config import ServingConfig
from tritune.model.measurement import Sender
from tritune.model.profile import (
    ArrivalFit,
    Figure,
    ObservedRanges,
    Process,
    ServiceTime,
    TwinProfile,
)
from tritune.model.requests import Int64, Kind, RequestLog
from tritune.model.server import BatchStat, ServerWindow
from tritune.twin.calibration_run import CalibrationRun
from tritune.twin.service_fit import fit_service
from tritune.twin.timing import Timing
from tritune.units import NS_PER_S

# Counters hold sums, so one window says nothing of how executions vary. Kernels vary little (research.md 1).
PRIOR_CV = 0.05
# A variance from fewer windows is mostly chance.
MIN_WINDOWS = 5
MAX_FAILED = 0.01


def calibrate(
    config: ServingConfig,
    window: ServerWindow,
    log: RequestLog,
    sender: Sender,
    *,
    warm_up: Mapping[int, BatchStat] | None = None,
    parts: Sequence[ServerWindow] = (),
    triton_version: str = "",
    source: str = "",
) -> TwinProfile:
    """The profile of the model as this run showed it.

    `warm_up`: batch statistics of executions before the window, for sizes that the window lacks. `parts`:
    shorter windows of the same run; from MIN_WINDOWS on they give the variation of executions, otherwise
    it is a stated prior. Contention is never estimated here: one setting cannot show it.

    Raises TrituneError (exit 4): twin-no-batches, twin-bad-run (nothing answered, too many failures, or
    counters that were reset).
    """
    last = log.last_attempts()
    _usable(window, last)
    counters = window.counters
    cv = variation(parts) or Figure(PRIOR_CV, source="prior")
    ok = last.kind == Kind.OK
    requests = counters.success.count
    inside = counters.queue.ns + counters.compute_input.ns + counters.compute_infer.ns
    server_ns = counters.success.ns / requests
    outside_ns = float((last.done_ns - last.planned_ns)[ok].mean()) - server_ns - _late(last, sender)
    busy = sum(stat.ns for stat in (counters.batch_stats or {}).values())
    active = busy / (window.seconds * 1e9) if window.seconds > 0 else 0.0
    return TwinProfile(
        model=config.name,
        source=source,
        triton_version=triton_version,
        service_ns=fit_service(
            counters.batch_stats or {}, warm_up or {}, largest=max(1, config.max_batch_size), cv=cv.value
        ),
        cv=cv,
        client_overhead_ns=Figure(max(0.0, outside_ns)),
        server_overhead_ns=Figure(max(0.0, server_ns - (inside + counters.compute_output.ns) / requests)),
        arrival=arrival_fit(np.sort(last.planned_ns)),
        observed=ObservedRanges(
            rates_per_s=(rate_of(np.sort(last.planned_ns)),),
            batch_sizes=tuple(sorted(counters.batch_stats or {})),
            request_items=tuple(sorted({int(n) for n in np.unique(last.items)})),
            instances=(config.instances,),
            delays_us=(_delay_us(config),),
            others_active=max(0.0, active * (config.instances - 1) / config.instances),
        ),
    )


def calibrate_runs(runs: Sequence[CalibrationRun]) -> TwinProfile:
    """The profile that several runs of one model on one machine show together; the first is the reference.

    Its setting and rate are what is asked about. Raises as `calibrate`; ValueError without a run.
    """
    if not runs:
        raise ValueError("a calibration needs a run")
    first = runs[0]
    return calibrate(
        first.config,
        first.window,
        first.log,
        first.sender,
        warm_up=first.warm_up,
        parts=first.parts,
        triton_version=first.triton_version,
        source=first.source,
    )


def timing_of(profile: TwinProfile, setting_largest: int, *, contention: float | None = None) -> Timing:
    """What the simulation takes: S(b) of one instance working alone, overheads, variation.

    S(b) as observed holds the slowing-down by the others that were active; with a `contention` given that is
    taken out, so that the simulation can put in its own. Sizes without a service time take the nearest
    known one: whoever calls must refuse a prediction in which they occur (see `unknown_sizes`).
    """
    seen = profile.observed.others_active if profile.observed else 0.0
    slowed = 1.0 + (contention or 0.0) * seen
    known = np.array(sorted(profile.service_ns))
    means = np.array([profile.service_ns[int(size)].ns for size in known]) / slowed
    table = np.interp(np.arange(max(setting_largest, int(known[-1])) + 1), known, means)
    client, server = _value(profile.client_overhead_ns), _value(profile.server_overhead_ns)
    return Timing(
        tuple(float(ns) for ns in table),
        contention=(contention,) if contention else (),
        cv=profile.cv.value,
        stall_p=_value(profile.stall_p),
        stall_ns=round(_value(profile.stall_ns)),
        # The counters do not say on which way the time outside goes; only the sum reaches the latency.
        send_ns=round(client / 2),
        reply_ns=round(client - client / 2 + server),
        wake_ns=round(_value(profile.wake_ns)),
        lost_wakeup_p=_value(profile.lost_wakeup_p),
    )


def typed_profile(model: str, text: str, service_ns: Sequence[float], *, version: str = "") -> TwinProfile:
    """A profile from figures given by hand; `service_ns[i]` is S(i + 1). Overheads are not known: none."""
    times = {size: ServiceTime(ns, source="given") for size, ns in enumerate(service_ns, 1)}
    return TwinProfile(
        model=model,
        source=f"typed by hand: {text}",
        triton_version=version,
        service_ns=times,
        cv=Figure(0.0, source="given"),
    )


def variation(parts: Sequence[ServerWindow]) -> Figure | None:
    """Coefficient of variation of one execution from the means of several windows; None for fewer than five.

    sigma_b^2 = sum_k n_bk (s_bk - S_b)^2 / (K_b - 1) (research.md 3), pooled over sizes as a share of S_b^2.
    """
    if len(parts) < MIN_WINDOWS:
        return None
    squares, freedom = 0.0, 0
    for size in {size for part in parts for size in part.counters.batch_stats or {}}:
        stats = [part.counters.batch_stats or {} for part in parts]
        seen = [stat[size] for stat in stats if size in stat and stat[size].count]
        mean = sum(stat.ns for stat in seen) / sum(stat.count for stat in seen)
        if len(seen) > 1 and mean > 0:
            squares += sum(stat.count * (stat.ns / stat.count / mean - 1) ** 2 for stat in seen)
            freedom += len(seen) - 1
    return Figure(math.sqrt(squares / freedom)) if freedom >= MIN_WINDOWS - 1 else None


def arrival_fit(planned_ns: Int64) -> ArrivalFit:
    """Rate and kind of the arrivals; instants in order. Poisson's scv scatters by about 3 / sqrt(n)."""
    gaps = np.diff(planned_ns).astype(np.float64)
    mean = float(gaps.mean()) if len(gaps) else 0.0
    scv = float(gaps.var() / mean**2) if mean > 0 else 0.0
    process: Process | None = None
    if len(gaps) and scv < 0.05:
        process = "constant"
    elif len(gaps) and abs(scv - 1) <= max(0.1, 6 / math.sqrt(len(gaps))):
        process = "poisson"
    return ArrivalFit(rate_of(planned_ns), scv, process)


def rate_of(planned_ns: Int64) -> float:
    """Requests per second between the first and the last instant; 0 for fewer than two."""
    span = int(planned_ns[-1] - planned_ns[0]) if len(planned_ns) else 0
    return (len(planned_ns) - 1) / span * NS_PER_S if span else 0.0


def with_contention(profile: TwinProfile, contention: float | None) -> TwinProfile:
    """The profile with a contention that somebody gave."""
    if contention is None:
        return profile
    return msgspec.structs.replace(profile, contention=Figure(contention, source="given"))


def _usable(window: ServerWindow, last: RequestLog) -> None:
    answered = int((last.kind == Kind.OK).sum())
    failed = len(last) - answered
    reasons = (
        (window.reset, "the server's counters were reset while it ran"),
        (not answered or not window.counters.success.count, "no request was answered"),
        (failed > MAX_FAILED * len(last), f"{failed} of its {len(last)} requests failed"),
    )
    for applies, why in reasons:
        if applies:
            raise TrituneError(
                f"nothing can be predicted from this run: {why}",
                slug="twin-bad-run",
                hint="Measure again with tritune load, at a rate that the server answers.",
                exit_code=ExitCode.NOT_TRUSTWORTHY,
            )


def _late(last: RequestLog, sender: Sender) -> float:
    """How late requests were sent on average; the sender's fault, so no part of the client's overhead."""
    sent = last.sent_ns >= 0
    late = (last.sent_ns - last.planned_ns)[sent]
    return float(late.mean()) if len(late) else sender.lateness_p50_ns


def _delay_us(config: ServingConfig) -> int:
    return config.dynamic_batching.max_queue_delay_microseconds if config.dynamic_batching else 0


def _value(figure: Figure | None) -> float:
    return 0.0 if figure is None else figure.value
