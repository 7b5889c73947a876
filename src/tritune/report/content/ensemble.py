"""Predictions of an ensemble as a document: the whole as for a single model, and each of its models."""

from __future__ import annotations

import re

import msgspec

from tritune.model.profile import Figure
from tritune.report.content.document import Bullets, Document, Section, Table
from tritune.report.content.simulation import service_table, simulation_document
from tritune.report.content.simulation_words import error, rate
from tritune.report.content.wording import NOTHING, figure, sentence, share
from tritune.twin.ensemble.chain_answer import EnsembleSimulation
from tritune.units import format_duration, format_ms

# Triton's names would take the whole line, and a model's name stands before each.
_SHORT = (
    (r"max_queue_delay_microseconds: (\d+)", r"delay \1 us"),
    (r"preferred_batch_size: \[ (.*?) \]", r"preferred \1"),
    (r"instance_group\.count: (\d+)", r"instances \1"),
    (r"max_batch_size: (\d+)", r"max batch \1"),
)
# The ensemble itself executes nothing, so these say nothing of it.
_OF_ONE_MODEL = ("Service time by batch size", "What went into it")


def ensemble_document(found: EnsembleSimulation) -> Document:
    """`simulation_document`, with how each model's replay did, and each model within every prediction."""
    named = tuple(msgspec.structs.replace(p, setting=_short(p.setting)) for p in found.predictions)
    found = msgspec.structs.replace(found, predictions=named)
    whole = simulation_document(found)
    sections = [section for section in whole.sections if section.title not in _OF_ONE_MODEL]
    sections += [
        Section("Models within the predictions", (_shares(found),)),
        *(
            Section(f"Service time of {model} by batch size", (service_table(profile),))
            for model, profile in found.chain.models.items()
        ),
        Section("What went into it", (Bullets(_figures(found)),)),
    ]
    return msgspec.structs.replace(whole, summary=(*whole.summary, _replay(found)), sections=tuple(sections))


def _short(setting: str) -> str:
    for long, short in _SHORT:
        setting = re.sub(long, short, setting)
    return setting


def _replay(found: EnsembleSimulation) -> Table:
    rows = tuple(
        (
            one.model,
            f"{format_ms(one.queue_observed_ns)} / {format_ms(one.queue_replayed_ns)}",
            f"{figure(one.batch_observed)} / {figure(one.batch_replayed)}",
            f"{one.batch_distance:.3f}",
        )
        for one in found.replay.models
    )
    return Table(
        columns=("model", "mean queue, ms", "mean batch", "batch sizes apart by"),
        rows=rows,
        alignment=("left", "right", "right", "right"),
        title="Each model of the ensemble, observed / replayed",
        notes=tuple(found.notes),
    )


def _shares(found: EnsembleSimulation) -> Table:
    rows = []
    for prediction, models in zip(found.predictions, found.shares, strict=True):
        for one in models:
            told = (format_ms(one.queue_ns), figure(one.mean_batch), share(one.load))
            rows.append((prediction.setting, rate(prediction.rate_per_s), one.model, *told))
        if prediction.refusal:
            rows.append((prediction.setting, rate(prediction.rate_per_s), "refused", *(NOTHING,) * 3))
    return Table(
        columns=("setting", "rate/s", "model", "mean queue, ms", "mean batch", "load"),
        rows=tuple(rows),
        alignment=("left", "right", "left", "right", "right", "right"),
    )


def _figures(found: EnsembleSimulation) -> tuple[str, ...]:
    chain = found.chain
    lines = [
        f"Each prediction: {found.effort.replications} x {found.effort.requests} requests, {found.traffic}.",
        f"Overhead of the client: {format_duration(chain.client_overhead_ns.value)}.",
        f"From one step to the next: {_told(chain.hand_over_ns)}.",
    ]
    if chain.spacing_ns is not None:
        lines.append(f"Between the answers of one batch (median): {_told(chain.spacing_ns)}.")
    for model, profile in chain.models.items():
        wake = NOTHING if profile.wake_ns is None else _told(profile.wake_ns)
        varies = f"{profile.cv.value:.3g} ({profile.cv.source})"
        lines.append(f"{model}: variation of an execution {varies}, wake-up {wake}.")
        lines += [f"{model}: {sentence(note)}" for note in profile.notes]
    lines.append(f"Mean latency of the replay: {error(found.replay.mean_error)}.")
    lines.append(f"Verified on: {found.verified.on}.")
    return tuple(lines)


def _told(ns: Figure) -> str:
    sign = "-" if ns.value < 0 else ""
    return f"{sign}{format_duration(abs(ns.value))} ({ns.source})"
