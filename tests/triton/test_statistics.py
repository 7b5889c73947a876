import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tritune.errors import TrituneError
from tritune.model.server import BatchStat, ModelCounters, ModelKey, Tally
from tritune.triton.statistics import from_grpc, from_json

UINT64 = st.integers(0, 2**64 - 1)
DURATION = st.fixed_dictionaries({"count": UINT64, "ns": UINT64})
STAGES = ("success", "fail", "queue", "compute_input", "compute_infer", "compute_output")
MODEL = st.fixed_dictionaries(
    {
        "name": st.sampled_from(["a", "b"]),
        "version": st.sampled_from(["1", "2"]),
        "inference_count": UINT64,
        "execution_count": UINT64,
        "inference_stats": st.fixed_dictionaries(dict.fromkeys(STAGES, DURATION)),
        "batch_stats": st.lists(
            st.fixed_dictionaries(
                {"batch_size": st.integers(1, 64)}
                | dict.fromkeys(("compute_input", "compute_infer", "compute_output"), DURATION)
            ),
            unique_by=lambda b: b["batch_size"],
            max_size=4,
        ),
    }
)


@given(st.lists(MODEL, unique_by=lambda m: (m["name"], m["version"]), max_size=3))
def test_http_and_grpc_say_the_same_to_the_nanosecond(models: list[dict[str, Any]]) -> None:
    from google.protobuf import json_format
    from tritonclient.grpc import service_pb2

    body = {"model_stats": models}
    message = json_format.ParseDict(body, service_pb2.ModelStatisticsResponse())
    http = from_json(json.dumps(body).encode(), t_ns=7, url="http://t")
    assert http == from_grpc(message, t_ns=7)
    for model in models:
        counters = http.models[ModelKey(model["name"], model["version"])]
        assert counters.queue == Tally(**model["inference_stats"]["queue"])
        assert counters.batch_stats is not None
        for batch in model["batch_stats"]:
            assert counters.batch_stats[batch["batch_size"]].infer_ns == batch["compute_infer"]["ns"]


def test_a_torn_read_is_kept_as_it_is() -> None:
    # The execution is counted, its requests are not yet.
    body = {
        "model_stats": [
            {
                "name": "m",
                "version": "1",
                "execution_count": 1,
                "batch_stats": [{"batch_size": 2, "compute_infer": {"count": 1, "ns": 5}}],
            }
        ]
    }
    found = from_json(json.dumps(body).encode(), t_ns=0, url="http://t").models[ModelKey("m", "1")]
    assert found == ModelCounters(execution_count=1, batch_stats={2: BatchStat(1, 0, 5, 0)})


@pytest.mark.parametrize(
    "body", [b"", b"<html>", b'{"model_stats":[{"name":"m"', b'{"error":"x"}', b"\xff", b"[]"]
)
def test_anything_else_is_one_sentence(body: bytes) -> None:
    with pytest.raises(TrituneError) as caught:
        from_json(body, t_ns=0, url="http://t:8000")
    assert caught.value.slug == "bad-reply"
    assert "http://t:8000" in caught.value.message
