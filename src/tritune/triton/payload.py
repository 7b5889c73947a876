"""Inference requests as complete HTTP/1.1 bytes, built before the clock starts.

Without data of the user's, tensors are zeros in the binary tensor extension: the least work for the server's
JSON parser, which handles all requests of a connection on one thread (semantics 4.3).
"""

from __future__ import annotations

import math
from typing import Any
from urllib.parse import quote

import msgspec

from tritune.errors import UsageError
from tritune.model.config import TensorSpec
from tritune.model.facts import ModelMetadata
from tritune.model.load import Shot
from tritune.triton.address import Address
from tritune.triton.request_data import read

_INTEGERS = ("INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")


def needs_data(metadata: ModelMetadata) -> str | None:
    """The sentence that asks for `--data`, or None where zeros are as good as any values.

    Integers are token numbers, indices, lengths; strings are text: what a model does depends on their values,
    and zeros would measure another model. Floating point and booleans take the same time whatever they are.
    Optional inputs are not sent unless the user's data has them, so they do not ask.
    """
    free = [t for t in metadata.inputs if not t.optional and t.datatype in (*_INTEGERS, "BYTES")]
    if not free:
        return None
    names = ", ".join(f"'{t.name}' ({t.datatype})" for t in free)
    return (
        f"model '{metadata.name}' takes {names}, whose values decide how long it works: give a real request"
        " with --data request.json"
    )


def shots(
    address: Address,
    metadata: ModelMetadata,
    max_batch_size: int,
    version: str,
    items: int,
    data: bytes | None,
) -> tuple[Shot, ...]:
    """One request of `items` rows: zeros, or the user's JSON with its rows repeated or cut to `items`.

    `items` 0 means as many as the data has (1 without data). The JSON is sent byte for byte as it was given
    where nothing must change. Raises UsageError (bad-items, bad-data).
    """
    if data is None:
        count = checked_items(metadata.name, max_batch_size, items or 1)
        header, binary = _zeros(metadata, batched=max_batch_size > 0, items=count)
    else:
        request = read(data, metadata, batched=max_batch_size > 0)
        count = checked_items(metadata.name, max_batch_size, items or request.items)
        header, binary = request.body(count)
    return (Shot(http_request(address, metadata.name, version, header, binary), items=count),)


def checked_items(model: str, max_batch_size: int, items: int) -> int:
    """`items` where the model takes a request of that many; raises UsageError(bad-items) otherwise."""
    most = max(1, max_batch_size)
    if 1 <= items <= most:
        return items
    why = "has no batch dimension" if max_batch_size <= 0 else f"has max_batch_size {max_batch_size}"
    raise UsageError(
        f"a request of {items} items does not fit model '{model}', which {why}",
        slug="bad-items",
        hint=f"Send from 1 to {most} items." if most > 1 else "Send 1 item.",
    )


def http_request(address: Address, model: str, version: str, header: bytes, binary: bytes) -> bytes:
    """A POST to the model's infer endpoint; `binary` holds the tensors that the JSON `header` announces."""
    path = f"/v2/models/{quote(model, safe='')}" + (f"/versions/{quote(version, safe='')}" if version else "")
    lines = [
        f"POST {path}/infer HTTP/1.1",
        f"Host: {address.netloc}",
        "User-Agent: tritune",
        f"Content-Type: application/{'octet-stream' if binary else 'json'}",
        f"Content-Length: {len(header) + len(binary)}",
    ]
    if binary:
        lines.append(f"Inference-Header-Content-Length: {len(header)}")
    return "\r\n".join([*lines, "", ""]).encode() + header + binary


def _zeros(metadata: ModelMetadata, *, batched: bool, items: int) -> tuple[bytes, bytes]:
    inputs: list[dict[str, Any]] = []
    tensors: list[bytes] = []
    for tensor in metadata.inputs:
        if tensor.optional:
            continue
        shape = [1 if dim < 0 else dim for dim in tensor.dims]
        if batched:
            shape[0] = items
        tensors.append(_zero_tensor(tensor, math.prod(shape)))
        inputs.append(
            {
                "name": tensor.name,
                "datatype": tensor.datatype,
                "shape": shape,
                "parameters": {"binary_data_size": len(tensors[-1])},
            }
        )
    header = {"inputs": inputs, "parameters": {"binary_data_output": True}}
    return msgspec.json.encode(header), b"".join(tensors)


def _zero_tensor(tensor: TensorSpec, count: int) -> bytes:
    import numpy as np
    from tritonclient.utils import triton_to_np_dtype

    if tensor.datatype == "BYTES":
        return bytes(4 * count)  # an empty string is its length alone, four bytes
    dtype = triton_to_np_dtype(tensor.datatype)
    if dtype is None:
        raise UsageError(
            f"input '{tensor.name}' has the datatype {tensor.datatype}, for which there are no zeros",
            slug="bad-data",
            hint="Give a request with --data request.json.",
        )
    return bytes(count * np.dtype(dtype).itemsize)
