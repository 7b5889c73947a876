"""A running Triton as the verbs see it: `connect` finds its endpoints, `TritonServer` composes them."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Self, TypeVar
from urllib.parse import quote

from tritune.errors import TrituneError
from tritune.model.facts import ControlMode, IndexEntry, ModelMetadata, ServerInfo
from tritune.model.load import Shot, Target
from tritune.model.server import Snapshot
from tritune.triton import control, identity, index, payload, statistics
from tritune.triton.address import parse_url
from tritune.triton.endpoints import MetricsPage, find_grpc, find_metrics, same_server
from tritune.triton.grpc import Grpc
from tritune.triton.http import Http, Reply
from tritune.triton.metadata import ConfiguredModel, configured_model, model_metadata
from tritune.triton.model_errors import not_ready, unusable
from tritune.triton.replicas import several_replicas

T = TypeVar("T")

_TIMEOUT_S = 5.0
_READY_POLL_S = 0.02
_REPLICA_READS = 5
# Over HTTP these may mean "not for you" or "not this way"; gRPC may still answer.
_ASK_GRPC_AFTER = ("access-denied", "server-timeout")


def connect(
    url: str, *, grpc: str | None = None, metrics: str | None = None, timeout_s: float = _TIMEOUT_S
) -> TritonServer:
    """The server at `url` (its HTTP endpoint); gRPC and metrics are the next two ports where those answer.

    What does not answer there is lost with a sentence in `notes`; what was named (`grpc` as HOST:PORT,
    `metrics` as a URL) and does not answer is an error. `timeout_s` bounds every single question. Raises
    UsageError for an address that is none, and TrituneError where no Triton answers (`identity.identify`).
    """
    address = parse_url(url)
    http = Http(address, timeout_s=timeout_s)
    identity.identify(http)
    grpc_address, grpc_note = find_grpc(address, grpc, timeout_s=timeout_s)
    page, metrics_note = find_metrics(address, metrics, timeout_s=timeout_s)
    return TritonServer(
        http,
        Grpc(grpc_address, timeout_s=timeout_s) if grpc_address else None,
        page,
        notes=tuple(note for note in (grpc_note, metrics_note) if note),
    )


class TritonServer:
    """Satisfies `tritune.verbs.ports.Server`. Reading is safe from several threads."""

    def __init__(
        self, http: Http, grpc: Grpc | None, page: MetricsPage | None, *, notes: tuple[str, ...]
    ) -> None:
        self._http = http
        self._grpc = grpc
        self._page = page
        self._notes = notes
        self._mode: ControlMode | None = None
        self._grpc_checked = False

    @property
    def url(self) -> str:
        """The HTTP endpoint, as http://host:port."""
        return self._http.address.url

    @property
    def target(self) -> Target:
        """Where the load engine sends to."""
        address = self._http.address
        return Target(address.host, address.port, address.tls)

    @property
    def notes(self) -> tuple[str, ...]:
        """What is lost, a sentence each."""
        return self._notes

    def info(self) -> ServerInfo:
        """Name, version and extensions."""
        return identity.identify(self._http)

    def ready(self) -> bool:
        """Whether the server as a whole says it is ready."""
        return self._either(lambda: self._http.request("GET", "/v2/health/ready").status == 200, Grpc.ready)

    def index(self) -> tuple[IndexEntry, ...]:
        """The repository index."""
        body = self._either(
            lambda: self._checked(self._http.request("POST", "/v2/repository/index")).body, Grpc.index_json
        )
        return index.from_json(body, url=self.url)

    def metadata(self, model: str, version: str = "") -> ModelMetadata:
        """Inputs and outputs; fails for an unknown model (naming those there are) or one not ready."""
        config = configured_model(self.effective_config(model, version), url=self.url)
        return self._metadata(model, version, config)

    def effective_config(self, model: str, version: str = "") -> str:
        """The configuration that is really served, JSON text as the server gives it."""
        return self._either(
            lambda: self._of_model(model, version, "/config").body.decode(errors="replace"),
            lambda grpc: grpc.config_json(model, version),
        )

    def statistics(self) -> Snapshot:
        """Counters of all models in one read, with batch_stats."""
        return self._either(self._http_statistics, _grpc_statistics)

    def metrics(self) -> Snapshot | None:
        """Counters, gauges and summaries of the metrics page; None where it does not answer."""
        return self._page.read() if self._page else None

    def shots(self, model: str, version: str, items: int, data: bytes | None) -> tuple[Shot, ...]:
        """Requests of `items` rows, 0 = as many as `data` has; see `payload.shots`."""
        config = configured_model(self.effective_config(model, version), url=self.url)
        known = self._metadata(model, version, config)
        return payload.shots(self._http.address, known, config.max_batch_size, version, items, data)

    def needs_data(self, model: str, version: str) -> str | None:
        """The sentence that asks for real values; see `payload.needs_data`."""
        return payload.needs_data(self.metadata(model, version))

    def control_mode(self) -> ControlMode:
        """Whether models can be loaded; asked once, without changing anything. Without gRPC: fixed."""
        if self._mode is None:
            grpc = self._loading_grpc()
            self._mode = control.control_mode(grpc) if grpc else "fixed"
        return self._mode

    def load(self, model: str, config_json: str | None, *, deadline_s: float) -> None:
        """Load over gRPC and return when the server says it is done; see `control.load` for the failures."""
        grpc = self._loading_grpc()
        if grpc is None:
            raise TrituneError(
                f"'{model}' cannot be loaded: the gRPC endpoint of {self.url} does not answer",
                slug="grpc-needed",
                hint="Name it with --grpc HOST:PORT; over HTTP a load would stall everybody's requests.",
            )
        control.checked_model(self.url, model, self.index())
        control.load(grpc, self.url, model, config_json, deadline_s=deadline_s)

    def wait_ready(self, model: str, version: str, *, deadline_s: float) -> None:
        """Return when the model answers ready; at the deadline fail with its state in the index.

        An unknown model fails at once.
        """
        control.checked_model(self.url, model, self.index())
        end = time.monotonic() + deadline_s
        while self._http.request("GET", f"{_path(model, version)}/ready").status != 200:
            if time.monotonic() >= end:
                raise self._not_ready(model, version)
            time.sleep(_READY_POLL_S)

    def several_replicas(self) -> bool:
        """Whether several servers answer behind this address: five reads, each over its own connection."""
        return several_replicas([self._http_statistics(fresh=True) for _ in range(_REPLICA_READS)])

    def close(self) -> None:
        """Close all connections."""
        self._http.close()
        if self._grpc:
            self._grpc.close()
        if self._page:
            self._page.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _either(self, over_http: Callable[[], T], over_grpc: Callable[[Grpc], T]) -> T:
        """HTTP's answer; gRPC's where only that one gives one."""
        try:
            return over_http()
        except TrituneError as error:
            if self._grpc is None or error.slug not in _ASK_GRPC_AFTER:
                raise
            try:
                return over_grpc(self._grpc)
            except TrituneError:
                raise error from None

    def _checked(self, reply: Reply) -> Reply:
        identity.refuse_middlemen(self.url, reply)
        if reply.status != 200:
            raise TrituneError(
                f"{self.url} answered HTTP {reply.status}: {reply.error or 'no reason given'}",
                slug="server-refused",
            )
        return reply

    def _of_model(self, model: str, version: str, what: str = "") -> Reply:
        reply = self._http.request("GET", f"{_path(model, version)}{what}")
        if reply.status in (400, 404):
            raise unusable(self.url, model, version, self.index(), reply.error)
        return self._checked(reply)

    def _metadata(self, model: str, version: str, config: ConfiguredModel) -> ModelMetadata:
        body = self._either(
            lambda: self._of_model(model, version).body, lambda grpc: grpc.metadata_json(model, version)
        )
        return model_metadata(body, config, url=self.url)

    def _http_statistics(self, *, fresh: bool = False) -> Snapshot:
        reply = self._checked(self._http.request("GET", "/v2/models/stats", fresh=fresh))
        return statistics.from_json(reply.body, t_ns=reply.t_ns, url=self.url)

    def _loading_grpc(self) -> Grpc | None:
        """The gRPC endpoint, after it was seen once to belong to the same server as the HTTP endpoint."""
        if self._grpc and not self._grpc_checked:
            same_server(self.info(), self.index(), self._grpc)
            self._grpc_checked = True
        return self._grpc

    def _not_ready(self, model: str, version: str) -> TrituneError:
        entries = [e for e in self.index() if e.name == model and version in ("", e.version)]
        return not_ready(self.url, entries[-1] if entries else IndexEntry(model, version))


def _grpc_statistics(grpc: Grpc) -> Snapshot:
    message, t_ns = grpc.statistics()
    return statistics.from_grpc(message, t_ns=t_ns)


def _path(model: str, version: str) -> str:
    path = f"/v2/models/{quote(model, safe='')}"
    return f"{path}/versions/{quote(version, safe='')}" if version else path
