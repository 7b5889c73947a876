"""What a server says about itself and its models."""

from __future__ import annotations

from typing import Literal

import msgspec

from tritune.model.config import TensorSpec

# explicit: models can be loaded with an override; fixed: `none` or `poll`, loads are refused.
ControlMode = Literal["explicit", "fixed"]


class ServerInfo(msgspec.Struct, frozen=True):
    """`GET /v2`."""

    name: str
    version: str
    extensions: tuple[str, ...] = ()


class IndexEntry(msgspec.Struct, frozen=True):
    """One line of the repository index; `state` is READY, UNAVAILABLE, LOADING, ... or empty."""

    name: str
    version: str = ""
    state: str = ""
    reason: str = ""


class ModelMetadata(msgspec.Struct, frozen=True):
    """`GET /v2/models/M`: dims here include the batch dimension (-1) where the model has one."""

    name: str
    versions: tuple[str, ...]
    platform: str
    inputs: tuple[TensorSpec, ...]
    outputs: tuple[TensorSpec, ...]
