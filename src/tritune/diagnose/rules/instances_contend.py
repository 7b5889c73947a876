"""instances-contend: several instances slow each other down, and split the batches."""

from __future__ import annotations

from tritune.diagnose.contention import BREAK_EVEN, by_load, kink
from tritune.diagnose.context import Context
from tritune.diagnose.moves import instance_count
from tritune.diagnose.result import Confidence, Finding, Remedy
from tritune.diagnose.slower import slower_sizes
from tritune.units import format_duration

SLUG = "instances-contend"
MIN_UTILISATION = 0.7
# Batches nearer to the cap than this are full: then it is saturation first.
SMALL = 0.75
# S(1) this far below the line through the larger sizes is more than the noise of the means.
MIN_KINK = 0.1
MANY = 3


def find(context: Context) -> Finding | None:
    """By strength of evidence (taxonomy C1).

    high: S(b) at equal b rises with traffic by the break-even or more (needs parts at different loads).
    medium: the instances are busy, batches stay small, and S(1) lies below the line of the larger sizes, or
    larger sizes look slower per item: both come from executions that meet more neighbours.
    low: three or more instances, busy, with small batches, and nothing that tells what one alone would do.
    Silent where the parts show that S(b) does not rise.
    """
    if context.instances < 2 or context.capacity is None:
        return None
    seen = by_load(context.parts)
    if seen is not None and seen.high < 1 + BREAK_EVEN:
        return None
    busy = context.capacity.utilisation or 0.0
    evidence: list[str] = []
    confidence: Confidence | None = None
    if seen is not None and seen.contend:
        confidence = "high"
        evidence.append(
            f"at equal batch sizes an execution takes {seen.ratio:.2f} x as long ({seen.low:.2f} to "
            f"{seen.high:.2f}) when there is more traffic (sizes {_list(seen.sizes)})"
        )
    elif busy >= MIN_UTILISATION and context.mean_batch <= SMALL * context.hard_cap:
        confidence, evidence = _from_one_window(context)
    if confidence is None:
        return None
    evidence.append(
        f"{context.instances} instances are busy {busy:.0%} of the time with a mean batch of "
        f"{context.mean_batch:.1f} of {context.hard_cap}: they split the batches"
    )
    evidence.append(
        f"an execution takes {format_duration(context.service_ns)} of the mean request's "
        f"{format_duration(context.request_ns)}"
    )
    return Finding(
        slug=SLUG,
        title=f"{context.instances} instances slow each other down on one device",
        confidence=confidence,
        evidence=tuple(evidence),
        remedies=_remedies(context),
        check=(
            "Run the same traffic with instance_group.count: 1 and compare S(b) at equal b: "
            f"more than {BREAK_EVEN:.0%} slower with {context.instances} instances means contention."
        ),
    )


def _from_one_window(context: Context) -> tuple[Confidence | None, list[str]]:
    bend = kink(context.curve) if context.delay_ns == 0 else None
    if bend is not None and bend >= MIN_KINK:
        return "medium", [
            (
                f"a batch of 1, which may start beside idle ones, is {bend:.0%} faster than larger sizes "
                "let expect, which start only when all are busy"
            )
        ]
    slower = slower_sizes(context)
    if slower is not None:
        return "medium", [
            (
                f"larger batches, which form when all instances are busy, give {slower.loss:.0%} less "
                f"throughput than batches of {slower.best}"
            )
        ]
    if context.instances >= MANY:
        return "low", ["one window cannot show what an execution would take alone"]
    return None, []


def _remedies(context: Context) -> tuple[Remedy, ...]:
    remedies = [
        Remedy(
            "One instance: it batches what the others would split.",
            instance_count(context.config, 1),
        )
    ]
    if context.instances > 2:
        remedies.append(
            Remedy(
                "Or two, if part of the work (copies, CPU) overlaps: measure both.",
                instance_count(context.config, 2),
            )
        )
    return tuple(remedies)


def _list(sizes: tuple[int, ...]) -> str:
    return ", ".join(map(str, sizes))
