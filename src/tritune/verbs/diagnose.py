"""Read a server twice and say where the time goes. Changes nothing, sends no inference."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import msgspec

from tritune.diagnose.diagnose import diagnose as explain
from tritune.diagnose.result import Diagnosis
from tritune.errors import TrituneError
from tritune.model.server import ModelKey, Snapshot, window
from tritune.pbtxt.message import view_json
from tritune.verbs.ports import Clock, Progress, Server

# One read a second; a long watch gets longer parts instead of more of them.
MOST_PARTS = 60


def diagnose(
    server: Server,
    clock: Clock,
    progress: Progress,
    *,
    models: Sequence[str] = (),
    seconds: float = 5.0,
) -> tuple[Diagnosis, ...]:
    """One Diagnosis per ready model (or per named one), from the deltas over `seconds` (S2).

    Where nobody used a model in that time there is no verdict, and the totals since the load are shown
    with their limits instead of zeros.
    """
    server.info()
    if server.several_replicas():
        raise TrituneError(
            f"several servers answer behind {server.url}: their counters cannot be read as one",
            slug="several-replicas",
            hint="Name one replica by its own address.",
        )
    for name in models:
        server.metadata(name)
    progress.step(f"watching {server.url} for {seconds:g} s")
    steps = max(1, min(MOST_PARTS, int(seconds)))
    reads = [server.statistics()]
    for _ in range(steps):
        clock.sleep(seconds / steps)
        reads.append(server.statistics())
    metrics = server.metrics()
    keys = sorted(key for key in reads[-1].models if not models or key.model in models)
    return tuple(_explain(server, reads, metrics, key) for key in keys)


def _explain(server: Server, reads: Sequence[Snapshot], metrics: Snapshot | None, key: ModelKey) -> Diagnosis:
    """The whole window, with its parts: busy and quiet seconds tell what one mean cannot."""
    parts = [w for w in (window(a, b, key) for a, b in pairwise(reads)) if w is not None]
    seen = window(reads[0], reads[-1], key)
    if seen is None:
        raise ValueError(f"{key} has no counters")
    if metrics is not None:
        seen = msgspec.structs.replace(seen, gauges=metrics.gauges, pending=metrics.pending.get(key))
    config = view_json(server.effective_config(key.model, key.version))
    return explain(config, seen, parts=parts)
