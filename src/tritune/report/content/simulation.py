"""Predictions as a document: every row shows the twin's own error beside what it predicts."""

from __future__ import annotations

import re
from collections.abc import Sequence

from tritune.model.measurement import Estimate
from tritune.model.profile import TwinProfile
from tritune.model.slo import Slo
from tritune.report.content.document import Block, Bullets, Document, Paragraph, Section, Table, Verdict
from tritune.report.content.wording import NOTHING, count, figure, milliseconds, share
from tritune.twin.predict import SHOWN, Headroom, Knee, Prediction
from tritune.twin.validate import Validity
from tritune.units import NEVER_NS, format_duration, format_ms

UNCHECKED = "none"
_SHORT = (
    (r"max_queue_delay_microseconds: (\d+)", r"delay \1 us"),
    (r"preferred_batch_size: \[ (.*?) \]", r"preferred \1"),
    (r"instance_group\.count: (\d+)", r"instances \1"),
    (r"max_batch_size: (\d+)", r"max batch \1"),
)


def simulation_document(
    profile: TwinProfile,
    validity: Validity | None,
    predictions: Sequence[Prediction],
    headroom: Headroom,
    slo: Slo | None = None,
) -> Document:
    """The table of predictions, the headroom in one line, and how far to trust both."""
    refused = [prediction for prediction in predictions if prediction.refusal]
    reasons = dict.fromkeys(prediction.refusal for prediction in refused)
    summary: list[Block] = [_table(predictions, validity)]
    if reasons:
        summary.append(Bullets(tuple(f"Not predicted: {reason}." for reason in reasons)))
    summary.append(Paragraph(_trust(validity)))
    return Document(
        kind="simulation",
        title=f"Simulation of {profile.model}",
        context=f"{profile.source}{f', Triton {profile.triton_version}' if profile.triton_version else ''}",
        verdict=Verdict("Predicted", "neutral") if not refused else Verdict("Partly refused", "warn"),
        headline=headroom_line(headroom, slo),
        summary=tuple(summary),
        sections=(
            Section("Service time by batch size", (_service(profile),)),
            Section("What went into it", (Bullets(_figures(profile)),)),
        ),
    )


def headroom_line(headroom: Headroom, slo: Slo | None) -> str:
    """`As it is: 48 % of capacity; knee 1246/s (1230–1262) for p99 <= 50 ms; p99 at 1 / 1.3 / 1.6 x: ...`."""
    parts = [f"{share(headroom.load)} of capacity"] if headroom.load is not None else []
    if slo is not None:
        parts.append(f"{_knee(headroom.knee)} for {slo.main}")
    factors = " / ".join(headroom.p99_ns)
    values = " / ".join(_brief(estimate) for estimate in headroom.p99_ns.values())
    return f"As it is: {'; '.join([*parts, f'p99 at {factors} x the rate: {values}'])}."


def _knee(knee: Knee | None) -> str:
    if knee is None:
        return "knee not predicted"
    if knee.beyond:
        return f"knee above {figure(knee.rate_per_s)}/s, the highest rate that may be asked about,"
    if knee.rate_per_s == 0:
        return f"no rate up to {figure(knee.up_to)}/s holds"
    return f"knee {knee.rate_per_s:.0f}/s ({knee.low:.0f}–{knee.high:.0f})"


def _brief(estimate: Estimate) -> str:
    if estimate.value is None:
        return "not predicted"
    return "never settles" if estimate.value >= NEVER_NS else format_duration(estimate.value)


def _table(predictions: Sequence[Prediction], validity: Validity | None) -> Table:
    checked = UNCHECKED if validity is None else f"p99 {_error(validity.p99_error)}"
    rows = []
    for p in predictions:
        if p.refusal:
            cells = ("refused", *(NOTHING,) * (len(SHOWN) + 1))
        elif not p.settles:
            cells = ("never", "settles", NOTHING, figure(p.mean_batch), share(p.load))
        else:
            cells = (
                *(milliseconds(p.latency.get(name)) for name in SHOWN),
                figure(p.mean_batch),
                share(p.load),
            )
        rows.append((_short(p.setting), figure(p.rate_per_s), *cells, checked))
    return Table(
        columns=("setting", "rate/s", "p50, ms", "p95, ms", "p99, ms", "mean batch", "load", "replay"),
        rows=tuple(rows),
        alignment=("left", *("right",) * 7),
        notes=(
            "In brackets the 95 % interval of the simulation alone.",
            "Replay: the twin's own p99 against the measured one, where there was a run to check it on.",
        ),
    )


def _short(setting: str) -> str:
    """`delay 500 us, instances 2`: Triton's long names would take the whole line."""
    for long, short in _SHORT:
        setting = re.sub(long, short, setting)
    return setting


def _trust(validity: Validity | None) -> str:
    if validity is None:
        return (
            "Not checked against any run: service times were typed by hand, overheads and noise are left "
            "out. `tritune simulate RUN` checks itself against a run of `tritune load`."
        )
    return (
        f"Replaying the observed run ({count(validity.requests, 'request')}): queue mean "
        f"{format_duration(validity.queue_replayed_ns)} for {format_duration(validity.queue_observed_ns)} "
        f"measured ({_error(validity.queue_error)}), p99 {format_duration(validity.p99_replayed_ns)} for "
        f"{format_duration(validity.p99_observed_ns)} ({_error(validity.p99_error)}), batch sizes apart by "
        f"{validity.batch_distance:.3f}."
    )


def _error(relative: float) -> str:
    """`+4 %`; nothing is written `0 %`, without a sign."""
    percent = round(100 * relative)
    return f"{percent:+d} %" if percent else "0 %"


def _service(profile: TwinProfile) -> Table:
    rows = []
    for size, time in profile.service_ns.items():
        known = time.low_ns is not None and time.high_ns is not None
        bounds = f"{format_ms(time.low_ns or 0)}–{format_ms(time.high_ns or 0)}" if known else NOTHING
        rows.append((str(size), format_ms(time.ns), bounds, str(time.executions), time.source))
    return Table(
        columns=("items", "S(b), ms", "95 % interval, ms", "executions", "from"),
        rows=tuple(rows),
        alignment=("right",) * 4 + ("left",),
    )


def _figures(profile: TwinProfile) -> tuple[str, ...]:
    lines = [f"Variation of an execution (sd / mean): {profile.cv.value:.3g} ({profile.cv.source})."]
    for name, overhead in (("client", profile.client_overhead_ns), ("server", profile.server_overhead_ns)):
        known = "not known, left out" if overhead is None else format_duration(overhead.value)
        lines.append(f"Overhead of the {name}: {known}.")
    if profile.contention is None and profile.observed is None:
        lines.append("Instances are taken not to slow each other down; --contention says otherwise.")
    elif profile.contention is None:
        lines.append(
            "How much instances slow each other down is not known; other instance counts are refused."
        )
    else:
        lines.append(f"Each other active instance slows one down by {profile.contention.value:.0%} (given).")
    lines.append(
        "Rare stalls, the batcher's wake-up time and lost wake-ups (lazy dispatch) are not estimated yet."
    )
    return tuple(line.replace("%", " %") for line in lines)
