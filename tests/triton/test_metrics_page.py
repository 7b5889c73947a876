"""The page of a server with a model on two GPUs, written as Triton writes it (semantics 3.1, 3.2)."""

import pytest

from tritune.model.server import ModelKey, Tally
from tritune.triton.metrics import from_text, is_metrics

GPU = """\
# HELP nv_inference_request_success Number of successful inference requests, all batch sizes
# TYPE nv_inference_request_success counter
nv_inference_request_success{model="m",version="1"} 0
nv_inference_request_success{gpu_uuid="GPU-a",model="m",version="1"} 10
nv_inference_request_success{gpu_uuid="GPU-b",model="m",version="1"} 5
nv_inference_request_success{model="cpu",version="3"} 2
# TYPE nv_inference_request_failure counter
nv_inference_request_failure{model="m",reason="REJECTED",version="1"} 3
nv_inference_request_failure{gpu_uuid="GPU-a",model="m",reason="BACKEND",version="1"} 1
nv_inference_request_failure{gpu_uuid="GPU-a",model="m",reason="REJECTED",version="1"} 0
# TYPE nv_inference_count counter
nv_inference_count{gpu_uuid="GPU-a",model="m",version="1"} 40
# TYPE nv_inference_exec_count counter
nv_inference_exec_count{gpu_uuid="GPU-a",model="m",version="1"} 8
# TYPE nv_inference_request_duration_us counter
nv_inference_request_duration_us{gpu_uuid="GPU-a",model="m",version="1"} 1234
nv_inference_request_duration_us{gpu_uuid="GPU-b",model="m",version="1"} 1
# TYPE nv_inference_queue_duration_us counter
nv_inference_queue_duration_us{gpu_uuid="GPU-a",model="m",version="1"} 100
# TYPE nv_inference_compute_infer_duration_us counter
nv_inference_compute_infer_duration_us{gpu_uuid="GPU-a",model="m",version="1"} 900
# TYPE nv_cache_num_hits_per_model counter
nv_cache_num_hits_per_model{model="m",version="1"} 4
# TYPE nv_inference_pending_request_count gauge
nv_inference_pending_request_count{model="m",version="1"} 7
nv_inference_pending_request_count{gpu_uuid="GPU-a",model="m",version="1"} 0
# TYPE nv_gpu_utilization gauge
nv_gpu_utilization{gpu_uuid="GPU-a"} 0.25
# TYPE nv_cpu_utilization gauge
nv_cpu_utilization 0.5
"""
SUMMARY = """\
# TYPE nv_inference_request_summary_us summary
nv_inference_request_summary_us_count{model="m",version="1"} 2
nv_inference_request_summary_us_sum{model="m",version="1"} 300
nv_inference_request_summary_us{model="m",version="1",quantile="0.5"} 100
nv_inference_request_summary_us{model="m",version="1",quantile="0.99"} 200
nv_inference_request_summary_us{gpu_uuid="GPU-a",model="m",version="1",quantile="0.5"} Nan
nv_inference_request_summary_us{gpu_uuid="GPU-b",model="m",version="1",quantile="0.99"} 250
nv_inference_request_summary_us{model="idle",version="1",quantile="0.5"} Nan
"""
M = ModelKey("m", "1")


def test_twins_are_summed_and_microseconds_become_nanoseconds() -> None:
    snapshot = from_text(GPU, t_ns=11)
    assert (snapshot.t_ns, snapshot.source) == (11, "metrics")
    found = snapshot.models[M]
    assert found.success == Tally(15, 1_235_000)
    assert found.queue == Tally(15, 100_000)
    assert found.compute_infer == Tally(11, 900_000)  # four of the fifteen came from the cache
    assert (found.inference_count, found.execution_count) == (40, 8)
    assert found.fail == Tally(4)
    assert found.failure_reasons == {"BACKEND": 1, "REJECTED": 3}
    assert found.batch_stats is None
    assert snapshot.models[ModelKey("cpu", "3")].success.count == 2


def test_gauges() -> None:
    snapshot = from_text(GPU, t_ns=0)
    assert snapshot.pending == {M: 7}
    assert snapshot.gauges == {'nv_gpu_utilization{gpu_uuid="GPU-a"}': 0.25, "nv_cpu_utilization": 0.5}


def test_summaries_without_their_nans_and_none_where_there_are_none() -> None:
    assert from_text(GPU, t_ns=0).summaries is None
    found = from_text(GPU + SUMMARY, t_ns=0).summaries
    assert found == {M: {"nv_inference_request_summary_us": {"0.5": 100.0, "0.99": 250.0}}}


def test_other_exporters_are_not_taken_for_a_triton() -> None:
    assert is_metrics(GPU)
    assert not is_metrics("# TYPE python_gc_objects_collected_total counter\npython_gc_objects 1\n")
    assert not is_metrics("")


def test_text_that_is_no_page() -> None:
    with pytest.raises(ValueError, match=r"\S"):
        from_text("nv_inference_count{model= 3", t_ns=0)
