"""From load runs to a TwinProfile: what the counters and the client's own times say, and no more."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from typing import TypeVar

import msgspec
import numpy as np

from tritune.errors import ExitCode, TrituneError
from tritune.model.config import ServingConfig
from tritune.model.measurement import Sender
from tritune.model.profile import ArrivalFit, Figure, ObservedRanges, Process, TwinProfile
from tritune.model.requests import Int64, Kind, RequestLog
from tritune.model.server import BatchStat, ServerWindow
from tritune.twin.fit.calibration_run import CalibrationRun
from tritune.twin.fit.contention import Contention, fit_contention
from tritune.twin.fit.figures import timing_of as timing_of
from tritune.twin.fit.figures import typed_profile as typed_profile
from tritune.twin.fit.figures import with_contention as with_contention
from tritune.twin.fit.residuals import lone_variation, lost_wakeups, pauses
from tritune.twin.fit.service import MIN_EXECUTIONS
from tritune.twin.fit.service_fit import fit_service
from tritune.twin.fit.stalls import Stalls, find_stalls, without
from tritune.twin.fit.variation import Stats, variation_of
from tritune.units import NS_PER_S

# Counters hold sums, so one window says nothing of how executions vary. Kernels vary little (research.md 1).
PRIOR_CV = 0.05
MAX_FAILED = 0.01
# The server counts what others sent too.
MAX_FOREIGN = 0.01

T = TypeVar("T")


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
    """The profile of one run: `calibrate_runs` of that run alone."""
    run = CalibrationRun(
        config,
        "",
        window,
        log,
        sender,
        warm_up=warm_up or {},
        parts=tuple(parts),
        triton_version=triton_version,
        source=source,
    )
    return calibrate_runs((run,))


def calibrate_runs(runs: Sequence[CalibrationRun]) -> TwinProfile:
    """The profile that several runs of one model on one machine show together; the first is the reference.

    Its setting and rate are what is asked about: S(b), overheads and what its replay leaves unexplained come
    from it; sizes that it lacks come from the others. Runs that nothing can be learnt from are left out with
    a note, the reference is refused. Contention needs runs with different instance counts; with it S(b) is
    that of one instance alone.

    Raises TrituneError (exit 4): twin-no-batches, twin-bad-run (nothing answered, too many failures, others'
    requests, or counters that were reset); ValueError without a run.
    """
    if not runs:
        raise ValueError("a calibration needs a run")
    first = runs[0]
    if why := _unusable(first):
        raise TrituneError(
            f"nothing can be predicted from this run: {why}",
            slug="twin-bad-run",
            hint="Measure again with tritune load, at a rate that the server answers.",
            exit_code=ExitCode.NOT_TRUSTWORTHY,
        )
    notes = [f"{run.source} was left out: {why}" for run in runs[1:] if (why := _unusable(run))]
    used = [first, *(run for run in runs[1:] if not _unusable(run))]
    stalls = [find_stalls(run.parts, _start_ns(run), run.log) for run in used]
    cv = _variation(used, stalls)
    totals = [_measured(run, stall) for run, stall in zip(used, stalls, strict=True)]
    parts = [stall.parts or [total] for stall, total in zip(stalls, totals, strict=True)]
    contention = Contention(None)
    if len(used) > 1:
        contention = fit_contention(used, parts, cv.value)
        if contention.why:
            notes.append(contention.why)
    largest = max(max(1, run.config.max_batch_size) for run in used)
    measured = _alone(totals, contention)
    # Nobody counted the company of a warm-up, so S(b) of one instance alone takes that of one alone.
    alone = [run.warm_up for run in used if contention.value is None or run.config.instances == 1]
    profile = TwinProfile(
        model=first.config.name,
        source=", ".join(run.source for run in used if run.source),
        triton_version=first.triton_version,
        service_ns=fit_service(measured, alone[0] if alone else {}, largest=largest, cv=cv.value),
        cv=cv,
        contention=contention.value,
        contention_by_size=dict(contention.by_size) or None,
        client_overhead_ns=_client_overhead(first),
        server_overhead_ns=_server_overhead(first),
        stall_p=stalls[0].p,
        stall_ns=stalls[0].ns,
        arrival=_arrival(first),
        observed=_observed(used, contention),
        notes=tuple(notes),
    )
    return _explained(first, profile)


def _explained(run: CalibrationRun, profile: TwinProfile) -> TwinProfile:
    """The profile with what the replay of the run shows."""
    if not run.own_log:
        return profile
    timing = timing_of(profile, max(1, run.config.max_batch_size))
    lost = lost_wakeups(run, timing, timing.send_ns + timing.reply_ns)
    profile = msgspec.structs.replace(profile, lost_wakeup_p=lost)
    return msgspec.structs.replace(profile, **pauses(run, profile))


def _variation(runs: Sequence[CalibrationRun], stalls: Sequence[Stalls]) -> Figure:
    """Of the first run that shows it; of one instance before several, whose company varies as well."""
    order = sorted(range(len(runs)), key=lambda r: runs[r].config.instances > 1)
    for run, stall in ((runs[r], stalls[r]) for r in order):
        if (found := variation_of(stall.parts)) is None:
            continue
        alone = (run.window.counters.batch_stats or {}).get(1)
        lone = lone_variation(run, alone.ns / alone.count) if run.own_log and alone and alone.ns else None
        return lone if lone is not None and lone.value < found.value else found
    return Figure(PRIOR_CV, source="prior")


def _measured(run: CalibrationRun, stalls: Stalls) -> Stats:
    """The batch statistics of the window without the time of stalls."""
    stats = run.window.counters.batch_stats or {}
    return {size: without(stat, stalls.excess_ns.get(size, 0)) for size, stat in stats.items()}


def _alone(totals: Sequence[Stats], contention: Contention) -> dict[int, BatchStat]:
    """Batch statistics by size, of the first run that has enough of it, without what company cost there."""
    found: dict[int, BatchStat] = {}
    for r, stats in enumerate(totals):
        for size, stat in stats.items():
            if size not in found or found[size].count < MIN_EXECUTIONS <= stat.count:
                company = stat.ns * (1 - 1 / contention.slowed(r, size))
                found[size] = without(stat, round(company)) if company else stat
    return found


def _client_overhead(run: CalibrationRun) -> Figure:
    """The client's mean latency from the send, less the server's mean request."""
    last, counters = run.log.last_attempts(), run.window.counters
    ok = last.kind == Kind.OK
    latency = float((last.done_ns - last.planned_ns)[ok].mean()) - _late(last, run.sender)
    return Figure(max(0.0, latency - counters.success.ns / counters.success.count))


def _server_overhead(run: CalibrationRun) -> Figure:
    """The server's mean request, less queue and compute."""
    c = run.window.counters
    inside = c.queue.ns + c.compute_input.ns + c.compute_infer.ns + c.compute_output.ns
    return Figure(max(0.0, (c.success.ns - inside) / c.success.count))


def _arrival(run: CalibrationRun) -> ArrivalFit:
    """Of an open loop; the requests of a closed one follow the answers, so no process fits them."""
    planned = np.sort(run.log.last_attempts().planned_ns)
    fit = arrival_fit(planned)
    return msgspec.structs.replace(fit, process=None) if run.concurrency else fit


def _observed(runs: Sequence[CalibrationRun], contention: Contention) -> ObservedRanges:
    """Other instance counts than the reference's were only of use where they showed the contention."""
    first = runs[0]
    counted = (
        runs
        if contention.value is not None
        else [run for run in runs if _instances(run) == _instances(first)]
    )
    logs = [run.log.last_attempts() for run in runs]
    busy = sum(stat.ns for stat in (first.window.counters.batch_stats or {}).values())
    active = busy / (first.window.seconds * 1e9) if first.window.seconds > 0 else 0.0
    others = active * (_instances(first) - 1) / _instances(first)
    return ObservedRanges(
        rates_per_s=_distinct(rate_of(np.sort(log.planned_ns)) for log in logs),
        batch_sizes=tuple(sorted({size for run in runs for size in run.window.counters.batch_stats or {}})),
        request_items=tuple(sorted({int(n) for log in logs for n in np.unique(log.items)})),
        instances=_distinct(_instances(run) for run in counted),
        delays_us=_distinct(_delay_us(run.config) for run in runs),
        others_active=0.0 if contention.value is not None else max(0.0, others),
    )


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


def _unusable(run: CalibrationRun) -> str:
    """Why nothing can be learnt from a run, empty where something can."""
    last, window = run.log.last_attempts(), run.window
    answered, counted = int((last.kind == Kind.OK).sum()), window.counters.success.count
    failed = len(last) - answered
    foreign = counted - len(run.log)
    reasons = (
        (window.reset, "the server's counters were reset while it ran"),
        (not answered or not counted, "no request was answered"),
        (failed > MAX_FAILED * len(last), f"{failed} of its {len(last)} requests failed"),
        (
            run.own_log and foreign > MAX_FOREIGN * counted,
            f"{foreign} of the {counted} requests that the server counted were not its own",
        ),
    )
    return next((why for applies, why in reasons if applies), "")


def _start_ns(run: CalibrationRun) -> int:
    """About when the log's clock began, on the clock of the windows: after the first read."""
    return run.window.t0_ns


def _late(last: RequestLog, sender: Sender) -> float:
    """How late requests were sent on average; the sender's fault, so no part of the client's overhead."""
    sent = last.sent_ns >= 0
    late = (last.sent_ns - last.planned_ns)[sent]
    return float(late.mean()) if len(late) else sender.lateness_p50_ns


def _delay_us(config: ServingConfig) -> int:
    return config.dynamic_batching.max_queue_delay_microseconds if config.dynamic_batching else 0


def _instances(run: CalibrationRun) -> int:
    return run.config.instances


def _distinct(values: Iterable[T]) -> tuple[T, ...]:
    """Each value once, in the order in which it first came: the reference's first."""
    return tuple(dict.fromkeys(values))
