"""Read a server twice and say where the time goes. Changes nothing, sends no inference."""

from __future__ import annotations

from collections.abc import Sequence

from tritune.diagnose.diagnose import diagnose as explain
from tritune.diagnose.result import Diagnosis
from tritune.errors import TrituneError
from tritune.model.server import ModelKey, ServerWindow, Snapshot, window
from tritune.pbtxt.message import view_json
from tritune.verbs.ports import Clock, Progress, Server


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
    before = server.statistics()
    progress.step(f"watching {server.url} for {seconds:g} s")
    clock.sleep(seconds)
    after, metrics = server.statistics(), server.metrics()
    keys = sorted(key for key in after.models if not models or key.model in models)
    return tuple(_explain(server, before, after, metrics, key) for key in keys)


def _explain(
    server: Server, before: Snapshot, after: Snapshot, metrics: Snapshot | None, key: ModelKey
) -> Diagnosis:
    seen = window(before, after, key)
    if seen is None:
        raise ValueError(f"{key} has no counters")
    return explain(view_json(server.effective_config(key.model, key.version)), _gauges(seen, metrics, key))


def _gauges(seen: ServerWindow, metrics: Snapshot | None, key: ModelKey) -> ServerWindow:
    import msgspec

    if metrics is None:
        return seen
    return msgspec.structs.replace(seen, gauges=metrics.gauges, pending=metrics.pending.get(key))
