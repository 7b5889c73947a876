"""Whether a cell may be believed: the load generator's own lateness against what it measured."""

from __future__ import annotations

from tritune.model.measurement import Measurement
from tritune.units import NS_PER_MS, format_duration

# Latency counts from the planned instant, so a lateness of x moves a percentile by up to x.
MAX_SHARE = 0.1
# What a quiet two-core machine does anyway while a server runs on it.
ALWAYS_FINE_NS = 2.0 * NS_PER_MS


def doubt(measurement: Measurement) -> str:
    """Why this cell cannot be believed, empty where it can.

    The sender's lateness p99 must stay below a tenth of the measured p99, or below 2 ms. On a machine whose
    cores are busy with something else both grow together, and neither says anything about the server.
    """
    p99 = measurement.latency["p99"].value if "p99" in measurement.latency else None
    limit = max(ALWAYS_FINE_NS, MAX_SHARE * (p99 or 0.0))
    late = measurement.sender.lateness_p99_ns
    if late <= limit:
        return ""
    return (
        f"the load generator itself was late (p99 {format_duration(late)}, at most {format_duration(limit)} "
        "would do): something else keeps this machine busy"
    )
