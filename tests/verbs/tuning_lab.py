"""One model on the fake server under the fake load engine: a whole tuning in virtual time."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import msgspec

from tritune.model.load import Shot, Target, WarmUpDone
from tritune.model.slo import parse_slo
from tritune.model.workload import Workload
from tritune.testing import (
    FakeClock,
    FakeLoadEngine,
    FakeServer,
    MemoryJournal,
    MemoryRuns,
    Mishap,
    RecordingProgress,
)
from tritune.testing.counting import Execution
from tritune.tune.result import TuneResult
from tritune.units import NS_PER_MS, NS_PER_S
from tritune.verbs.measure import Instruments
from tritune.verbs.preflight import Served
from tritune.verbs.request import TuneRequest
from tritune.verbs.tune import Tuning

MODEL = "ranker"
LATEST = {"latest": {"num_versions": 1}}


def config(
    *, delay_us: int = 0, preferred: tuple[int, ...] = (), largest: int = 16, count: int = 1, **more: Any
) -> dict[str, Any]:
    """The ModelConfig of a model with a dynamic batcher, as JSON."""
    return {
        "name": MODEL,
        "backend": "python",
        "version_policy": LATEST,
        "max_batch_size": largest,
        "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [4]}],
        "output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": [4]}],
        "dynamic_batching": {
            "preferred_batch_size": list(preferred),
            "max_queue_delay_microseconds": delay_us,
        },
        "instance_group": [{"name": f"{MODEL}_0", "kind": "KIND_CPU", "count": count}],
    } | more


def device(base_ms: float, item_ms: float, contention: float = 0.0) -> Callable[[int, int], float]:
    """S(b) of an affine device, every instance stretched by the others."""

    def service(items: int, instances: int) -> float:
        return (base_ms + item_ms * items) * (1 + contention * (instances - 1)) * NS_PER_MS

    return service


FAST = device(3.0, 0.4)


class QuickWarmUp:
    """Two executions of every size, as the real warm-up makes, not simulated; `cuts` by number, from 1."""

    def __init__(self, lab: Lab) -> None:
        self.lab = lab
        self.done = 0
        self.cuts: dict[int, str] = {}

    def __call__(
        self,
        target: Target,
        make_shots: Callable[[int], Sequence[Shot]],
        *,
        max_batch_size: int,
        instances: int,
        minimum: int,
        budget_s: float,
        timeout_ns: int,
    ) -> WarmUpDone:
        self.done += 1
        if cut := self.cuts.get(self.done, ""):
            return WarmUpDone(7, 0, 0.5, (1,), cut)
        sizes = tuple(range(1, max(1, max_batch_size) + 1))
        for size in sizes:
            assert make_shots(size)[0].items == size
            ran = Execution((size,), infer_ns=round(self.lab.engine.service(size, instances)))
            self.lab.server.record(MODEL, ran, times=2 * instances)
        self.lab.clock.sleep(2.0)
        return WarmUpDone(minimum, 0, 2.0, sizes)


class Lab:
    """A server with one model, a load engine, and what a tuning left behind."""

    def __init__(
        self,
        served: dict[str, Any],
        service: Callable[[int, int], float] = FAST,
        *,
        server: FakeServer | None = None,
        mishaps: dict[int, Mishap] | None = None,
        **engine: Any,
    ) -> None:
        self.clock = FakeClock()
        self.server = server or FakeServer()
        self.server._clock = self.clock.now_ns
        self.server.add_model(served)
        engine.setdefault("run_sd", 0.01)
        self.engine = FakeLoadEngine(self.server, service, self.clock, mishaps=mishaps, **engine)
        self.progress = RecordingProgress()
        self.store = MemoryRuns()
        self.journal = MemoryJournal()
        self.server.load = self._journalled(self.server.load)
        self.original = self.server.effective_config(MODEL)
        self.warm_up = QuickWarmUp(self)
        self.kit = Instruments(
            self.server,
            self.engine,
            self.warm_up,
            self.clock,
            self.progress,
            max_in_flight=2000,
        )

    def _journalled(self, load: Callable[..., None]) -> Callable[..., None]:
        """A load as the server has it, once the last line of the journal announces exactly that load."""

        def checked(model: str, config_json: str | None, *, deadline_s: float) -> None:
            last = self.journal.lines[-1]
            assert last["action"] in ("trial", "restoring"), last
            assert last["after"] == config_json
            load(model, config_json, deadline_s=deadline_s)

        return checked

    def request(self, slo: str, rate: float, seconds: float = 10.0, **more: Any) -> TuneRequest:
        workload = Workload(MODEL, rate_per_s=rate, duration_ns=round(seconds * NS_PER_S))
        workload = msgspec.structs.replace(workload, **more.pop("workload", {}))
        return TuneRequest(workload, parse_slo(slo), **more)

    @contextmanager
    def guard(self, now: Served, run: str) -> Iterator[MemoryJournal]:
        """As `store.guard` without a lock and a watchdog: "begin" with the original."""
        self.journal.append(
            "begin", run=run, before=now.config_json, after=None, facts={"versions": list(now.versions)}
        )
        yield self.journal

    def tuning(self, request: TuneRequest, **more: Any) -> Tuning:
        return Tuning(self.kit, request, self.store, self.guard, **more)

    def tune(
        self, slo: str, rate: float, seconds: float = 10.0, folder: Any = None, **more: Any
    ) -> TuneResult:
        return self.tuning(self.request(slo, rate, seconds, **more), folder=folder).tune()

    @property
    def served(self) -> str:
        return self.server.effective_config(MODEL)
