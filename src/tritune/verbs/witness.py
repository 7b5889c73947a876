"""Independent views of one setting on a freshly started server: do others see what we claim?

Three witnesses: our own open loop once more, against a server that read the setting from its file; Triton's
own latency summaries over the same time; and hey, a generator we did not write, in closed loop.
"""

from __future__ import annotations

from collections.abc import Callable

import msgspec

from tritune.errors import TrituneError
from tritune.model.workload import Workload
from tritune.pbtxt.message import view_json
from tritune.tune.result import View
from tritune.units import NS_PER_US
from tritune.verbs.measure import Instruments, believable, measure, warm_up
from tritune.verbs.preflight import served


class Testimony(msgspec.Struct, frozen=True):
    """p99 as each witness saw it, ns; None = could not be had, `notes` say why."""

    fresh: float | None
    summary: float | None
    closed_loop: float | None
    notes: tuple[str, ...] = ()


# The p99 of a closed loop by another generator, ns.
ClosedLoop = Callable[[], float]


def testify(kit: Instruments, workload: Workload, closed_loop: ClosedLoop) -> Testimony:
    """What the three witnesses see on `kit.server`, which must have been started for this alone.

    Triton's summaries cover the last 60 s, so only a fresh server keeps them free of other settings.
    """
    now = served(kit.server, workload.model, view_json)
    version = now.versions[-1]
    warm_up(kit, workload, version, now.config, None)
    cell = believable(
        lambda: measure(kit, workload, version, setting="fresh server", data=None), kit.progress
    ).measurement
    summary = (cell.summaries_us or {}).get("0.99")
    notes: tuple[str, ...] = ()
    other = None
    try:
        kit.progress.step("asking hey, in closed loop")
        other = closed_loop()
    except TrituneError as error:
        notes = (f"{error.message}. {error.hint}".strip(),)
    p99 = cell.latency["p99"].value
    return Testimony(p99, None if summary is None else summary * NS_PER_US, other, notes)


def views(before: Testimony, after: Testimony | None, in_flight: int) -> tuple[View, ...]:
    """The witnesses side by side."""
    rows = (
        (
            "fresh server",
            "the same open-loop plan against a newly started server that read the file",
            "fresh",
        ),
        (
            "Triton's summary",
            "nv_inference_request_summary_us of that server: no client, no network",
            "summary",
        ),
        ("hey", f"closed loop, {in_flight} in flight, JSON, a generator we did not write", "closed_loop"),
    )
    return tuple(
        View(name, what, getattr(before, field), None if after is None else getattr(after, field))
        for name, what, field in rows
    )
