"""What may change, stage by stage, in the article's order (S17), with the reason for every candidate.

Two rules were learned on the real server and hold throughout (mission.md, last note):
- never delay 0 while the largest preferred size is below max_batch_size: the preferred size then is a
  hard cap, and capacity falls to p / S(p);
- "plain batching" (no preferred sizes, no delay) is one declared move of two fields, tried early,
  because each field alone can be a tie or worse.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import msgspec

from tritune.diagnose.result import BatchRow
from tritune.model.config import Change, DynamicBatching, ServingConfig, Setting

Stage = Literal["delay", "plain batching", "preferred sizes", "instances", "max batch size"]
STAGES: tuple[Stage, ...] = ("delay", "plain batching", "preferred sizes", "instances", "max batch size")

DELAY = "dynamic_batching.max_queue_delay_microseconds"
PREFERRED = "dynamic_batching.preferred_batch_size"
COUNT = "instance_group.count"

SMALL_DELAY_US = 500
SMALLEST_DELAY_US = 100
LARGE_DELAY_US = 1000
MAX_INSTANCES_WITHOUT_EVIDENCE = 2
# Below this many executions, S(b) of a batch size says too little to cap batches by it.
MIN_EXECUTIONS = 2
# A size pays when its items per second are within this share of the best size's.
WORTH = 0.97


class Candidate(msgspec.Struct, frozen=True):
    """One declared move and why it is worth a trial."""

    stage: Stage
    change: Change
    reason: str


class Passed(msgspec.Struct, frozen=True):
    """A stage that offers nothing to try here, and why."""

    stage: Stage
    reason: str


def candidates(
    stage: Stage,
    config: ServingConfig,
    batches: Sequence[BatchRow],
    *,
    instances_help: bool = False,
    more_slows: bool = False,
) -> tuple[Candidate, ...] | Passed:
    """The moves of one stage from `config`, in the order to try them, or why there are none.

    `batches` are the batch sizes seen at `config`. `instances_help`: going up in instances was proven to
    help and S(b) at equal b did not rise: only then more than two are offered (S12). `more_slows`: fewer
    instances were proven better: then no count above the best is offered.
    """
    if stage == "delay":
        return _delay(config)
    if stage == "plain batching":
        return _plain(config)
    if stage == "preferred sizes":
        return _preferred(config)
    if stage == "instances":
        return _instances(config, instances_help=instances_help, more_slows=more_slows)
    return _max_batch(config, batches)


def move(*settings: tuple[str, int | tuple[int, ...] | None]) -> Change:
    """A Change from (path, value) pairs."""
    return Change(tuple(Setting(path, value) for path, value in settings))


def _delay(config: ServingConfig) -> tuple[Candidate, ...] | Passed:
    block = config.dynamic_batching
    if block is None or config.max_batch_size <= 1:
        return Passed("delay", "the model runs without the dynamic batcher, so there is no delay to cut")
    delay = block.max_queue_delay_microseconds
    if delay == 0:
        return Passed("delay", "max_queue_delay_microseconds is 0 already")
    if delay <= LARGE_DELAY_US:
        return Passed(
            "delay",
            f"{delay} us is within the 100-1000 us where the article starts; measured on Triton, steps "
            "inside that range change nothing, only dropping the delay does (plain batching)",
        )
    steps = [SMALL_DELAY_US, SMALLEST_DELAY_US]
    return tuple(
        Candidate(
            "delay",
            move((DELAY, value)),
            f"a request may wait up to {delay} us for others to join its batch"
            if value == SMALL_DELAY_US
            else "the lower end of the article's range",
        )
        for value in steps
    )


def _plain(config: ServingConfig) -> tuple[Candidate, ...] | Passed:
    block = config.dynamic_batching
    if config.max_batch_size <= 1:
        return Passed("plain batching", "max_batch_size allows one item only: the model cannot batch")
    if block is None:
        return (
            Candidate(
                "plain batching",
                Change((Setting("dynamic_batching", "{}"),)),
                "without a dynamic_batching block every request runs alone, whatever max_batch_size says",
            ),
        )
    settings: list[tuple[str, int | tuple[int, ...] | None]] = []
    if block.preferred_batch_size and block.preferred_batch_size != (config.max_batch_size,):
        settings.append((PREFERRED, None))
    if block.max_queue_delay_microseconds:
        settings.append((DELAY, None))
    if not settings:
        return Passed("plain batching", "no preferred sizes and no delay are set: this is plain batching")
    return (
        Candidate(
            "plain batching",
            move(*settings),
            "requests that arrive while an instance is busy merge anyway; preferred sizes and a delay only "
            "add waiting on top of that",
        ),
    )


def _preferred(config: ServingConfig) -> tuple[Candidate, ...] | Passed:
    block = config.dynamic_batching
    explicit = block.preferred_batch_size if block is not None else ()
    if block is None or not explicit or explicit == (config.max_batch_size,):
        return Passed(
            "preferred sizes",
            "none are set; adding some is worth a trial only where the batch sizes show traffic that fills "
            "them and S(b) still gains (S22)",
        )
    if block.max_queue_delay_microseconds == 0:
        return Passed(
            "preferred sizes",
            "with delay 0 a largest preferred size below max_batch_size is a hard cap on the batch",
        )
    options = [tuple(s for s in (4, 8) if s <= config.max_batch_size), (min(4, config.max_batch_size),)]
    fewer = [o for o in options if o and o != explicit and (len(o), max(o)) < (len(explicit), max(explicit))]
    if not fewer:
        return Passed("preferred sizes", f"{list(explicit)} are few and small already")
    return tuple(
        Candidate("preferred sizes", move((PREFERRED, sizes)), "fewer and smaller sizes are reached sooner")
        for sizes in fewer
    )


def _instances(
    config: ServingConfig, *, instances_help: bool, more_slows: bool
) -> tuple[Candidate, ...] | Passed:
    if len(config.instance_group) > 1:
        return Passed("instances", "several instance groups: which one to change is the operator's choice")
    group = config.instance_group[0] if config.instance_group else None
    count = group.count if group else 1
    if count > MAX_INSTANCES_WITHOUT_EVIDENCE:
        return (
            Candidate(
                "instances", move((COUNT, 1)), f"{count} instances may fight for one device: a baseline"
            ),
            Candidate("instances", move((COUNT, 2)), "two, against whichever of the others is better"),
        )
    if count == MAX_INSTANCES_WITHOUT_EVIDENCE:
        if instances_help:
            return (
                Candidate("instances", move((COUNT, 3)), "two were better than one, and S(b) did not rise"),
                Candidate("instances", move((COUNT, 4)), "as long as each further one is proven"),
            )
        return (Candidate("instances", move((COUNT, 1)), "instances are not free: they split batches"),)
    if more_slows:
        return Passed("instances", "fewer instances were better: the device gains nothing from a second one")
    return (
        Candidate(
            "instances",
            move((COUNT, 2)),
            "a second instance helps where one does not fill the device, and splits batches where it does",
        ),
    )


def _max_batch(config: ServingConfig, batches: Sequence[BatchRow]) -> tuple[Candidate, ...] | Passed:
    rows = [row for row in batches if row.executions >= MIN_EXECUTIONS and row.size >= 1]
    if config.max_batch_size <= 1 or len(rows) < 2:
        return Passed(
            "max batch size", "too few batch sizes were seen to tell whether larger ones are slower"
        )
    pace = {row.size: row.size / row.service_ns for row in rows}
    best = max(pace.values())
    cap = max(size for size, p in pace.items() if p >= WORTH * best)
    largest = max(pace)
    if cap >= largest:
        return Passed(
            "max batch size",
            f"every batch size seen, up to {largest}, still gains: S(b)/b falls with b, no cap is called for",
        )
    ms = {row.size: row.service_ns / 1e6 for row in rows}
    reason = (
        f"past {cap} items a batch is slower than it gains: S({cap}) = {ms[cap]:.1f} ms is "
        f"{ms[cap] / cap:.2f} ms per item, S({largest}) = {ms[largest]:.1f} ms is "
        f"{ms[largest] / largest:.2f} ms per item"
    )
    return (Candidate("max batch size", _capped(config, cap), reason),)


def _capped(config: ServingConfig, cap: int) -> Change:
    """max_batch_size = cap, together with the preferred sizes that would no longer be legal."""
    settings: list[tuple[str, int | tuple[int, ...] | None]] = [("max_batch_size", cap)]
    block = config.dynamic_batching or DynamicBatching()
    explicit = block.preferred_batch_size
    if explicit and explicit != (config.max_batch_size,) and max(explicit) > cap:
        legal = tuple(s for s in explicit if s <= cap)
        # With delay 0 the largest preferred size must not stay below the maximum (hard cap).
        keep = legal if block.max_queue_delay_microseconds else ()
        settings.append((PREFERRED, keep or None))
    return move(*settings)
