"""The columns of a simulated load, and what a person or a stop rule sees of it while it lasts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tritune.load.attempts import GONE, GRACE_NS
from tritune.load.ticks import TICK_S
from tritune.model.load import LoadOutcome, Tick
from tritune.model.measurement import Sender
from tritune.model.requests import Bools, Int64, Kind, RequestLog
from tritune.units import NS_PER_S

_OK, _INTERNAL = 200, 500


@dataclass
class LoadTimeline:
    """One row per request, in planned order: ns from the run's start; `refused` ones failed at once."""

    planned: Int64
    sent: Int64
    done: Int64
    refused: Bools
    timeout_ns: int

    def watch(
        self,
        end_ns: int,
        cut: str,
        max_in_flight: int,
        on_tick: Callable[[Tick], None] | None,
        stop: Callable[[Tick], str | None] | None,
    ) -> tuple[int, str]:
        """When and why the run really ends: at `end_ns`, or earlier by too many in flight or by `stop`."""
        settled = np.minimum(self.done, self.planned + self.timeout_ns)
        order = np.sort(settled)
        in_flight = np.arange(1, len(self.sent) + 1) - np.searchsorted(order, self.sent, "right")
        over = np.flatnonzero(in_flight > max_in_flight)
        if len(over) and self.sent[over[0]] < end_ns:
            end_ns, cut = int(self.sent[over[0]]), f"more than {max_in_flight} requests in flight"
        step, before = round(TICK_S * NS_PER_S), 0
        for now in range(step, end_ns, step):
            tick = self._tick(before, now, settled)
            before = now
            if on_tick is not None:
                on_tick(tick)
            if stop is not None and (sentence := stop(tick)):
                return now, sentence
        return end_ns, cut

    def _tick(self, before_ns: int, now_ns: int, settled: Int64) -> Tick:
        done = settled <= now_ns
        failed = self.refused | (settled < self.done)
        recent = done & (settled > before_ns) & ~failed
        latency = (settled - self.planned)[recent]
        p50, p99 = np.percentile(latency, (50, 99)) if len(latency) else (np.nan, np.nan)
        sent = int((self.sent <= now_ns).sum())
        count = int(done.sum())
        return Tick(
            elapsed_ns=now_ns,
            planned=int((self.planned <= now_ns).sum()),
            sent=sent,
            done=count,
            errors=int((done & failed).sum()),
            in_flight=sent - count,
            recent_p50_ns=float(p50),
            recent_p99_ns=float(p99),
        )

    def outcome(self, end_ns: int, cut: str, items: int) -> LoadOutcome:
        """The log of what was due by the end of a cut run, or of everything."""
        due = self.planned <= end_ns if cut else np.ones(len(self.planned), np.bool_)
        planned, sent, done = self.planned[due], self.sent[due].copy(), self.done[due].copy()
        kind = np.where(self.refused[due], Kind.SERVER_ERROR, Kind.OK).astype(np.int64)
        limit = planned + self.timeout_ns
        if cut:
            sent[sent > end_ns] = -1
            grace = 0 if cut == GONE else min(self.timeout_ns, GRACE_NS)
            limit = np.minimum(limit, end_ns + grace)
        late = done > limit
        kind[late] = Kind.CONNECTION if cut == GONE else Kind.TIMEOUT
        done[late] = limit[late]
        rows, zeros = np.arange(len(planned), dtype=np.int64), np.zeros(len(planned), np.int64)
        log = RequestLog(
            request=rows,
            attempt=zeros,
            planned_ns=planned,
            sent_ns=sent,
            first_byte_ns=np.where(late, -1, done),
            done_ns=done,
            kind=kind,
            status=np.select([late, kind == Kind.OK], [0, _OK], _INTERNAL).astype(np.int64),
            items=np.full(len(planned), items, np.int64),
            model=zeros,
            shape=zeros,
            worker=zeros,
            new_connection=zeros,
        )
        lateness = log.lateness_ns()
        p50, p99 = np.percentile(lateness, (50, 99)) if len(lateness) else (0.0, 0.0)
        sender = Sender(float(p50), float(p99), float(lateness.max(initial=0)), 0.1, 1)
        return LoadOutcome(log, sender, end_ns / NS_PER_S, cut)
