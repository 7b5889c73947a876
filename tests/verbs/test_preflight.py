"""Everything a tuning refuses before it touches a server, each with its slug; and when it only advises."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any

import pytest
from tuning_lab import MODEL, Lab, config, device

from tritune.errors import ExitCode, TrituneError
from tritune.model.config import ServingConfig
from tritune.model.facts import IndexEntry
from tritune.pbtxt.message import json_of_text, text_of_json, view_json, view_text
from tritune.testing import FakeServer
from tritune.testing.counting import Execution
from tritune.tune.result import TuneResult
from tritune.tune.space import STAGES
from tritune.verbs.preflight import is_loopback, require_loopback_or

SLOW = config(delay_us=100_000, largest=8)
GOAL = "p99=25ms"
RATE = 100


def refused(lab: Lab, **more: Any) -> TrituneError:
    """The refusal of a tuning that touched and measured nothing."""
    with pytest.raises(TrituneError) as caught:
        lab.tune(GOAL, RATE, **more)
    assert lab.server.loads == []
    assert lab.engine.runs == []
    assert lab.store.runs == []
    assert lab.journal.lines == []
    assert "\n" not in caught.value.message
    assert caught.value.hint
    return caught.value


# The model --------------------------------------------------------------------------------------------------


def test_a_model_that_is_not_there() -> None:
    assert refused(Lab(SLOW), workload={"model": "rancker"}).slug == "unknown-model"


def test_a_model_that_is_not_ready() -> None:
    lab = Lab(SLOW)
    lab.server.add_model(SLOW, state="UNAVAILABLE", reason="the weights are missing")
    error = refused(lab)
    assert error.slug == "model-not-ready"
    assert "the weights are missing" in error.message


class TwoVersions(FakeServer):
    def index(self) -> tuple[IndexEntry, ...]:
        return (*super().index(), IndexEntry(MODEL, "2", "READY"))


def test_several_versions() -> None:
    assert refused(Lab(SLOW, server=TwoVersions())).slug == "several-versions"


def test_sequence_batching() -> None:
    served = {k: v for k, v in SLOW.items() if k != "dynamic_batching"} | {
        "sequence_batching": {"direct": {}}
    }
    assert refused(Lab(served)).slug == "sequence-batching"


def ensemble(name: str = "pipeline", step: str = MODEL) -> dict[str, Any]:
    steps = [{"model_name": step, "model_version": -1, "input_map": {"X": "X"}, "output_map": {"Y": "Y"}}]
    tensors = {k: SLOW[k] for k in ("input", "output")}
    return {
        "name": name,
        "platform": "ensemble",
        "max_batch_size": 8,
        "ensemble_scheduling": {"step": steps},
        **tensors,
    }


def test_an_ensemble() -> None:
    error = refused(Lab(ensemble(MODEL, "inner")))
    assert error.slug == "ensemble"
    assert "inner" in error.hint


def test_a_step_of_a_loaded_ensemble_whose_batch_size_would_change() -> None:
    lab = Lab(SLOW)
    lab.server.add_model(ensemble())
    assert refused(lab).slug == "ensemble-step"


def test_such_a_step_can_be_tuned_without_that_stage() -> None:
    lab = Lab(SLOW)
    lab.server.add_model(ensemble())
    result = lab.tune(GOAL, RATE, stages=STAGES[:-1])
    assert result.status == "met"


def test_an_ensemble_that_is_not_loaded_does_not_matter() -> None:
    lab = Lab(SLOW)
    lab.server.add_model(ensemble(), state="")
    assert lab.tune(GOAL, RATE).status == "met"


def test_integer_inputs_need_data() -> None:
    tokens = SLOW | {"input": [{"name": "X", "data_type": "TYPE_INT64", "dims": [4]}]}
    error = refused(Lab(tokens))
    assert (error.slug, error.exit_code) == ("needs-data", ExitCode.USAGE)
    data = {"inputs": [{"name": "X", "datatype": "INT64", "shape": [1, 4], "data": [1, 2, 3, 4]}]}
    lab = Lab(tokens)
    assert lab.tune(GOAL, RATE, data=json.dumps(data).encode()).status == "met"


# The server -------------------------------------------------------------------------------------------------


def test_several_replicas_behind_one_address() -> None:
    assert refused(Lab(SLOW, server=FakeServer(replicas=True))).slug == "several-replicas"


def test_a_model_in_use() -> None:
    def somebody(server: FakeServer) -> None:
        server.record(MODEL, Execution(infer_ns=3_000_000))

    assert refused(Lab(SLOW, server=FakeServer(on_read=somebody))).slug == "foreign-traffic"


@pytest.mark.parametrize("where", ["gpu", "cpu"])
def test_no_room_for_two_copies(where: str) -> None:
    lab = Lab(SLOW)
    lab.server.gauges = {
        f"nv_{where}_memory_total_bytes": 10e9,
        f"nv_{where}_memory_used_bytes": 9.5e9,
    }
    assert refused(lab, folder=Folder(size=10**9)).slug == "no-memory-for-two"
    lab = Lab(SLOW)
    lab.server.gauges = {f"nv_{where}_memory_total_bytes": 10e9, f"nv_{where}_memory_used_bytes": 8e9}
    assert lab.tune(GOAL, RATE, folder=Folder(size=10**9)).status == "met"


# The folder -------------------------------------------------------------------------------------------------


@dataclass
class Folder:
    """Satisfies ports.ModelFolder; says by default what the server serves."""

    content: str = field(default_factory=lambda: text_of_json(json.dumps(SLOW)))
    newer: str = ""
    network: bool = False
    size: int = 1000
    path: str = f"models/{MODEL}/config.pbtxt"

    def text(self) -> str:
        return self.content

    def config(self) -> ServingConfig | None:
        return view_text(self.content)

    def changed_since_load(self) -> str:
        return self.newer

    def on_network(self) -> bool:
        return self.network

    def size_bytes(self) -> int:
        return self.size


def test_a_repository_on_a_network_file_system() -> None:
    assert refused(Lab(SLOW), folder=Folder(network=True)).slug == "shared-repository"
    assert Lab(SLOW).tune(GOAL, RATE, folder=Folder(network=True), shared_repository=True).status == "met"


def test_files_newer_than_the_server() -> None:
    error = refused(Lab(SLOW), folder=Folder(newer=f"models/{MODEL}/2/model.py"))
    assert error.slug == "newer-files"
    assert f"models/{MODEL}/2/model.py" in error.message


@pytest.mark.parametrize(
    ("served", "field_name"),
    [
        (config(delay_us=100_000, largest=16), "max_batch_size"),
        (config(delay_us=50_000, largest=8), "dynamic_batching"),
        (config(delay_us=100_000, largest=8, preferred=(4,)), "dynamic_batching"),
        ({k: v for k, v in SLOW.items() if k != "dynamic_batching"}, "dynamic_batching"),
        (config(delay_us=100_000, largest=8, count=2), "instance_group"),
    ],
)
def test_a_file_that_says_something_else_than_is_served(served: dict[str, Any], field_name: str) -> None:
    error = refused(Lab(served), folder=Folder())
    assert error.slug == "file-differs"
    assert field_name in error.message


def test_what_triton_fills_in_is_no_difference() -> None:
    """A file without preferred sizes, without groups, or without a batcher that the backend completed."""
    whole = view_json(Lab(SLOW).original)
    assert whole.dynamic_batching is not None
    assert whole.dynamic_batching.preferred_batch_size == (8,)
    for left_out in ("dynamic_batching", "instance_group", "max_batch_size"):
        file = text_of_json(json.dumps({k: v for k, v in SLOW.items() if k != left_out}))
        assert Lab(SLOW).tune(GOAL, RATE, folder=Folder(file), stages=("delay",)).status == "met"


def test_the_diff_is_made_against_the_operators_file() -> None:
    comment = "# do not touch, ask Kim first\n"
    folder = Folder(comment + text_of_json(json.dumps(SLOW)))
    lab = Lab(SLOW)
    result = lab.tune(GOAL, RATE, folder=folder)
    edited = str(lab.store.runs[0].files["config/tuned.pbtxt"])
    assert edited.startswith(comment)
    block = view_json(json_of_text(edited)).dynamic_batching
    assert block is not None
    assert block.max_queue_delay_microseconds == 500
    assert folder.path in result.diff


# Whose machine ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.3.2.1", "::1", "[::1]"])
def test_this_machine_needs_no_word(host: str) -> None:
    assert is_loopback(host)
    require_loopback_or(False, host, "--allow-load", "loading")


@pytest.mark.parametrize(
    "host", ["10.0.0.7", "triton.example", "127.example.com", "localhost.example", "::10"]
)
def test_another_machine_needs_the_operators_word(host: str) -> None:
    assert not is_loopback(host)
    with pytest.raises(TrituneError) as caught:
        require_loopback_or(False, host, "--allow-load", "loading")
    assert (caught.value.slug, caught.value.exit_code) == ("not-loopback", ExitCode.USAGE)
    assert "--allow-load" in caught.value.hint
    require_loopback_or(True, host, "--allow-load", "loading")


# Advice -----------------------------------------------------------------------------------------------------


def advice(lab: Lab, **more: Any) -> TuneResult:
    result = lab.tune("p99=30ms", 100, **more)
    assert lab.server.loads == []
    assert lab.journal.lines == []
    assert result.status == "advice"
    assert result.reloads == 0
    assert {s.outcome for s in result.steps} == {"not tried"}
    return result


@pytest.mark.parametrize("how", ["fixed control mode", "reloads not allowed"])
def test_where_nothing_may_be_loaded_there_is_advice_with_a_diff(how: str) -> None:
    fixed = how == "fixed control mode"
    lab = Lab(SLOW, server=FakeServer(control="fixed" if fixed else "explicit"))
    result = advice(lab, may_reload=fixed)
    moved = {s.path for s in result.change.settings}
    assert moved
    assert moved <= {
        "dynamic_batching.max_queue_delay_microseconds",
        "dynamic_batching.preferred_batch_size",
    }
    assert result.diff.startswith("---")
    assert result.after == ()
    assert result.config_after != result.config_before
    assert lab.store.runs[0].files["config.diff"] == result.diff


def test_advice_where_no_edit_follows_says_so_without_a_diff() -> None:
    lab = Lab(config(largest=8), device(40.0, 1.0), server=FakeServer(control="fixed"))
    result = lab.tune("p99=30ms", 20)
    assert result.status == "advice"
    assert (result.change.settings, result.diff) == ((), "")
    assert result.notes


def test_a_met_slo_needs_no_reloads_and_so_no_permission() -> None:
    lab = Lab(config(largest=8), server=FakeServer(control="fixed"))
    assert lab.tune("p99=30ms", 200).status == "already met"
