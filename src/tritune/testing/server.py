"""A Triton in memory: models with configurations, counters one advances, loads that apply overrides."""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from tritune.errors import TrituneError
from tritune.model.facts import ControlMode, IndexEntry, ModelMetadata, ServerInfo
from tritune.model.load import Shot, Target
from tritune.model.server import ModelCounters, ModelKey, Snapshot
from tritune.pbtxt.message import message_of_json, same
from tritune.testing.counting import Execution, counted, failed
from tritune.triton import payload
from tritune.triton.address import Address
from tritune.triton.control import checked_model, load_failed, load_not_allowed, load_refused
from tritune.triton.metadata import configured_model, model_metadata
from tritune.triton.model_errors import unusable

_NOT_ALLOWED = "explicit model load / unload is not allowed if polling is enabled"
# These change without a reload of the model: statistics survive (semantics 4.1).
_IN_PLACE = ("instance_group", "version_policy")


class _FakeModel:
    def __init__(self, config: dict[str, Any], version: str, state: str, reason: str) -> None:
        self.file = config
        self.config = copy.deepcopy(config)
        self.version = version
        self.state = state
        self.reason = reason
        self.statistics = ModelCounters(batch_stats={})
        self.metrics = ModelCounters()
        self.pending = 0


class FakeServer:
    """Satisfies `tritune.verbs.ports.Server` without a network, and says what a real Triton would say.

    `on_read` is called before every `statistics()` and `metrics()` and may `record` what happened meanwhile.
    Every load that was asked for is kept in `loads` as (model, config_json). `gone()` makes each later call
    fail as if the server had ended. The clock of the snapshots is `clock`, by default 1 ms further each read.
    """

    def __init__(
        self,
        *,
        url: str = "http://127.0.0.1:8000",
        version: str = "2.51.0",
        control: ControlMode = "explicit",
        notes: tuple[str, ...] = (),
        replicas: bool = False,
        with_metrics: bool = True,
        on_read: Callable[[FakeServer], None] | None = None,
        clock: Callable[[], int] | None = None,
    ) -> None:
        host, _, port = url.rpartition("//")[2].rpartition(":")
        self._address = Address(host, int(port), tls=url.startswith("https"))
        self._info = ServerInfo("triton", version, ("statistics", "model_repository", "model_configuration"))
        self._control = control
        self._notes = notes
        self._replicas = replicas
        self._with_metrics = with_metrics
        self._on_read = on_read
        ticks = itertools.count(1_000_000, 1_000_000)
        self._clock = clock or (lambda: next(ticks))
        self._models: dict[str, _FakeModel] = {}
        self._gone = False
        self.loads: list[tuple[str, str | None]] = []
        self.gauges: dict[str, float] = {}

    def add_model(
        self, config: Mapping[str, Any], *, version: str = "1", state: str = "READY", reason: str = ""
    ) -> None:
        """Serve a model; `config` is the JSON of a ModelConfig, its "name" the model's."""
        self._models[str(config["name"])] = _FakeModel(dict(config), version, state, reason)

    def record(self, model: str, execution: Execution, *, times: int = 1) -> None:
        """Let `execution` have happened, in the statistics and in the metrics."""
        found = self._models[model]
        found.statistics = counted(found.statistics, execution, times)
        found.metrics = counted(found.metrics, execution, times)

    def fail(self, model: str, *, reason: str = "BACKEND", count: int = 1) -> None:
        """Let `count` requests have failed."""
        found = self._models[model]
        found.statistics = msgspec.structs.replace(
            failed(found.statistics, reason, count), failure_reasons={}
        )
        found.metrics = failed(found.metrics, reason, count)

    def pending(self, model: str, count: int) -> None:
        """Let `count` requests wait."""
        self._models[model].pending = count

    def gone(self) -> None:
        """End, as a killed server does."""
        self._gone = True

    @property
    def url(self) -> str:
        """The HTTP endpoint."""
        return self._address.url

    @property
    def target(self) -> Target:
        """Where a load engine would send to."""
        return Target(self._address.host, self._address.port, self._address.tls)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is lost."""
        return self._notes

    def info(self) -> ServerInfo:
        """Name, version and extensions."""
        self._answer()
        return self._info

    def index(self) -> tuple[IndexEntry, ...]:
        """The repository index; a model without a state was never loaded and shows no version."""
        self._answer()
        return tuple(
            IndexEntry(name, m.version if m.state else "", m.state, m.reason)
            for name, m in sorted(self._models.items())
        )

    def metadata(self, model: str, version: str = "") -> ModelMetadata:
        """Inputs and outputs, derived from the configuration as Triton does."""
        served = self._served(model, version)
        config = served.config
        batch = [-1] if config.get("max_batch_size", 0) > 0 else []
        tensors = {
            f"{side}s": [
                {
                    "name": t["name"],
                    "datatype": t["data_type"].removeprefix("TYPE_").replace("STRING", "BYTES"),
                    "shape": [*batch, *(int(d) for d in t["dims"])],
                }
                for t in config.get(side, [])
            ]
            for side in ("input", "output")
        }
        platform = config.get("platform") or config.get("backend", "")
        body = {"name": model, "versions": [served.version], "platform": platform, **tensors}
        return model_metadata(
            msgspec.json.encode(body),
            configured_model(self.effective_config(model, version), url=self.url),
            url=self.url,
        )

    def effective_config(self, model: str, version: str = "") -> str:
        """What is served, JSON text; the preferred size that Triton fills in by itself is in it."""
        return msgspec.json.encode(_normalized(self._served(model, version).config)).decode()

    def statistics(self) -> Snapshot:
        """Counters with batch_stats of the models that are ready."""
        self._read()
        models = {ModelKey(name, m.version): m.statistics for name, m in self._ready()}
        return Snapshot(t_ns=self._clock(), source="statistics", models=models)

    def metrics(self) -> Snapshot | None:
        """Counters without batch_stats, pending requests, gauges; None without a metrics endpoint."""
        if self._gone or not self._with_metrics:
            return None
        self._read()
        keys = {ModelKey(name, m.version): m for name, m in self._ready()}
        return Snapshot(
            t_ns=self._clock(),
            source="metrics",
            models={key: msgspec.structs.replace(m.metrics, batch_stats=None) for key, m in keys.items()},
            pending={key: m.pending for key, m in keys.items()},
            gauges=dict(self.gauges),
        )

    def shots(self, model: str, version: str, items: int, data: bytes | None) -> tuple[Shot, ...]:
        """The same bytes that would go to a real server."""
        known = self.metadata(model, version)
        max_batch_size = int(self._served(model, version).config.get("max_batch_size", 0))
        return payload.shots(self._address, known, max_batch_size, version, items, data)

    def needs_data(self, model: str, version: str) -> str | None:
        """As a real server's."""
        return payload.needs_data(self.metadata(model, version))

    def control_mode(self) -> ControlMode:
        """As it was made."""
        self._answer()
        return self._control

    def several_replicas(self) -> bool:
        """As it was made."""
        self._answer()
        return self._replicas

    def load(self, model: str, config_json: str | None, *, deadline_s: float) -> None:
        """Apply the override, or the model's own configuration, with the same refusals as a real server.

        As measured on 24.10, a load without an override does not undo an earlier override.
        """
        self._answer()
        if deadline_s <= 0:
            raise ValueError("a load without time to do it in")
        self.loads.append((model, config_json))
        checked_model(self.url, model, self.index())
        if self._control != "explicit":
            raise load_not_allowed(self.url, _NOT_ALLOWED)
        found = self._models[model]
        if found.state == "UNAVAILABLE" and found.reason:
            raise load_failed(self.url, model, found.reason)
        if config_json is not None:
            new = self._validated(model, config_json)
            if not _in_place(found.config, new):
                found.statistics = ModelCounters(batch_stats={})
            elif "version_policy" in found.config:
                # In place: the old policy goes on being shown (measured on 24.10).
                new["version_policy"] = found.config["version_policy"]
            else:
                new.pop("version_policy", None)
            found.config = new
        found.state, found.reason = "READY", ""

    def wait_ready(self, model: str, version: str, *, deadline_s: float) -> None:
        """At once, or at once not: nothing here changes while one waits."""
        if deadline_s <= 0:
            raise ValueError("a wait without time to do it in")
        self._served(model, version)

    def _answer(self) -> None:
        if self._gone:
            raise TrituneError(
                f"the server at {self.url} is gone: it answered before and does not any more",
                slug="server-gone",
            )

    def _read(self) -> None:
        self._answer()
        if self._on_read is not None:
            self._on_read(self)

    def _ready(self) -> list[tuple[str, _FakeModel]]:
        return [(name, m) for name, m in sorted(self._models.items()) if m.state == "READY"]

    def _served(self, model: str, version: str) -> _FakeModel:
        self._answer()
        found = self._models.get(model)
        if found is None or found.state != "READY" or version not in ("", found.version):
            raise unusable(self.url, model, version, self.index())
        return found

    def _validated(self, model: str, config_json: str) -> dict[str, Any]:
        from google.protobuf import json_format
        from tritonclient.grpc import model_config_pb2

        try:
            config = json_format.Parse(config_json, model_config_pb2.ModelConfig())
        except json_format.ParseError:
            raise load_refused(self.url, model) from None
        preferred = config.dynamic_batching.preferred_batch_size
        if config.name != model or any(not 0 < size <= config.max_batch_size for size in preferred):
            raise load_refused(self.url, model)
        for group in config.instance_group:
            if group.kind == group.KIND_GPU:
                said = f"instance group {group.name} has kind KIND_GPU but no GPUs are available"
                raise load_failed(self.url, model, said)
        decoded: dict[str, Any] = msgspec.json.decode(config_json)
        return decoded


def _in_place(old: Mapping[str, Any], new: Mapping[str, Any]) -> bool:
    """Whether they differ in nothing that needs a reload, as messages (numbers may be written as strings)."""
    messages = [message_of_json(msgspec.json.encode(_normalized(c)).decode()) for c in (old, new)]
    for message in messages:
        for name in _IN_PLACE:
            message.ClearField(name)
    return same(*messages)


def _normalized(config: Mapping[str, Any]) -> dict[str, Any]:
    """With preferred_batch_size = [max_batch_size] where the block names none (semantics 1.5)."""
    block, largest = config.get("dynamic_batching"), config.get("max_batch_size", 0)
    if block is None or largest <= 0 or block.get("preferred_batch_size"):
        return dict(config)
    return {**config, "dynamic_batching": {**block, "preferred_batch_size": [largest]}}
