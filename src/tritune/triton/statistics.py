"""Triton's statistics (JSON over HTTP, or the gRPC message) as counters, nanosecond for nanosecond.

The server reads its fields without a lock, so one answer may be torn: a batch's execution already counted and
its requests not yet, or the other way round. Nothing here demands that sums agree (semantics 3.4).
"""

from __future__ import annotations

from typing import Any

import msgspec

from tritune.errors import TrituneError
from tritune.model.server import BatchStat, ModelCounters, ModelKey, Snapshot, Tally


class _Duration(msgspec.Struct, frozen=True):
    count: int = 0
    ns: int = 0


class _Inference(msgspec.Struct, frozen=True):
    success: _Duration = _Duration()
    fail: _Duration = _Duration()
    queue: _Duration = _Duration()
    compute_input: _Duration = _Duration()
    compute_infer: _Duration = _Duration()
    compute_output: _Duration = _Duration()


class _Batch(msgspec.Struct, frozen=True):
    batch_size: int
    compute_input: _Duration = _Duration()
    compute_infer: _Duration = _Duration()
    compute_output: _Duration = _Duration()


class _Model(msgspec.Struct, frozen=True):
    name: str
    version: str
    inference_count: int = 0
    execution_count: int = 0
    inference_stats: _Inference = _Inference()
    batch_stats: tuple[_Batch, ...] = ()


class _Statistics(msgspec.Struct, frozen=True):
    model_stats: tuple[_Model, ...]


def from_json(body: bytes, *, t_ns: int, url: str) -> Snapshot:
    """The body of `GET /v2/models/stats` as a snapshot. Fields that a server lacks count as zero.

    Raises TrituneError(bad-reply) where it is not that: a truncated body, or another service's JSON.
    """
    try:
        stats = msgspec.json.decode(body, type=_Statistics)
    except msgspec.MsgspecError as error:  # also a body that is no UTF-8
        raise TrituneError(
            f"the statistics of {url} cannot be read: {error}",
            slug="bad-reply",
            hint="Something between may have changed or cut the answer; ask GET /v2/models/stats yourself.",
        ) from error
    return Snapshot(
        t_ns=t_ns,
        source="statistics",
        models={ModelKey(m.name, m.version): _counters(m) for m in stats.model_stats},
    )


def from_grpc(message: Any, *, t_ns: int) -> Snapshot:
    """A `ModelStatisticsResponse` as the same snapshot that HTTP would give."""
    return Snapshot(
        t_ns=t_ns,
        source="statistics",
        models={ModelKey(m.name, m.version): _counters(m) for m in message.model_stats},
    )


def _counters(model: Any) -> ModelCounters:
    """Both forms have the same field names, so one reading serves both."""
    stats = model.inference_stats
    return ModelCounters(
        success=_tally(stats.success),
        fail=_tally(stats.fail),
        queue=_tally(stats.queue),
        compute_input=_tally(stats.compute_input),
        compute_infer=_tally(stats.compute_infer),
        compute_output=_tally(stats.compute_output),
        inference_count=int(model.inference_count),
        execution_count=int(model.execution_count),
        batch_stats=_batches(model.batch_stats),
    )


def _tally(duration: Any) -> Tally:
    return Tally(int(duration.count), int(duration.ns))


def _batches(batches: Any) -> dict[int, BatchStat]:
    return {
        int(b.batch_size): BatchStat(
            count=int(b.compute_infer.count),
            input_ns=int(b.compute_input.ns),
            infer_ns=int(b.compute_infer.ns),
            output_ns=int(b.compute_output.ns),
        )
        for b in sorted(batches, key=lambda b: b.batch_size)
    }
