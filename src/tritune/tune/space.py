"""What may change, stage by stage, in the article's order (S17), with the reason for every candidate.

Two rules were learned on the real server and hold throughout (mission.md, last note):
- never delay 0 while the largest preferred size is below max_batch_size: the preferred size then is a
  hard cap, and capacity falls to p / S(p);
- "plain batching" (no preferred sizes, no delay) is one declared move of two fields, tried early,
  because each field alone can be a tie or worse.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal

import msgspec

from tritune.diagnose.moves import (
    DELAY_US,
    LEAST_DELAY_US,
    MOST_DELAY_US,
    PREFERRED,
    batch_cap,
    instance_count,
    plain_batching,
    short_delay,
)
from tritune.model.config import Change, ServingConfig, Setting
from tritune.twin.fit.service import ServicePoint, groups

Stage = Literal["delay", "plain batching", "preferred sizes", "instances", "max batch size"]
STAGES: tuple[Stage, ...] = ("delay", "plain batching", "preferred sizes", "instances", "max batch size")

MAX_INSTANCES_WITHOUT_EVIDENCE = 2
# Sizes are taken together with their neighbours until they ran this often; a cap is only proposed here, the
# trial proves it, so a few executions of the warm-up may suggest one.
MIN_EXECUTIONS = 3
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
    curve: Mapping[int, ServicePoint],
    *,
    instances_help: bool = False,
    more_slows: bool = False,
) -> tuple[Candidate, ...] | Passed:
    """The moves of one stage from `config`, in the order to try them, or why there are none.

    `curve` is S(b) of the batch sizes seen at `config`. `instances_help`: going up in instances was proven to
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
    return _max_batch(config, curve)


def _delay(config: ServingConfig) -> tuple[Candidate, ...] | Passed:
    block = config.dynamic_batching
    if block is None or config.max_batch_size <= 1:
        return Passed("delay", "the model runs without the dynamic batcher, so there is no delay to cut")
    delay = block.max_queue_delay_microseconds
    if delay == 0:
        return Passed("delay", "max_queue_delay_microseconds is 0 already")
    if delay <= MOST_DELAY_US:
        return Passed(
            "delay",
            f"{delay} us is within the {LEAST_DELAY_US}-{MOST_DELAY_US} us where one starts; steps inside "
            "that range change nothing (measured on Triton), only dropping the delay does (plain batching)",
        )
    return (
        Candidate(
            "delay",
            short_delay(DELAY_US),
            f"a request may wait up to {delay} us for others to join its batch",
        ),
        Candidate("delay", short_delay(LEAST_DELAY_US), "the lower end of the range where one starts"),
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
    change = plain_batching(config)
    if change is None:
        return Passed("plain batching", "no preferred sizes and no delay are set: this is plain batching")
    return (
        Candidate(
            "plain batching",
            change,
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
        Candidate(
            "preferred sizes",
            Change((Setting(PREFERRED, sizes),)),
            "fewer and smaller sizes are reached sooner",
        )
        for sizes in fewer
    )


def _instances(
    config: ServingConfig, *, instances_help: bool, more_slows: bool
) -> tuple[Candidate, ...] | Passed:
    def to(count: int, reason: str) -> Candidate | None:
        change = instance_count(config, count)
        return None if change is None else Candidate("instances", change, reason)

    count = config.instance_group[0].count if config.instance_group else 1
    offered: tuple[Candidate | None, ...]
    if count > MAX_INSTANCES_WITHOUT_EVIDENCE:
        offered = (
            to(1, f"{count} instances may fight for one device: a baseline"),
            to(2, "two, against whichever of the others is better"),
        )
    elif count == MAX_INSTANCES_WITHOUT_EVIDENCE and instances_help:
        offered = (
            to(3, "two were better than one, and S(b) did not rise"),
            to(4, "as long as each further one is proven"),
        )
    elif count == MAX_INSTANCES_WITHOUT_EVIDENCE:
        offered = (to(1, "instances are not free: they split batches"),)
    elif more_slows:
        return Passed("instances", "fewer instances were better: the device gains nothing from a second one")
    else:
        offered = (
            to(2, "a second one helps where one does not fill the device, and splits batches where it does"),
        )
    found = tuple(candidate for candidate in offered if candidate is not None)
    return found or Passed(
        "instances", "several instance groups: which one to change is the operator's choice"
    )


def _max_batch(config: ServingConfig, curve: Mapping[int, ServicePoint]) -> tuple[Candidate, ...] | Passed:
    seen = groups(curve, at_least=MIN_EXECUTIONS)
    if config.max_batch_size <= 1 or len(seen) < 2:
        return Passed(
            "max batch size", "too few batch sizes were seen to tell whether larger ones are slower"
        )
    best = min(group.ns_per_item for group in seen)
    worth = [group for group in seen if group.ns_per_item * WORTH <= best]
    cap, largest = worth[-1].size, seen[-1].size
    if worth[-1] == seen[-1]:
        return Passed(
            "max batch size",
            f"every batch size seen, up to {max(seen[-1].sizes)}, still gains: S(b)/b falls with b, so no "
            "cap is called for",
        )
    reason = (
        f"past {cap} items a batch costs more than it gains: S({cap}) = {curve[cap].ns / 1e6:.1f} ms is "
        f"{curve[cap].ns / cap / 1e6:.2f} ms per item, S({largest}) = {curve[largest].ns / 1e6:.1f} ms is "
        f"{curve[largest].ns / largest / 1e6:.2f} ms per item"
    )
    return (Candidate("max batch size", batch_cap(config, cap), reason),)
