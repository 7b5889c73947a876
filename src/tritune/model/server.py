"""What a server counts about a model: snapshots of counters, and the windows between two of them.

Counters are only ever used as deltas (S2). A counter that fell was reset: the delta is then what it
counts now, and the window says so. Field bases are Triton's own (triton-semantics 3.1, 3.4): the
`inference_stats` durations are per *request* (each request of a batch is charged the whole execution),
`batch_stats` are per *execution*.
"""

from __future__ import annotations

import msgspec


class Tally(msgspec.Struct, frozen=True):
    """A count and the nanoseconds that belong to it."""

    count: int = 0
    ns: int = 0

    def __add__(self, other: Tally) -> Tally:
        return Tally(self.count + other.count, self.ns + other.ns)

    def __sub__(self, other: Tally) -> Tally:
        return Tally(self.count - other.count, self.ns - other.ns)

    @property
    def mean_ns(self) -> float:
        """ns / count; NaN where nothing was counted."""
        return self.ns / self.count if self.count else float("nan")


class BatchStat(msgspec.Struct, frozen=True):
    """Executions of one batch size (in items) and the time they took in three stages, ns."""

    count: int = 0
    input_ns: int = 0
    infer_ns: int = 0
    output_ns: int = 0

    @property
    def ns(self) -> int:
        """All three stages together."""
        return self.input_ns + self.infer_ns + self.output_ns

    def __add__(self, other: BatchStat) -> BatchStat:
        return BatchStat(
            self.count + other.count,
            self.input_ns + other.input_ns,
            self.infer_ns + other.infer_ns,
            self.output_ns + other.output_ns,
        )

    def __sub__(self, other: BatchStat) -> BatchStat:
        return BatchStat(
            self.count - other.count,
            self.input_ns - other.input_ns,
            self.infer_ns - other.infer_ns,
            self.output_ns - other.output_ns,
        )


class ModelCounters(msgspec.Struct, frozen=True):
    """Cumulative counters of one (model, version) as one source shows them.

    `batch_stats` is None where the source has none (Prometheus text). `failure_reasons` comes from the
    metrics text only. All ns.
    """

    success: Tally = Tally()
    fail: Tally = Tally()
    queue: Tally = Tally()
    compute_input: Tally = Tally()
    compute_infer: Tally = Tally()
    compute_output: Tally = Tally()
    inference_count: int = 0
    execution_count: int = 0
    batch_stats: dict[int, BatchStat] | None = None
    failure_reasons: dict[str, int] = {}


TALLIES = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")
COUNTS = ("inference_count", "execution_count")


class ModelKey(msgspec.Struct, frozen=True, order=True):
    """Which model a figure belongs to."""

    model: str
    version: str


class Snapshot(msgspec.Struct, frozen=True):
    """One read of a server. `t_ns` is our monotonic clock at the middle of the read.

    `source` is "statistics" (HTTP or gRPC) or "metrics". Gauges are instantaneous (pending requests by
    model under `pending`), `summaries` are Triton's own sliding quantiles per model:
    {(metric name): {"0.99": us, ...}}; None where the server does not export them.
    """

    t_ns: int
    source: str
    models: dict[ModelKey, ModelCounters]
    pending: dict[ModelKey, int] = {}
    gauges: dict[str, float] = {}
    summaries: dict[ModelKey, dict[str, dict[str, float]]] | None = None


class ServerWindow(msgspec.Struct, frozen=True):
    """What one (model, version) did between two reads of one source; sums of windows are windows."""

    model: str
    version: str
    source: str
    t0_ns: int
    t1_ns: int
    counters: ModelCounters
    pending: int | None = None
    gauges: dict[str, float] = {}
    summaries: dict[str, dict[str, float]] | None = None
    reset: bool = False
    replicas: int = 1
    gap_ns: int = 0

    @property
    def seconds(self) -> float:
        """Time that was watched: from t0 to t1 without the gaps between the windows that this is a sum of."""
        return (self.t1_ns - self.t0_ns - self.gap_ns) / 1e9

    def __add__(self, other: ServerWindow) -> ServerWindow:
        """Both windows as one: counters add, the span covers both, gauges are the later ones."""
        earlier, later = sorted((self, other), key=lambda w: w.t1_ns)
        return msgspec.structs.replace(
            later,
            t0_ns=min(self.t0_ns, other.t0_ns),
            t1_ns=max(self.t1_ns, other.t1_ns),
            counters=_combine(self.counters, other.counters, sign=1),
            reset=self.reset or other.reset,
            gap_ns=self.gap_ns + other.gap_ns + max(0, later.t0_ns - earlier.t1_ns),
        )


def window(before: Snapshot, after: Snapshot, key: ModelKey) -> ServerWindow | None:
    """The window of one model between two snapshots of the same source; None where `after` lacks the model.

    A model absent from `before` counts from zero. Where any counter fell, the whole model was reset
    (a full reload resets the statistics, an unload the metrics): the window then holds `after` alone
    and `reset` is true. Raises ValueError for snapshots of different sources.
    """
    if before.source != after.source:
        raise ValueError(f"a window needs one source, got {before.source} and {after.source}")
    now = after.models.get(key)
    if now is None:
        return None
    then = before.models.get(key, ModelCounters(batch_stats={} if now.batch_stats is not None else None))
    reset = _fell(then, now)
    counters = now if reset else _combine(now, then, sign=-1)
    return ServerWindow(
        model=key.model,
        version=key.version,
        source=after.source,
        t0_ns=before.t_ns,
        t1_ns=after.t_ns,
        counters=counters,
        pending=after.pending.get(key),
        gauges=after.gauges,
        summaries=None if after.summaries is None else after.summaries.get(key),
        reset=reset,
    )


def _fell(then: ModelCounters, now: ModelCounters) -> bool:
    # `fail` is left out: the metrics keep failures over an unload that zeroes the rest (semantics 3.1).
    if any(getattr(now, name) < getattr(then, name) for name in COUNTS):
        return True
    if any(getattr(now, n).count < getattr(then, n).count for n in TALLIES if n != "fail"):
        return True
    old, new = then.batch_stats or {}, now.batch_stats or {}
    return any(new.get(size, BatchStat()).count < stat.count for size, stat in old.items())


def _combine(a: ModelCounters, b: ModelCounters, *, sign: int) -> ModelCounters:
    """a + sign * b, field by field; batch_stats only where both have them."""
    tallies = {
        n: (getattr(a, n) + getattr(b, n)) if sign > 0 else (getattr(a, n) - getattr(b, n)) for n in TALLIES
    }
    batches: dict[int, BatchStat] | None = None
    if a.batch_stats is not None and b.batch_stats is not None:
        sizes = sorted(a.batch_stats.keys() | b.batch_stats.keys())
        pairs = {s: (a.batch_stats.get(s, BatchStat()), b.batch_stats.get(s, BatchStat())) for s in sizes}
        batches = {s: (x + y if sign > 0 else x - y) for s, (x, y) in pairs.items()}
        batches = {s: stat for s, stat in batches.items() if stat.count}
    reasons = {
        r: a.failure_reasons.get(r, 0) + sign * b.failure_reasons.get(r, 0)
        for r in sorted(a.failure_reasons.keys() | b.failure_reasons.keys())
    }
    return ModelCounters(
        **tallies,
        inference_count=a.inference_count + sign * b.inference_count,
        execution_count=a.execution_count + sign * b.execution_count,
        batch_stats=batches,
        failure_reasons={r: n for r, n in reasons.items() if n},
    )
