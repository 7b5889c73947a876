"""What the figures of a profile mean for a simulation, and profiles whose figures a person gave."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from tritune.model.profile import Figure, ServiceTime, TwinProfile
from tritune.twin.engine.timing import Timing


def timing_of(profile: TwinProfile, setting_largest: int, *, contention: float | None = None) -> Timing:
    """What the simulation takes: S(b) of one instance working alone, overheads, variation, contention.

    The contention is the profile's, where it was measured or given there, else `contention`. Where it was not
    measured, S(b) as observed holds the slowing-down by the others that were active; with a contention given
    that is taken out, so that the simulation can put in its own. Sizes without a service time take the
    nearest known one: whoever calls must refuse a prediction in which they occur (see `unknown_sizes`).
    """
    seen = profile.observed.others_active if profile.observed else 0.0
    slows = contention_of(profile, contention)
    slowed = 1.0 + (slows[0] if slows else 0.0) * seen
    known = np.array(sorted(profile.service_ns))
    means = np.array([profile.service_ns[int(size)].ns for size in known]) / slowed
    table = np.interp(np.arange(max(setting_largest, int(known[-1])) + 1), known, means)
    client, server = _value(profile.client_overhead_ns), _value(profile.server_overhead_ns)
    return Timing(
        tuple(float(ns) for ns in table),
        contention=slows,
        cv=profile.cv.value,
        stall_p=_value(profile.stall_p),
        stall_ns=round(_value(profile.stall_ns)),
        # The counters do not say on which way the time outside goes; only the sum reaches the latency.
        send_ns=round(client / 2),
        reply_ns=round(client - client / 2 + server),
        turnaround_ns=round(_value(profile.turnaround_ns)),
        wake_ns=round(_value(profile.wake_ns)),
        lost_wakeup_p=_value(profile.lost_wakeup_p),
    )


def contention_of(profile: TwinProfile, contention: float | None = None) -> tuple[float, ...]:
    """As `Timing.contention`: the one that a person gives comes first, then the profile's, by size if it
    has one; empty: none.
    """
    if contention is not None:
        return (contention,) if contention else ()
    if profile.contention_by_size:
        sizes = sorted(profile.contention_by_size)
        every = np.interp(np.arange(sizes[-1] + 1), sizes, [profile.contention_by_size[s] for s in sizes])
        return tuple(float(value) for value in every)
    return (profile.contention.value,) if profile.contention and profile.contention.value else ()


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


def with_contention(profile: TwinProfile, contention: float | None) -> TwinProfile:
    """The profile with a contention that somebody gave."""
    if contention is None:
        return profile
    return msgspec.structs.replace(
        profile, contention=Figure(contention, source="given"), contention_by_size=None
    )


def _value(figure: Figure | None) -> float:
    return 0.0 if figure is None else figure.value
