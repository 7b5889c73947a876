"""Requests as bytes, taken apart again by an HTTP parser that is not ours."""

from __future__ import annotations

import io
import json
import math
from email.parser import BytesParser
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tritonclient.utils import serialize_byte_tensor, triton_to_np_dtype

from tritune.errors import UsageError
from tritune.model.config import TensorSpec
from tritune.model.facts import ModelMetadata
from tritune.model.load import Shot
from tritune.triton.address import Address
from tritune.triton.payload import needs_data, shots

ADDRESS = Address("host", 8000)
DATATYPES = ("BOOL", "INT8", "INT16", "INT32", "INT64", "UINT8", "UINT16", "UINT32", "UINT64")
FLOATS = ("FP16", "BF16", "FP32", "FP64")


def model(*inputs: TensorSpec, outputs: tuple[TensorSpec, ...] = ()) -> ModelMetadata:
    return ModelMetadata("m", ("1",), "python", inputs, outputs)


def x(datatype: str = "FP32", dims: tuple[int, ...] = (-1, 4), **more: Any) -> TensorSpec:
    return TensorSpec("X", datatype, dims, **more)


def opened(shot: Shot) -> tuple[str, Any, bytes, Any]:
    """(request line, JSON, binary part, headers)."""
    head, _, body = shot.data.partition(b"\r\n\r\n")
    line, _, rest = head.partition(b"\r\n")
    headers = BytesParser().parse(io.BytesIO(rest + b"\r\n\r\n"))
    assert int(headers["Content-Length"]) == len(body)
    split = int(headers.get("Inference-Header-Content-Length", len(body)))
    return line.decode(), json.loads(body[:split]), body[split:], headers


@given(
    datatype=st.sampled_from((*DATATYPES, *FLOATS, "BYTES")),
    dims=st.lists(st.integers(-1, 5).filter(bool), min_size=0, max_size=3),
    items=st.integers(1, 8),
)
def test_zeros_are_what_numpy_and_tritonclient_would_send(datatype: str, dims: list[int], items: int) -> None:
    [shot] = shots(ADDRESS, model(x(datatype, (-1, *dims))), 8, "", items, None)
    _, header, binary, _ = opened(shot)
    shape = [items, *(1 if d == -1 else d for d in dims)]
    assert header["inputs"][0]["shape"] == shape
    assert header["inputs"][0]["parameters"]["binary_data_size"] == len(binary)
    if datatype == "BYTES":
        assert binary == serialize_byte_tensor(np.full(shape, b"", dtype=object)).item()
    else:
        assert binary == np.zeros(shape, triton_to_np_dtype(datatype)).tobytes()
    assert shot.items == items


def test_the_request_line_and_the_headers() -> None:
    [shot] = shots(ADDRESS, model(x()), 8, "3", 1, None)
    line, header, _, headers = opened(shot)
    assert line == "POST /v2/models/m/versions/3/infer HTTP/1.1"
    assert headers["Host"] == "host:8000"
    assert header["parameters"] == {"binary_data_output": True}


def test_optional_inputs_are_left_out_of_zeros() -> None:
    optional = TensorSpec("O", "INT64", (-1, 1), optional=True)
    [shot] = shots(ADDRESS, model(x(), optional), 8, "", 2, None)
    _, header, binary, _ = opened(shot)
    assert [i["name"] for i in header["inputs"]] == ["X"]
    assert len(binary) == 2 * 4 * 4


def test_a_model_without_a_batch_dimension_takes_one_item() -> None:
    [shot] = shots(ADDRESS, model(x(dims=(2, -1))), 0, "", 1, None)
    assert opened(shot)[1]["inputs"][0]["shape"] == [2, 1]
    with pytest.raises(UsageError, match="no batch dimension"):
        shots(ADDRESS, model(x()), 0, "", 2, None)
    with pytest.raises(UsageError, match="max_batch_size 8"):
        shots(ADDRESS, model(x()), 8, "", 9, None)


def test_which_models_ask_for_data() -> None:
    assert needs_data(model(x("FP32"), TensorSpec("F", "BOOL", (-1, 1)))) is None
    assert needs_data(model(x("INT64", optional=True))) is None
    for datatype in (*DATATYPES[1:], "BYTES"):
        sentence = needs_data(model(x(datatype)))
        assert sentence is not None
        assert f"'X' ({datatype})" in sentence
        assert "--data" in sentence


def request(data: Any, shape: list[int], datatype: str = "FP32", **more: Any) -> bytes:
    tensor = {"name": "X", "shape": shape, "datatype": datatype, "data": data}
    return json.dumps({"inputs": [tensor], **more}).encode()


def test_data_that_fits_is_sent_byte_for_byte() -> None:
    raw = b' {"inputs": [{"name":"X","shape":[1,4],"datatype":"FP32","data":[1,2.5,3,4e0]}],\n"outputs":[]} '
    for items in (0, 1):
        [shot] = shots(ADDRESS, model(x()), 8, "", items, raw)
        assert shot.data.endswith(b"\r\n\r\n" + raw)
        assert b"Inference-Header-Content-Length" not in shot.data
        assert shot.items == 1


@given(
    own=st.integers(1, 4),
    width=st.integers(1, 3),
    items=st.integers(1, 8),
    nested=st.booleans(),
)
def test_rows_are_repeated_or_cut(own: int, width: int, items: int, nested: bool) -> None:
    rows = np.arange(own * width).reshape(own, width)
    raw = request(rows.tolist() if nested else rows.ravel().tolist(), [own, width], "INT64", id="mine")
    [shot] = shots(ADDRESS, model(x("INT64", (-1, width))), 8, "", items, raw)
    _, sent, _, _ = opened(shot)
    assert sent["id"] == "mine"
    [tensor] = sent["inputs"]
    assert tensor["shape"] == [items, width]
    expected = np.resize(rows, (items, width))
    assert np.array_equal(np.asarray(tensor["data"]).reshape(items, width), expected)


def test_items_zero_means_as_many_as_the_data_has() -> None:
    [shot] = shots(ADDRESS, model(x()), 8, "", 0, request([0] * 12, [3, 4]))
    assert shot.items == 3


@pytest.mark.parametrize("datatype", ["FP16", "BF16"])
def test_half_precision_goes_as_bytes(datatype: str) -> None:
    raw = request([1, 2.5, -3, 0], [1, 4], datatype)
    outputs = (TensorSpec("Y", datatype, (-1, 4)),)
    [shot] = shots(ADDRESS, model(x(datatype), outputs=outputs), 8, "", 2, raw)
    _, sent, binary, _ = opened(shot)
    assert "data" not in sent["inputs"][0]
    assert sent["parameters"] == {"binary_data_output": True}
    values = np.frombuffer(binary, triton_to_np_dtype(datatype)).astype(float)
    assert values.tolist() == [1, 2.5, -3, 0] * 2


@pytest.mark.parametrize(
    ("raw", "said"),
    [
        (b"{", "it is not JSON"),
        (b"\xff", "it is not JSON"),
        (b"[]", '"inputs"'),
        (b'{"inputs": {}}', '"inputs"'),
        (b'{"inputs": [3]}', '"name"'),
        (b'{"inputs": []}', "input 'X' is missing"),
        (json.dumps({"inputs": [{"name": "Z"}]}).encode(), "has no input 'Z'"),
        (request([0] * 4, [1, 4], "FP64"), "the datatype FP64, the model takes FP32"),
        (request([0] * 3, [1, 3]), "the shape [1,3], the model takes [-1,4]"),
        (request([0] * 4, [4]), "the shape [4], the model takes [-1,4]"),
        (request([0] * 3, [1, 4]), "3 values, its shape [1,4] needs 4"),
        (request(["a"] * 4, [1, 4]), 'the value "a", which is no FP32'),
        (request([None] * 4, [1, 4]), "the value null"),
        (request([], [0, 4]), "has no rows"),
        (request("abcd", [1, 4]), 'no "data"'),
        (request([0] * 4, [1, -4]), 'no "shape"'),
        (request([0] * 36, [9, 4]), "a request of 9 items does not fit"),
    ],
)
def test_data_that_does_not_fit_is_one_sentence(raw: bytes, said: str) -> None:
    with pytest.raises(UsageError) as caught:
        shots(ADDRESS, model(x()), 8, "", 0, raw)
    assert said in caught.value.message
    assert caught.value.slug in ("bad-data", "bad-items")


@given(datatype=st.sampled_from(DATATYPES[1:]), value=st.integers(-(2**65), 2**65))
def test_integers_must_fit_their_type(datatype: str, value: int) -> None:
    limits = np.iinfo(triton_to_np_dtype(datatype))
    raw = request([value], [1, 1], datatype)
    if limits.min <= value <= limits.max:
        assert shots(ADDRESS, model(x(datatype, (-1, 1))), 8, "", 1, raw)
        return
    with pytest.raises(UsageError, match=f"is no {datatype}|it is not JSON"):
        shots(ADDRESS, model(x(datatype, (-1, 1))), 8, "", 1, raw)


def test_inputs_of_different_batch_sizes() -> None:
    two = model(x(), TensorSpec("Y", "FP32", (-1, 1)))
    tensors = [
        {"name": "X", "shape": [2, 4], "datatype": "FP32", "data": [0] * 8},
        {"name": "Y", "shape": [3, 1], "datatype": "FP32", "data": [0] * 3},
    ]
    with pytest.raises(UsageError, match="differ in their first dimension"):
        shots(ADDRESS, two, 8, "", 0, json.dumps({"inputs": tensors}).encode())


def test_the_size_of_zeros_follows_from_the_dims() -> None:
    [shot] = shots(ADDRESS, model(x("FP64", (-1, 3, 5))), 8, "", 4, None)
    assert len(opened(shot)[2]) == 8 * math.prod([4, 3, 5])
