"""gRPC to a server's control plane. The stubs come with the first call: their import costs 0.2 s."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping, Sequence
from typing import Any

from tritune.errors import TrituneError
from tritune.triton.address import Address

# Statistics of a server with very many models outgrow gRPC's default of 4 MiB.
_OPTIONS = [("grpc.max_receive_message_length", -1)]


class GrpcError(TrituneError):
    """A call that failed: `code` is gRPC's name for it (NOT_FOUND, ...), `details` the server's own words."""

    def __init__(self, message: str, *, slug: str, code: str, details: str, hint: str = "") -> None:
        super().__init__(message, slug=slug, hint=hint)
        self.code = code
        self.details = details


class Grpc:
    """One channel. Every call has a deadline. Safe to use from several threads."""

    def __init__(self, address: Address, *, timeout_s: float) -> None:
        self.address = address
        self._timeout_s = timeout_s
        self._lock = threading.Lock()
        self._channel: Any = None
        self._stub: Any = None
        self._answered = False

    def ready(self) -> bool:
        """What `ServerReady` says."""
        return bool(self._call("ServerReady", self._messages().ServerReadyRequest()).ready)

    def server_metadata(self) -> dict[str, Any]:
        """Name, version and extensions, as `GET /v2` has them."""
        answer = self._call("ServerMetadata", self._messages().ServerMetadataRequest())
        return {"name": answer.name, "version": answer.version, "extensions": list(answer.extensions)}

    def index_json(self) -> bytes:
        """The repository index in the form that HTTP gives it in."""
        answer = self._call("RepositoryIndex", self._messages().RepositoryIndexRequest())
        return b"[" + b",".join(_json(model) for model in answer.models) + b"]"

    def metadata_json(self, model: str, version: str) -> bytes:
        """A model's metadata in the form that HTTP gives it in."""
        request = self._messages().ModelMetadataRequest(name=model, version=version)
        return _json(self._call("ModelMetadata", request))

    def config_json(self, model: str, version: str) -> str:
        """A model's effective configuration; 64-bit numbers are strings here, which a load accepts too."""
        request = self._messages().ModelConfigRequest(name=model, version=version)
        return _json(self._call("ModelConfig", request).config).decode()

    def statistics(self) -> tuple[Any, int]:
        """`ModelStatisticsResponse` of all models, and our monotonic clock in the middle of the read, ns."""
        begin = time.monotonic_ns()
        answer = self._call("ModelStatistics", self._messages().ModelStatisticsRequest())
        return answer, (begin + time.monotonic_ns()) // 2

    def load(self, model: str, config_json: str | None, *, deadline_s: float) -> None:
        """`RepositoryModelLoad`; raises GrpcError with the server's code and words."""
        request = self._messages().RepositoryModelLoadRequest(model_name=model)
        if config_json is not None:
            request.parameters["config"].string_param = config_json
        self._call("RepositoryModelLoad", request, deadline_s=deadline_s)

    def trace_setting(
        self, model: str, changes: Mapping[str, Sequence[str]] | None = None
    ) -> dict[str, tuple[str, ...]]:
        """`TraceSetting`: make the changes ([] = follow the server's own setting) and return what then holds.

        `model` "" means the server's own settings.
        """
        request = self._messages().TraceSettingRequest(model_name=model)
        for name, values in (changes or {}).items():
            request.settings[name].value.extend(values)
        answer = self._call("TraceSetting", request)
        return {name: tuple(setting.value) for name, setting in answer.settings.items()}

    def close(self) -> None:
        """Close the channel."""
        with self._lock:
            if self._channel is not None:
                self._channel.close()
            self._channel = self._stub = None

    def _messages(self) -> Any:
        from tritonclient.grpc import service_pb2

        return service_pb2

    def _connected(self) -> Any:
        import grpc
        from tritonclient.grpc import service_pb2_grpc

        with self._lock:
            if self._stub is None:
                self._channel = (
                    grpc.secure_channel(self.address.netloc, grpc.ssl_channel_credentials(), options=_OPTIONS)
                    if self.address.tls
                    else grpc.insecure_channel(self.address.netloc, options=_OPTIONS)
                )
                self._stub = service_pb2_grpc.GRPCInferenceServiceStub(self._channel)
            return self._stub

    def _call(self, method: str, request: Any, *, deadline_s: float | None = None) -> Any:
        import grpc

        try:
            answer = getattr(self._connected(), method)(request, timeout=deadline_s or self._timeout_s)
        except grpc.RpcError as error:
            raise self._translated(method, error.code().name, error.details() or "") from error
        self._answered = True
        return answer

    def _translated(self, method: str, code: str, details: str) -> GrpcError:
        where = self.address.netloc
        if code == "DEADLINE_EXCEEDED":
            message, slug = f"the gRPC endpoint {where} did not answer {method} in time", "server-timeout"
            return GrpcError(message, slug=slug, code=code, details=details)
        if code == "UNAVAILABLE" and _is_connection(details):
            if self._answered:
                message, slug = f"the server's gRPC endpoint {where} is gone", "server-gone"
                return GrpcError(message, slug=slug, code=code, details=details, hint="See the server's log.")
            return GrpcError(
                f"no gRPC answers at {where}",
                slug="grpc-unreachable",
                code=code,
                details=details,
                hint="Name the gRPC endpoint with --grpc HOST:PORT.",
            )
        self._answered = True
        message = f"{where} refused {method}: {details or code}"
        return GrpcError(message, slug="grpc-refused", code=code, details=details)


def _is_connection(details: str) -> bool:
    # gRPC says these itself; Triton uses the same code for "loading is not allowed".
    marks = (
        "failed to connect",
        "Socket closed",
        "onnection reset",
        "GOAWAY",
        "DNS",
        "recvmsg",
        "tls",
        "TLS",
        "SSL",
    )
    return any(mark in details for mark in marks)


def _json(message: Any) -> bytes:
    from google.protobuf import json_format

    return json_format.MessageToJson(
        message, preserving_proto_field_name=True, always_print_fields_with_no_presence=True, indent=None
    ).encode()
