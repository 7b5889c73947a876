"""Triton's metrics page (Prometheus text) as a snapshot: microseconds become nanoseconds, twins are summed.

Two traps. `prometheus_client` appends `_total` to the samples of counters, so families are matched by the
family's name. And a model on a GPU has its counters with `gpu_uuid`, and the same series without it, which
stays zero for some and is the real one for others: only the sum over both is right (semantics 3.1).
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable

from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

from tritune.model.server import ModelCounters, ModelKey, Snapshot, Tally
from tritune.units import NS_PER_US

_PENDING = "nv_inference_pending_request_count"
_FAILURE = "nv_inference_request_failure"
_CACHE_HITS = "nv_cache_num_hits_per_model"


def is_metrics(text: str) -> bool:
    """True for the metrics page of a Triton (and not for just any Prometheus exporter's)."""
    return "nv_inference_" in text or "nv_cpu_" in text or "nv_pinned_memory_pool" in text


def from_text(text: str, *, t_ns: int) -> Snapshot:
    """The page as a snapshot with source "metrics": no batch_stats, durations exact only to a microsecond.

    Counters and pending requests are summed over everything but model and version. Other gauges keep
    their labels in their name. Of several series of one quantile (several GPUs) the largest is kept:
    quantiles cannot be added, and the whole's lies below the largest part's. NaN quantiles (no request for
    60 s) are left out; `summaries` is None where the server exports none at all. Raises ValueError for text
    that is not such a page.
    """
    totals: dict[str, defaultdict[ModelKey, float]] = {}
    reasons: defaultdict[ModelKey, defaultdict[str, int]] = defaultdict(lambda: defaultdict(int))
    pending: defaultdict[ModelKey, int] = defaultdict(int)
    gauges: dict[str, float] = {}
    summaries: dict[ModelKey, dict[str, dict[str, float]]] | None = None
    for family in text_string_to_metric_families(text):
        if family.type == "counter":
            totals[family.name] = defaultdict(float)
            for key, sample in _by_model(family.samples):
                totals[family.name][key] += sample.value
                if family.name == _FAILURE:
                    reasons[key][sample.labels.get("reason", "OTHER")] += round(sample.value)
        elif family.name == _PENDING:
            for key, sample in _by_model(family.samples):
                pending[key] += round(sample.value)
        elif family.type == "gauge":
            gauges |= {_gauge_name(s): s.value for s in family.samples if not math.isnan(s.value)}
        elif family.type == "summary":
            summaries = {} if summaries is None else summaries
            _add_quantiles(summaries, family.name, family.samples)
    return Snapshot(
        t_ns=t_ns,
        source="metrics",
        models=_models(totals, reasons),
        pending=dict(pending),
        gauges=gauges,
        summaries=summaries,
    )


def _by_model(samples: Iterable[Sample]) -> Iterable[tuple[ModelKey, Sample]]:
    for sample in samples:
        if "model" in sample.labels:
            yield ModelKey(sample.labels["model"], sample.labels.get("version", "")), sample


def _gauge_name(sample: Sample) -> str:
    labels = ",".join(f'{name}="{value}"' for name, value in sorted(sample.labels.items()))
    return f"{sample.name}{{{labels}}}" if labels else sample.name


def _add_quantiles(
    summaries: dict[ModelKey, dict[str, dict[str, float]]], name: str, samples: Iterable[Sample]
) -> None:
    for key, sample in _by_model(samples):
        quantile = sample.labels.get("quantile")
        if quantile is None or math.isnan(sample.value):
            continue
        values = summaries.setdefault(key, {}).setdefault(name, {})
        values[quantile] = max(sample.value, values.get(quantile, 0.0))


def _models(
    totals: dict[str, defaultdict[ModelKey, float]], reasons: dict[ModelKey, defaultdict[str, int]]
) -> dict[ModelKey, ModelCounters]:
    def total(name: str, key: ModelKey) -> int:
        return round(totals[name][key]) if name in totals else 0

    def tally(count: int, stage: str, key: ModelKey) -> Tally:
        return Tally(count, total(f"nv_inference_{stage}_duration_us", key) * NS_PER_US)

    models: dict[ModelKey, ModelCounters] = {}
    for key in sorted(totals.get("nv_inference_request_success", {})):
        success = total("nv_inference_request_success", key)
        # A cache hit is a success that never computed (semantics 3.4).
        computed = success - total(_CACHE_HITS, key)
        models[key] = ModelCounters(
            success=tally(success, "request", key),
            fail=Tally(total(_FAILURE, key)),
            queue=tally(success, "queue", key),
            compute_input=tally(computed, "compute_input", key),
            compute_infer=tally(computed, "compute_infer", key),
            compute_output=tally(computed, "compute_output", key),
            inference_count=total("nv_inference_count", key),
            execution_count=total("nv_inference_exec_count", key),
            failure_reasons={reason: n for reason, n in sorted(reasons[key].items()) if n},
        )
    return models
