"""`--data request.json`: a Triton inference request as the user would POST it, checked against the model.

Every mistake is one sentence that names the input and what would fit; the server's own words for the same
mistakes come only once requests fly, and some of them name no field at all (measured on 24.10).
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import cycle, islice
from typing import Any

import msgspec

from tritune.errors import UsageError
from tritune.model.config import TensorSpec
from tritune.model.facts import ModelMetadata

# Triton refuses these as JSON ("receiving FP16 data via JSON is not supported") and takes them as bytes.
_BINARY_ONLY = ("FP16", "BF16")
_INTEGER_BITS = {"INT8": 8, "INT16": 16, "INT32": 32, "INT64": 64}


class RequestData(msgspec.Struct, frozen=True):
    """A request that fits the model: `items` rows, as it was given and as it was read."""

    raw: bytes
    request: dict[str, Any]
    items: int
    batched: bool
    binary_output: bool

    def body(self, items: int) -> tuple[bytes, bytes]:
        """(JSON, binary tensors) for `items` rows: the user's own bytes where nothing must change.

        More rows than the data has are its rows over again, fewer are its first ones.
        """
        inputs = self.request["inputs"]
        if (
            items == self.items
            and not self.binary_output
            and not any(i["datatype"] in _BINARY_ONLY for i in inputs)
        ):
            return self.raw, b""
        rewritten, tensors = [], []
        for tensor in inputs:
            values = list(_flat(tensor["data"]))
            shape = list(tensor["shape"])
            if self.batched:
                row = len(values) // max(1, shape[0])
                shape[0] = items
                values = list(islice(cycle(values), row * items))
            changed = {**tensor, "shape": shape, "data": values}
            if tensor["datatype"] in _BINARY_ONLY:
                tensors.append(_encoded(tensor["datatype"], values))
                del changed["data"]
                changed["parameters"] = {**tensor.get("parameters", {}), "binary_data_size": len(tensors[-1])}
            rewritten.append(changed)
        request = {**self.request, "inputs": rewritten}
        if self.binary_output:
            request["parameters"] = {**self.request.get("parameters", {}), "binary_data_output": True}
        return msgspec.json.encode(request), b"".join(tensors)


def read(raw: bytes, metadata: ModelMetadata, *, batched: bool) -> RequestData:
    """The request in `raw`, where it fits `metadata`. Raises UsageError(bad-data) otherwise."""
    try:
        request = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise _bad(f"it is not JSON: {error}") from error
    if not isinstance(request, dict) or not isinstance(request.get("inputs"), list):
        raise _bad('it has no list "inputs"')
    known = {tensor.name: tensor for tensor in metadata.inputs}
    rows: dict[str, int] = {}
    for tensor in request["inputs"]:
        name = tensor.get("name") if isinstance(tensor, dict) else None
        if not isinstance(name, str):
            raise _bad('an entry of "inputs" has no "name"')
        if name not in known:
            raise _bad(
                f"model '{metadata.name}' has no input '{name}'", f"Its inputs: {_listed(metadata.inputs)}."
            )
        if name in rows:
            raise _bad(f"input '{name}' appears twice")
        rows[name] = _checked(tensor, known[name], batched=batched)
    missing = [t.name for t in metadata.inputs if not t.optional and t.name not in rows]
    if missing:
        raise _bad(f"input '{missing[0]}' is missing", f"The model's inputs: {_listed(metadata.inputs)}.")
    if len(set(rows.values())) > 1:
        sizes = ", ".join(f"'{name}' {n}" for name, n in rows.items())
        raise _bad(f"the inputs differ in their first dimension, the batch: {sizes}")
    return RequestData(
        raw=raw,
        request=request,
        items=next(iter(rows.values()), 1),
        batched=batched,
        binary_output=_needs_binary_output(request, metadata),
    )


def _checked(tensor: dict[str, Any], spec: TensorSpec, *, batched: bool) -> int:
    """The rows of one input that fits its `spec`: its first dimension, or 1 for a model without a batch."""
    name, shape, data = spec.name, tensor.get("shape"), tensor.get("data")
    if not isinstance(shape, list) or not all(type(dim) is int and dim >= 0 for dim in shape):
        raise _bad(f"input '{name}' has no \"shape\" that is a list of sizes")
    if tensor.get("datatype") != spec.datatype:
        given = tensor.get("datatype")
        raise _bad(f"input '{name}' has the datatype {given or '(none)'}, the model takes {spec.datatype}")
    fits = len(shape) == len(spec.dims) and all(d in (-1, s) for s, d in zip(shape, spec.dims, strict=True))
    if not fits:
        hint = "-1 stands for any size, and the first dimension is the batch." if batched else ""
        raise _bad(f"input '{name}' has the shape {_shape(shape)}, the model takes {_shape(spec.dims)}", hint)
    if not isinstance(data, list):
        raise _bad(
            f"input '{name}' has no \"data\" that is a list",
            "tritune sends the values of the file itself; shared memory and binary tensors are not read.",
        )
    values, want = list(_flat(data)), math.prod(shape)
    if len(values) != want:
        raise _bad(f"input '{name}' has {len(values)} values, its shape {_shape(shape)} needs {want}")
    wrong = next((v for v in values if not _is_a(spec.datatype, v)), None)
    if wrong is not None or (None in values):
        raise _bad(
            f"input '{name}' has the value {msgspec.json.encode(wrong).decode()}, which is no {spec.datatype}"
        )
    if batched and shape[0] == 0:
        raise _bad(f"input '{name}' has no rows: the first dimension of {_shape(shape)} is 0")
    return int(shape[0]) if batched else 1


def _is_a(datatype: str, value: object) -> bool:
    if datatype == "BYTES":
        return isinstance(value, str)
    if datatype == "BOOL":
        return isinstance(value, bool)
    if datatype in ("FP16", "BF16", "FP32", "FP64"):
        return isinstance(value, int | float) and not isinstance(value, bool)
    bits = _INTEGER_BITS.get(datatype.removeprefix("U"))
    if bits is None:
        return True  # a type that is newer than this table: the server judges
    if not isinstance(value, int) or isinstance(value, bool):
        return False
    low, high = (0, 1 << bits) if datatype.startswith("U") else (-(1 << (bits - 1)), 1 << (bits - 1))
    return low <= value < high


def _needs_binary_output(request: dict[str, Any], metadata: ModelMetadata) -> bool:
    # Answers in these types cannot be JSON either; where the user lists outputs, their choice stands.
    return "outputs" not in request and any(t.datatype in _BINARY_ONLY for t in metadata.outputs)


def _flat(data: Sequence[Any]) -> Iterator[Any]:
    for value in data:
        if isinstance(value, list):
            yield from _flat(value)
        else:
            yield value


def _encoded(datatype: str, values: Sequence[Any]) -> bytes:
    import numpy as np
    from tritonclient.utils import triton_to_np_dtype

    # Through float64: ml_dtypes reads BF16 from numbers of numpy's own types only.
    return np.asarray(values, dtype=np.float64).astype(triton_to_np_dtype(datatype)).tobytes()


def _listed(tensors: Sequence[TensorSpec]) -> str:
    return ", ".join(f"'{t.name}' {t.datatype} {_shape(t.dims)}" for t in tensors)


def _shape(dims: Sequence[int]) -> str:
    return f"[{','.join(str(dim) for dim in dims)}]"


def _bad(why: str, hint: str = "") -> UsageError:
    return UsageError(
        f"the request in --data cannot be sent: {why}",
        slug="bad-data",
        hint=hint
        or "Write the body that you would POST to the model's /infer endpoint, with its data as JSON.",
    )
