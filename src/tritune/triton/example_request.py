"""A JSON inference request of zeros: what hey, curl or a person would POST."""

from __future__ import annotations

import math

import msgspec

from tritune.model.facts import ModelMetadata

_ZERO = {"BOOL": False, "BYTES": ""}


def json_request(metadata: ModelMetadata, *, batched: bool, items: int = 1) -> bytes:
    """The body of POST .../infer for `items` rows; free dimensions are 1, optional inputs are left out."""
    inputs = []
    for tensor in metadata.inputs:
        if tensor.optional:
            continue
        shape = [1 if dim < 0 else dim for dim in tensor.dims]
        if batched:
            shape[0] = items
        zero = _ZERO.get(tensor.datatype, 0)
        inputs.append(
            {
                "name": tensor.name,
                "datatype": tensor.datatype,
                "shape": shape,
                "data": [zero] * math.prod(shape),
            }
        )
    return msgspec.json.encode({"inputs": inputs})
