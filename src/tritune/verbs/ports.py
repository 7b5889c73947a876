"""The world as the verbs see it: small protocols that acting packages satisfy and `cli` wires in.

Every method may raise TrituneError, never a foreign one. Fakes in `tritune.testing` satisfy the same
protocols and pass the same contract suite as the real things.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol

from tritune.model.config import ServingConfig
from tritune.model.facts import ControlMode, IndexEntry, ModelMetadata, ServerInfo
from tritune.model.load import LoadOutcome, Shot, Target, Tick, WarmUpDone
from tritune.model.requests import Int64, RequestLog
from tritune.model.run import Manifest
from tritune.model.server import Snapshot

OnTick = Callable[[Tick], None]
# Asked at every tick; a sentence ends the load at once and becomes the outcome's `cut`.
StopRule = Callable[[Tick], str | None]


class Server(Protocol):
    """A running Triton: read it, and load models into it over gRPC (never HTTP: semantics 4.3)."""

    @property
    def url(self) -> str:
        """The HTTP endpoint, as http://host:port."""

    @property
    def target(self) -> Target:
        """Where the load engine sends to."""

    @property
    def notes(self) -> tuple[str, ...]:
        """What is lost, a sentence each: gRPC or metrics not reachable and what that costs."""

    def info(self) -> ServerInfo:
        """Name and version. Fails with one sentence for: unreachable, not Triton, the metrics port."""

    def index(self) -> tuple[IndexEntry, ...]:
        """The repository index."""

    def metadata(self, model: str, version: str = "") -> ModelMetadata:
        """Inputs and outputs. Fails for an unknown model (naming those there are) or one not ready."""

    def effective_config(self, model: str, version: str = "") -> str:
        """The configuration that is really served, JSON text as the server gives it."""

    def statistics(self) -> Snapshot:
        """Counters of all models with batch_stats; over HTTP, or gRPC where only that answers."""

    def metrics(self) -> Snapshot | None:
        """Counters, gauges and summaries of the metrics endpoint; None where it does not answer."""

    def shots(self, model: str, version: str, items: int, data: bytes | None) -> tuple[Shot, ...]:
        """Complete inference requests of `items` rows: zeros after the metadata, or the JSON in `data`."""

    def needs_data(self, model: str, version: str) -> str | None:
        """The sentence that asks for real values where zeros would measure another model; None otherwise."""

    def control_mode(self) -> ControlMode:
        """Whether models can be loaded; asked without changing anything."""

    def several_replicas(self) -> bool:
        """Whether several servers answer behind this address: five quick reads whose counters disagree."""

    def load(self, model: str, config_json: str | None, *, deadline_s: float) -> None:
        """Load (with a complete config override) and return when the server says it is done."""

    def wait_ready(self, model: str, version: str, *, deadline_s: float) -> None:
        """Return when the model answers ready; fail at the deadline."""


class LoadEngine(Protocol):
    """Sends prepared requests and records every attempt."""

    def open_loop(
        self,
        target: Target,
        planned_ns: Int64,
        shots: Sequence[Shot],
        *,
        timeout_ns: int,
        max_in_flight: int,
        on_tick: OnTick | None = None,
        stop: StopRule | None = None,
    ) -> LoadOutcome:
        """Fire request i at planned_ns[i] whatever earlier answers do; shots are taken round robin."""

    def closed_loop(
        self,
        target: Target,
        concurrency: int,
        shots: Sequence[Shot],
        *,
        timeout_ns: int,
        count: int | None = None,
        duration_ns: int | None = None,
        on_tick: OnTick | None = None,
        stop: StopRule | None = None,
    ) -> LoadOutcome:
        """Keep `concurrency` requests in flight until `count` were sent or `duration_ns` has passed."""


class WarmUp(Protocol):
    """Reaches every batch size on every instance before anything is measured."""

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
        """Send at least `minimum` requests, `make_shots(items)` being those of one batch dimension."""


class RunFolder(Protocol):
    """A run folder being written: beside its final place, renamed when it is finished."""

    @property
    def path(self) -> str:
        """Where it will be."""

    def add_requests(self, log: RequestLog) -> None:
        """requests.parquet."""

    def add_server(self, snapshots: Sequence[Snapshot]) -> None:
        """server.parquet: the snapshots as rows (t_ns, source, model, version, field, value)."""

    def add_file(self, name: str, content: str | bytes) -> None:
        """Any other file, by its path within the folder."""

    def trial(self, name: str) -> RunFolder:
        """A run folder inside this one, under trials/."""

    def finish(self, manifest: Manifest) -> str:
        """Write manifest.json (and environment.json), move the folder into place, return its path."""


class RunStore(Protocol):
    """Where runs go."""

    def create(self, model: str) -> RunFolder:
        """A new folder <root>/<UTC>-<model>. Fails with a sentence where it cannot be written."""


class Journal(Protocol):
    """What was done to one model of one server: fsynced before it is done (interfaces, Journal)."""

    def append(
        self,
        action: str,
        *,
        run: str,
        before: str | None,
        after: str | None,
        facts: Mapping[str, Any] | None = None,
    ) -> None:
        """One line {time, run, action, before, after} and the facts beside them; on disk when this returns.

        The actions are those of `tritune.tune.undo`; "begin" needs the fact `versions`.
        """

    def entries(self) -> tuple[dict[str, Any], ...]:
        """All whole lines, oldest first; a torn last line is ignored."""


class ModelFolder(Protocol):
    """The model's folder in its repository, where we can see it; only read."""

    @property
    def path(self) -> str:
        """Its config.pbtxt, as the operator named it."""

    def text(self) -> str:
        """The text of config.pbtxt."""

    def config(self) -> ServingConfig | None:
        """config.pbtxt as a ServingConfig; None where there is no such file."""

    def changed_since_load(self) -> str:
        """A file newer than the load that is served, empty if there is none or it cannot be told."""

    def on_network(self) -> bool:
        """Whether it lies on a network file system, and so may be shared by servers."""

    def size_bytes(self) -> int:
        """All files of the newest version."""


class Guard(Protocol):
    """Holds the lock of a tuned model and a detached watchdog that restores it if this process dies."""

    def __enter__(self) -> Journal:
        """Take the lock, start the watchdog; fails where a living process holds it."""

    def __exit__(self, *_: object) -> None:
        """Give the lock back. A session without "finished" or a verified "restored" is then restored by
        the watchdog at once, as after a kill; otherwise the watchdog ends.
        """


class Clock(Protocol):
    """Time, so that verbs can be tested without waiting."""

    def now_ns(self) -> int:
        """Monotonic."""

    def sleep(self, seconds: float) -> None:
        """Wait."""

    def utc(self) -> str:
        """The wall clock, ISO 8601 in UTC; for labels only, never for measuring."""


class Progress(Protocol):
    """What a verb tells a person while it works; a live view, plain lines, or nothing."""

    def step(self, text: str) -> None:
        """A new phase began."""

    def tick(self, tick: Tick) -> None:
        """A load is running."""

    def note(self, text: str) -> None:
        """Something worth keeping on the screen."""
