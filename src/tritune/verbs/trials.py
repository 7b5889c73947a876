"""Loading settings one after the other and measuring them; the only place of a tuning that changes a server.

Everything is journalled before it is done, every load has a deadline and a count, every trial is pinned
to the version now served, and what comes up is compared with what was asked for (interfaces, safety).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tritune.errors import TrituneError
from tritune.model.server import ModelKey, ServerWindow, Snapshot, window
from tritune.model.slo import Slo
from tritune.model.workload import Workload
from tritune.pbtxt.message import same_json, trial_json, view_json
from tritune.stats.trust import doubt
from tritune.tune.undo import FAILED, LOADED, TRIAL, as_served
from tritune.tune.verdict import holds
from tritune.verbs.keep import keep_cell
from tritune.verbs.measure import Cell, Instruments, believable, measure, pool, warm_up
from tritune.verbs.ports import Journal, RunFolder, StopRule
from tritune.verbs.preflight import FOREIGN_SHARE, Served, foreign_share, ready_versions

READY_S = 30.0
# Errors that say nothing about whether the server executed the request.
GIVEN_UP = ("timeout", "connection")
# How many cells of one setting are measured at most to decide an SLO.
MOST_CELLS = 4
# After these the server serves what it had; after any other failure of a load it may go on with it.
REFUSALS = ("load-refused", "load-failed", "load-not-allowed", "unknown-model", "grpc-needed")


@dataclass
class Trials:
    """The server during a tuning. `loaded` is the configuration it serves now (JSON), empty: unknown."""

    kit: Instruments
    workload: Workload
    now: Served
    data: bytes | None
    slo: Slo
    server_version: str
    run: RunFolder
    max_reloads: int
    load_deadline_s: float
    journal: Journal | None = None
    reloads: int = 0
    cells: int = 0
    loaded: str = ""
    _before_warm_up: Snapshot | None = field(default=None, repr=False)
    _after: Snapshot | None = field(default=None, repr=False)
    _unanswered: int = field(default=0, repr=False)

    def __post_init__(self) -> None:
        self.loaded = self.now.config_json

    @property
    def key(self) -> ModelKey:
        """The model version that is tuned."""
        return ModelKey(self.workload.model, self.now.versions[0])

    def pinned(self, config_json: str) -> str:
        """The configuration as a trial loads it: pinned to the versions now served, and marked as ours."""
        return trial_json(config_json, self.now.versions)

    def warm_up(self) -> None:
        """Warm up what is served now."""
        self._before_warm_up = self.kit.server.statistics()
        warm_up(self.kit, self.workload, self.key.version, view_json(self.loaded), self.data)

    def curve_window(self) -> ServerWindow | None:
        """The counters of the setting now served since before its warm-up, which reached every batch size."""
        if self._before_warm_up is None or self._after is None:
            return None
        return window(self._before_warm_up, self._after, self.key)

    def measure(self, setting: str, stop: Callable[[], StopRule] | None = None) -> Cell:
        """One cell of the setting now served; measured again while the machine is disturbed.

        `stop` makes a fresh stop rule for each try. Whether the last try can be believed: `stats.trust`.
        """
        return believable(lambda: self._measure(setting, stop() if stop else None), self.kit.progress)

    def _measure(self, setting: str, stop: StopRule | None) -> Cell:
        """One try, kept as a run of its own; fails on traffic that is not ours."""
        self.cells += 1
        name = f"{self.cells:02d}"
        cell = measure(self.kit, self.workload, self.key.version, setting=setting, data=self.data, stop=stop)
        folder = self.run.trial(name)
        if self.loaded:
            folder.add_file("config/effective.json", self.loaded)
        keep_cell(folder, self.kit, self.server_version, self.slo, cell)
        if len(cell.snapshots) > 1:
            self._after = cell.snapshots[1]
            # What the cell before gave up waiting for may still have been executed in this one.
            ours = len(cell.log) + self._unanswered
            self._unanswered = sum(cell.measurement.errors.get(kind, 0) for kind in GIVEN_UP)
            share = foreign_share(cell.snapshots[0], cell.snapshots[1], self.key, ours)
            if share > FOREIGN_SHARE:
                raise TrituneError(
                    f"{share:.1%} of the requests to '{self.key.model}' were not ours",
                    slug="foreign-traffic",
                    hint="Somebody else uses this model now, so nothing measured here can be believed.",
                )
        return cell

    def serves(self, config_json: str) -> bool:
        """Whether this configuration is what the server serves, as far as we know."""
        return bool(self.loaded) and same_json(config_json, self.loaded)

    def switch(self, config_json: str) -> None:
        """Serve another configuration, warm; does nothing where it is served already."""
        if self.serves(config_json):
            return
        self.kit.progress.step(f"loading {self.workload.model} (reload {self.reloads + 1})")
        self.load(config_json)
        self.warm_up()

    def load(self, config_json: str) -> None:
        """Journal, load over gRPC, wait until ready, and compare what came up with what was asked for.

        A load that the server refuses leaves what it served before, and is journalled as "failed"; one
        that passes its deadline, or loses its connection, may go on in the server, so it stays announced
        (tune.undo).
        """
        if self.journal is None:
            raise ValueError("nothing is loaded without a journal")
        server, model, run = self.kit.server, self.workload.model, self.run.path
        self.reloads += 1
        self.journal.append(TRIAL, run=run, before=self.loaded, after=config_json)
        try:
            server.load(model, config_json, deadline_s=self.load_deadline_s)
        except TrituneError as error:
            if error.slug in REFUSALS:
                self.journal.append(FAILED, run=run, before=None, after=config_json)
            else:
                self.loaded = ""
            raise
        self.loaded = config_json
        self.journal.append(LOADED, run=run, before=None, after=config_json)
        server.wait_ready(model, self.key.version, deadline_s=READY_S)
        self._verify(config_json)

    def _verify(self, config_json: str) -> None:
        """Versions, instances and message are those that were asked for."""
        server, model = self.kit.server, self.workload.model
        versions = ready_versions(server.index(), model)
        if versions != self.now.versions:
            raise TrituneError(
                f"after the load '{model}' serves version {', '.join(versions) or 'none'} instead of "
                f"{', '.join(self.now.versions)}",
                slug="version-moved",
                hint="The repository changed while we worked.",
            )
        shown = server.effective_config(model, self.key.version)
        if not same_json(as_served(shown), as_served(config_json)):
            raise TrituneError(
                f"after the load '{model}' does not serve the configuration that was loaded",
                slug="load-differs",
                hint="Somebody else may have loaded it at the same time, or the server changed a field.",
            )


def settle(trials: Trials, slo: Slo, cells: list[Cell]) -> str:
    """Measure the setting now served again, MOST_CELLS times at most, until its interval decides the SLO.

    Returns why it ended before that (interrupted, the server gone), empty where it did not.
    """
    while len(cells) < MOST_CELLS and holds(slo, pool(cells)) == "undecided":
        trials.kit.progress.step("measuring again: whether the SLO holds is not decided yet")
        cell = trials.measure(cells[0].measurement.setting)
        if cell.measurement.cut or doubt(cell.measurement):
            return cell.measurement.cut
        cells.append(cell)
    return ""
