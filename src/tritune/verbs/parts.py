"""Statistics read while a load runs: the counters of its parts, which show how the executions vary."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

from tritune.errors import TrituneError
from tritune.model.load import Tick
from tritune.model.server import ModelKey, Snapshot
from tritune.model.workload import Workload
from tritune.units import NS_PER_S
from tritune.verbs.ports import Progress, Server

# About once a second; a short load is read more often, so that there are enough parts to compare.
EVERY_NS = NS_PER_S
PARTS = 8
# Ticks come every half second; the nearest one is taken.
_EARLY_NS = NS_PER_S // 4


class PartReader:
    """An `on_tick`: shows the tick, then reads the statistics where it is time for it.

    The load engine calls it in a thread of its own and leaves out ticks while a call lasts, so a slow server
    is read less often and no request waits for it. `parts` hold the loaded model, and the models in `also`,
    in order of time.
    """

    def __init__(
        self,
        server: Server,
        progress: Progress,
        key: ModelKey,
        workload: Workload,
        also: Collection[str] = (),
    ) -> None:
        self._server = server
        self._progress = progress
        self._key = key
        self._also = frozenset(also)
        self._every_ns = _every_ns(workload)
        self._due_ns = self._every_ns
        self._parts: list[Snapshot] = []

    def __call__(self, tick: Tick) -> None:
        """Show it; read, where the last read is long enough ago."""
        self._progress.tick(tick)
        if tick.elapsed_ns < self._due_ns - _EARLY_NS:
            return
        self._due_ns = tick.elapsed_ns + self._every_ns
        try:
            now = self._server.statistics()
        except TrituneError:
            return  # a server that is gone ends the load by itself; one part more or less does not matter
        if self._key in now.models:
            kept = {k: c for k, c in now.models.items() if k == self._key or k.model in self._also}
            self._parts.append(msgspec.structs.replace(now, models=kept, pending={}))

    @property
    def parts(self) -> tuple[Snapshot, ...]:
        """What was read so far."""
        return tuple(self._parts)


def _every_ns(workload: Workload) -> int:
    length = workload.duration_ns
    if length is None and workload.count and workload.rate_per_s:
        length = round(workload.count / workload.rate_per_s * NS_PER_S)
    return EVERY_NS if length is None else min(EVERY_NS, length // PARTS)
