"""A load engine in virtual time: the plan meets a simplified batcher with the fake server's settings."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence

import msgspec
import numpy as np

from tritune.load.attempts import GONE
from tritune.model.config import ServingConfig
from tritune.model.load import INTERRUPTED, LoadOutcome, Shot, Target, Tick
from tritune.model.requests import Int64
from tritune.pbtxt.message import view_json
from tritune.testing.batcher import FakeBatcher, Ran, Service
from tritune.testing.counting import Execution
from tritune.testing.server import FakeServer
from tritune.testing.time import FakeClock
from tritune.testing.timeline import LoadTimeline
from tritune.units import NS_PER_S

_PATH = re.compile(rb"POST /v2/models/([^/ ]+)")


class Mishap(msgspec.Struct, frozen=True):
    """What goes wrong in one run.

    `error_share` of the requests are refused at once (HTTP 500). `late_ns`: every request is sent so much
    later than planned. `foreign` requests of somebody else run meanwhile. After the share `cut_at` of the
    plan the run is interrupted (`interrupted`), or the server ends (`gone`).
    """

    error_share: float = 0.0
    late_ns: int = 0
    foreign: int = 0
    interrupted: bool = False
    gone: bool = False
    cut_at: float = 0.5


class FakeLoadEngine:
    """Satisfies `tritune.verbs.ports.LoadEngine`.

    `service(items, instances)` is how long a batch runs, ns. What is simulated (`batcher.FakeBatcher`) is the
    configuration that `server` serves when a run begins; `serving` maps it where a test wants another.
    Batches that began before the run's end are recorded in the server. `run_sd` stretches every time of a
    run by one log-normal factor, as machines do from run to run; `batch_sd` is the noise of single batches.
    Mishaps are by number of the open-loop run, from 1. `runs` are the configurations that were measured.
    """

    def __init__(
        self,
        server: FakeServer,
        service: Service,
        clock: FakeClock,
        *,
        run_sd: float = 0.0,
        batch_sd: float = 0.01,
        overhead_ns: int = 300_000,
        seed: int = 1,
        mishaps: Mapping[int, Mishap] | None = None,
        serving: Callable[[ServingConfig], ServingConfig] = lambda config: config,
    ) -> None:
        self.server = server
        self.service = service
        self.clock = clock
        self.run_sd = run_sd
        self.batch_sd = batch_sd
        self.overhead_ns = overhead_ns
        self.mishaps = dict(mishaps or {})
        self.serving = serving
        self.runs: list[ServingConfig] = []
        self._noise = np.random.Generator(np.random.PCG64(seed))

    def open_loop(
        self,
        target: Target,  # noqa: ARG002 - nothing is sent
        planned_ns: Int64,
        shots: Sequence[Shot],
        *,
        timeout_ns: int,
        max_in_flight: int,
        on_tick: Callable[[Tick], None] | None = None,
        stop: Callable[[Tick], str | None] | None = None,
    ) -> LoadOutcome:
        """Every request at its planned instant, or `late_ns` after it."""
        model, config = self._served(shots)
        self.runs.append(config)
        mishap = self.mishaps.get(len(self.runs), Mishap())
        batcher = self._batcher(config, shots)
        planned = np.asarray(planned_ns, np.int64)
        sent = planned + mishap.late_ns + self._noise.integers(10_000, 100_000, len(planned))
        sent.sort()
        refused = self._noise.random(len(planned)) < mishap.error_share
        answered = np.empty_like(sent)
        answered[~refused] = batcher.open_loop(sent[~refused].tolist())
        answered[refused] = sent[refused]
        stretch = math.exp(self._noise.normal(0.0, self.run_sd))
        done = sent + np.rint(stretch * (answered - sent)).astype(np.int64) + self.overhead_ns
        cut, end = "", int(max(done.max(initial=0), planned.max(initial=0)))
        if mishap.interrupted or mishap.gone:
            cut = INTERRUPTED if mishap.interrupted else GONE
            end = int(planned[int(mishap.cut_at * (len(planned) - 1))])
        run = LoadTimeline(planned, sent, done, refused, timeout_ns)
        end, cut = run.watch(end, cut, max_in_flight, on_tick, stop)
        self._record(model, batcher, end, stretch)
        if failed := int((refused & (sent <= end)).sum()):
            self.server.fail(model, count=failed)
        if mishap.foreign:
            self.server.record(model, Execution(infer_ns=round(self.service(1, 1))), times=mishap.foreign)
        self.clock.sleep(end / NS_PER_S)
        if cut == GONE:
            self.server.gone()
        return run.outcome(end, cut, shots[0].items)

    def closed_loop(
        self,
        target: Target,  # noqa: ARG002 - nothing is sent
        concurrency: int,
        shots: Sequence[Shot],
        *,
        timeout_ns: int,
        count: int | None = None,
        duration_ns: int | None = None,
        on_tick: Callable[[Tick], None] | None = None,
        stop: Callable[[Tick], str | None] | None = None,
    ) -> LoadOutcome:
        """`concurrency` in flight; no mishaps, no run-to-run noise."""
        model, config = self._served(shots)
        batcher = self._batcher(config, shots)
        times = batcher.closed_loop(concurrency, count=count, until_ns=duration_ns, pause_ns=self.overhead_ns)
        sent, answered = (np.array(column, np.int64) for column in times)
        run = LoadTimeline(sent, sent, answered + self.overhead_ns, np.zeros(len(sent), np.bool_), timeout_ns)
        end, cut = run.watch(int(run.done.max(initial=0)), "", len(sent) + 1, on_tick, stop)
        self._record(model, batcher, end, 1.0)
        self.clock.sleep(end / NS_PER_S)
        return run.outcome(end, cut, shots[0].items)

    def _served(self, shots: Sequence[Shot]) -> tuple[str, ServingConfig]:
        found = _PATH.match(shots[0].data)
        if found is None:
            raise ValueError("a shot is an inference request")
        model = found[1].decode()
        return model, self.serving(view_json(self.server.effective_config(model)))

    def _batcher(self, config: ServingConfig, shots: Sequence[Shot]) -> FakeBatcher:
        [items] = {shot.items for shot in shots}  # all alike: the batcher counts in requests

        def factors() -> Iterator[float]:
            while True:
                yield from np.exp(self._noise.normal(0.0, self.batch_sd, 256)).tolist()

        return FakeBatcher(config, self.service, items, factors().__next__)

    def _record(self, model: str, batcher: FakeBatcher, end_ns: int, stretch: float) -> None:
        """The batches that began by then as executions, equal sizes at once, with their mean times."""
        alike: dict[int, list[Ran]] = {}
        for ran in batcher.ran:
            if ran.start_ns <= end_ns:
                alike.setdefault(ran.requests, []).append(ran)
        for size, all_ran in sorted(alike.items()):
            queue_ns = sum(ran.queue_ns for ran in all_ran) / (size * len(all_ran))
            infer_ns = sum(ran.service_ns for ran in all_ran) / len(all_ran)
            execution = Execution(
                (batcher.items,) * size,
                queue_ns=round(stretch * queue_ns),
                infer_ns=round(stretch * infer_ns),
            )
            self.server.record(model, execution, times=len(all_ran))
