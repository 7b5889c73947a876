"""What a server says about itself and about one model's tensors."""

from __future__ import annotations

from typing import Any

import msgspec

from tritune.errors import TrituneError
from tritune.model.config import TensorSpec
from tritune.model.facts import ModelMetadata, ServerInfo


class ConfiguredInput(msgspec.Struct, frozen=True):
    """What only the configuration says about an input."""

    name: str = ""
    optional: bool = False
    allow_ragged_batch: bool = False


class ConfiguredModel(msgspec.Struct, frozen=True):
    """The few fields of the effective configuration that decide how a request is built."""

    max_batch_size: int = 0
    input: tuple[ConfiguredInput, ...] = ()


class _Tensor(msgspec.Struct, frozen=True):
    name: str
    datatype: str
    # Strings in the JSON that protobuf makes of a gRPC answer, numbers in Triton's own.
    shape: tuple[int | str, ...] = ()


class _Metadata(msgspec.Struct, frozen=True):
    name: str
    versions: tuple[str, ...] = ()
    platform: str = ""
    inputs: tuple[_Tensor, ...] = ()
    outputs: tuple[_Tensor, ...] = ()


def server_info(value: Any) -> ServerInfo | None:
    """The decoded body of `GET /v2` as facts; None where it is not what a v2 server says of itself.

    The name is not asked to be "triton": `tritonserver --id` changes it.
    """
    try:
        return msgspec.convert(value, ServerInfo)
    except msgspec.ValidationError:
        return None


def model_metadata(body: bytes, config: ConfiguredModel, *, url: str) -> ModelMetadata:
    """The body of `GET /v2/models/M`, completed with what the configuration says about its inputs.

    Raises TrituneError(bad-reply) where the body is something else.
    """
    try:
        found = msgspec.json.decode(body, type=_Metadata)
    except msgspec.MsgspecError as error:  # also a body that is no UTF-8
        raise TrituneError(
            f"the model metadata of {url} cannot be read: {error}", slug="bad-reply"
        ) from error
    configured = {tensor.name: tensor for tensor in config.input}
    return ModelMetadata(
        name=found.name,
        versions=found.versions,
        platform=found.platform,
        inputs=tuple(_spec(t, configured.get(t.name, ConfiguredInput())) for t in found.inputs),
        outputs=tuple(_spec(t, ConfiguredInput()) for t in found.outputs),
    )


def configured_model(text: str, *, url: str) -> ConfiguredModel:
    """The effective configuration's JSON, read for the fields above. Raises TrituneError(bad-reply)."""
    try:
        return msgspec.json.decode(text, type=ConfiguredModel)
    except msgspec.MsgspecError as error:  # also a body that is no UTF-8
        raise TrituneError(
            f"the model configuration of {url} cannot be read: {error}", slug="bad-reply"
        ) from error


def _spec(tensor: _Tensor, configured: ConfiguredInput) -> TensorSpec:
    return TensorSpec(
        name=tensor.name,
        datatype=tensor.datatype,
        dims=tuple(int(dim) for dim in tensor.shape),
        optional=configured.optional,
        allow_ragged_batch=configured.allow_ragged_batch,
    )
