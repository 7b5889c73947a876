"""What the server's counters say about one measurement; every figure is diagnose's own."""

from __future__ import annotations

from tritune.diagnose import batches as sizes
from tritune.diagnose import breakdown as time
from tritune.diagnose import capacity as ability
from tritune.diagnose.result import BatchRow, Breakdown, Capacity
from tritune.model.config import ServingConfig
from tritune.model.measurement import Measurement
from tritune.units import NEVER_NS


def breakdown(measurement: Measurement) -> Breakdown | None:
    """Where the mean request of this cell spent its time, with the client's side where that is known."""
    if measurement.window is None:
        return None
    mean = measurement.latency.get("mean")
    client = mean.value if mean is not None and mean.value is not None and mean.value < NEVER_NS else None
    return time.breakdown(measurement.window, client)


def batches(measurement: Measurement) -> tuple[BatchRow, ...]:
    """The executed batch sizes of this cell; empty where the source has none."""
    return sizes.batch_rows(measurement.window) if measurement.window is not None else ()


def mean_batch(measurement: Measurement) -> float | None:
    """Items per execution; None where it is not known."""
    return sizes.mean_batch(measurement.window) if measurement.window is not None else None


def capacity(measurement: Measurement, config: ServingConfig) -> Capacity | None:
    """Capacity, load and utilisation of this cell under the setting it was measured with."""
    return ability.capacity(config, measurement.window) if measurement.window is not None else None
