"""A real Triton with the synthetic devices: calibrated on two runs each, then measured point by point."""

from __future__ import annotations

import time
from importlib.resources import files
from pathlib import Path
from typing import Self

from fidelity.points import BURSTS, CONTENTIONS, MAX_BATCH, Point, capacity, config_json, model_name
from fidelity.score import Measured
from tritune.arrivals.processes import plan
from tritune.cli.wiring import connect, instruments
from tritune.embedded.environment import ensure_environment
from tritune.embedded.server import start, stop
from tritune.model.config import ServingConfig
from tritune.model.measurement import Measurement
from tritune.model.profile import TwinProfile
from tritune.model.requests import Int64
from tritune.model.workload import Workload
from tritune.pbtxt.message import view_json
from tritune.stats.trust import doubt
from tritune.store.calibration import calibration_runs
from tritune.store.runs import Runs
from tritune.testing.timelines.undisturbed import undisturb
from tritune.twin.fit.calibrate import calibrate_runs
from tritune.units import NS_PER_S
from tritune.verbs.load import load as send
from tritune.verbs.measure import Cell, Instruments, measure, warm_up

CALIBRATION_S = 20
# One run with one instance, one with four: what others cost shows only where there are others.
CALIBRATED_AT = ((1, 0.65), (4, 0.6))
_LOAD_DEADLINE_S = 60.0
_TRIES = 3


class Silent:
    """Progress that nobody watches."""

    def step(self, text: str) -> None: ...
    def note(self, text: str) -> None: ...
    def tick(self, tick: object) -> None: ...


class Lab:
    """`undisturbed`: whether server and sender have real-time priority (so other programs decide no race)."""

    def __init__(self, folder: Path, seconds: int) -> None:
        self.seconds = seconds
        self._folder = folder
        self.undisturbed = True
        repository = folder / "models"
        device = (files("tritune.scenarios") / "device" / "model.py").read_bytes()
        for contention in CONTENTIONS:
            place = repository / model_name(contention) / "1"
            place.mkdir(parents=True)
            (place / "model.py").write_bytes(device)
            (place.parent / "config.pbtxt").write_text(
                f'name: "{model_name(contention)}"\nbackend: "python"\nmax_batch_size: {MAX_BATCH}\n'
            )
        self._running = start(
            repository,
            environment=ensure_environment(print),
            folder=folder,
            models=(),
            control_mode="explicit",
        )
        self.version = self._running.version
        self._server = connect(self._running.url, grpc=self._running.grpc, metrics=self._running.metrics)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._server.close()
        stop(self._running)

    def serving_config(self, point: Point) -> ServingConfig:
        """What the server will serve for this point, sizes filled in as Triton fills them in."""
        return view_json(_config(point))

    def plan(self, point: Point) -> Int64:
        """The instants that `measured` will send at."""
        load = self._workload(point)
        return plan(
            load.rate_per_s or 0.0,
            load.arrivals,
            load.seed,
            duration_ns=load.duration_ns,
            bursts=load.bursts,
        )

    def calibrated(self, contention: float) -> TwinProfile:
        """What `tritune simulate RUN RUN` calibrates on, one `tritune load` per entry of CALIBRATED_AT."""
        model, found = model_name(contention), []
        for instances, load in CALIBRATED_AT:
            self._serve(config_json(contention, instances=instances))
            sent = Workload(
                model=model,
                rate_per_s=capacity(contention, instances) * load,
                duration_ns=CALIBRATION_S * NS_PER_S,
                seed=instances,
            )
            for _ in range(_TRIES):
                cell, _, path = send(self._kit(sent), Runs(self._folder / "runs"), sent, data=None, slo=None)
                if not doubt(cell.measurement):
                    break
            found.extend(calibration_runs(path))
        return calibrate_runs(found)

    def measured(self, point: Point) -> Measured:
        """The plan of the point sent twice."""
        config = self._serve(_config(point))
        cells = [self._cell(self._workload(point), config) for _ in range(2)]
        return _measured(cells)

    def _serve(self, config: str) -> ServingConfig:
        model = view_json(config).name
        self._server.load(model, config, deadline_s=_LOAD_DEADLINE_S)
        self._server.wait_ready(model, "1", deadline_s=_LOAD_DEADLINE_S)
        time.sleep(1.2)  # the old instances need about a second to go
        self.undisturbed = undisturb(self._running.pid) and self.undisturbed
        return view_json(self._server.effective_config(model))

    def _cell(self, load: Workload, config: ServingConfig) -> Cell:
        kit = self._kit(load)
        for _ in range(_TRIES):
            warm_up(kit, load, "1", config, None)
            cell = measure(kit, load, "1", setting=str(load), data=None)
            if not doubt(cell.measurement):
                break
        return cell

    def _kit(self, load: Workload) -> Instruments:
        return instruments(
            self._server, rate_per_s=load.rate_per_s, timeout_ns=load.timeout_ns, progress=Silent()
        )

    def _workload(self, point: Point) -> Workload:
        return Workload(
            model=model_name(point.contention),
            rate_per_s=point.rate_per_s,
            duration_ns=self.seconds * NS_PER_S,
            arrivals="on-off" if point.on_off else "poisson",
            bursts=BURSTS if point.on_off else None,
            seed=point.seed,
        )


def _config(point: Point) -> str:
    return config_json(
        point.contention,
        instances=point.instances,
        delay_us=point.delay_us,
        preferred=point.preferred,
        lazy=point.lazy,
    )


def _measured(cells: list[Cell]) -> Measured:
    shares = [_shares(cell.measurement) for cell in cells]
    sizes = shares[0].keys() | shares[1].keys()
    return Measured(
        latency=(_figures(cells[0].measurement), _figures(cells[1].measurement)),
        batches={size: (shares[0].get(size, 0) + shares[1].get(size, 0)) / 2 for size in sorted(sizes)},
        batch_floor=sum(abs(shares[0].get(s, 0) - shares[1].get(s, 0)) for s in sizes) / 4,
        late_p99_ms=(
            cells[0].measurement.sender.lateness_p99_ns / 1e6,
            cells[1].measurement.sender.lateness_p99_ns / 1e6,
        ),
        failed=sum(sum(cell.measurement.errors.values()) for cell in cells),
    )


def _figures(measured: Measurement) -> dict[str, float]:
    return {
        name: (measured.latency[name].value or float("nan")) / 1e6 for name in ("mean", "p50", "p95", "p99")
    }


def _shares(measured: Measurement) -> dict[int, float]:
    window = measured.window
    stats = (window.counters.batch_stats or {}) if window else {}
    total = sum(stat.count for stat in stats.values())
    return {size: stat.count / total for size, stat in stats.items() if stat.count}
