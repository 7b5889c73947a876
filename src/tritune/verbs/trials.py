"""Loading settings one after the other and measuring them; the only place of a tuning that changes a server.

Everything is journalled before it is done, every load has a deadline and a count, every trial is pinned
to the version now served, and what comes up is compared with what was asked for (interfaces, safety).
"""

from __future__ import annotations

from dataclasses import dataclass, field

from tritune.errors import TrituneError
from tritune.model.server import ModelKey, ServerWindow, Snapshot, window
from tritune.model.slo import Slo
from tritune.model.workload import Workload
from tritune.pbtxt.message import pin_json, same_json, view_json
from tritune.verbs.measure import Cell, Instruments, measure, warm_up
from tritune.verbs.keep import keep_cell
from tritune.verbs.ports import Journal, RunFolder, StopRule
from tritune.verbs.preflight import FOREIGN_SHARE, Served, foreign_share, ready_versions

READY_S = 30.0


@dataclass
class Trials:
    """The server during a tuning. `loaded` is the configuration it serves now (JSON)."""

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

    def __post_init__(self) -> None:
        self.loaded = self.now.config_json

    @property
    def key(self) -> ModelKey:
        """The model version that is tuned."""
        return ModelKey(self.workload.model, self.now.versions[0])

    def pinned(self, config_json: str) -> str:
        """The configuration as a trial loads it: pinned to the versions now served."""
        return pin_json(config_json, self.now.versions)

    def warm_up(self) -> None:
        """Warm up what is served now."""
        self._before_warm_up = self.kit.server.statistics()
        warm_up(self.kit, self.workload, self.key.version, view_json(self.loaded), self.data)

    def curve_window(self) -> ServerWindow | None:
        """The counters of the setting now served since before its warm-up, which reached every batch size."""
        if self._before_warm_up is None or self._after is None:
            return None
        return window(self._before_warm_up, self._after, self.key)

    def measure(self, setting: str, stop: StopRule | None = None) -> Cell:
        """One cell of the setting now served, kept as a run of its own; fails on traffic that is not ours."""
        self.cells += 1
        name = f"{self.cells:02d}"
        cell = measure(
            self.kit, self.workload, self.key.version, setting=setting, data=self.data, stop=stop
        )
        keep_cell(self.run.trial(name), self.kit, self.server_version, self.slo, cell)
        if len(cell.snapshots) > 1:
            self._after = cell.snapshots[1]
            ours = len(cell.log)
            share = foreign_share(cell.snapshots[0], cell.snapshots[1], self.key, ours)
            if share > FOREIGN_SHARE:
                raise TrituneError(
                    f"{share:.1%} of the requests to '{self.key.model}' were not ours",
                    slug="foreign-traffic",
                    hint="Somebody else uses this model now, so nothing measured here can be believed.",
                )
        return cell

    def switch(self, config_json: str) -> None:
        """Serve another configuration, warm; does nothing where it is served already."""
        if same_json(config_json, self.loaded):
            return
        self.load(config_json, "trial")
        self.warm_up()

    def load(self, config_json: str, action: str, *, served_as: str = "loaded") -> None:
        """Journal, load over gRPC, wait until ready, and compare what came up with what was asked for."""
        if self.reloads >= self.max_reloads and action == "trial":
            raise TrituneError(
                f"the {self.max_reloads} reloads that were allowed are used up",
                slug="reloads-used-up",
                hint="Allow more with --max-reloads.",
            )
        if self.journal is None:
            raise ValueError("nothing is loaded without a journal")
        self.journal.append(action, run=self.run.path, before=self.loaded, after=config_json)
        self.reloads += 1
        server, model = self.kit.server, self.workload.model
        self.kit.progress.step(f"loading {model} (reload {self.reloads})")
        server.load(model, config_json, deadline_s=self.load_deadline_s)
        server.wait_ready(model, self.key.version, deadline_s=READY_S)
        versions = ready_versions(server.index(), model)
        if versions != self.now.versions:
            raise TrituneError(
                f"after the load '{model}' serves version {', '.join(versions)} instead of "
                f"{', '.join(self.now.versions)}",
                slug="version-moved",
                hint="The repository changed under us; the original is put back.",
            )
        shown = server.effective_config(model, self.key.version)
        if view_json(shown).instances != view_json(config_json).instances:
            raise TrituneError(
                f"after the load '{model}' has {view_json(shown).instances} instances instead of "
                f"{view_json(config_json).instances}",
                slug="instances-differ",
                hint="The original is put back; see the server's log for why.",
            )
        self.loaded = config_json
        self.journal.append(served_as, run=self.run.path, before=None, after=config_json)
