"""How much of what the model could do is asked of it: load, and apart from it how busy the instances are."""

from __future__ import annotations

from tritune.diagnose.result import Capacity
from tritune.model.config import ServingConfig
from tritune.model.server import ServerWindow
from tritune.twin.fit.service import peak, service_curve


def capacity(config: ServingConfig, window: ServerWindow) -> Capacity | None:
    """Capacity, load and utilisation of one window; None without batch statistics or without a time span.

    Replicas count: a sum over three servers has three times the instances.
    """
    instances = config.instances * window.replicas
    found = peak(service_curve(window), instances)
    if found is None or window.seconds <= 0:
        return None
    stats = window.counters.batch_stats or {}
    items = sum(size * stat.count for size, stat in stats.items())
    busy_ns = sum(stat.ns for stat in stats.values())
    rate = items / window.seconds
    largest = max(size for size, stat in stats.items() if stat.count > 0)
    return Capacity(
        items_per_s=found.items_per_s,
        best_size=found.best_size,
        rate_items_per_s=rate,
        load=rate / found.items_per_s,
        utilisation=busy_ns / (window.t1_ns - window.t0_ns) / instances,
        bound=config.max_batch_size > largest,
    )
