"""What every `Server` must do, asked of the shipped fake and of the real Triton alike."""

from __future__ import annotations

import json
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tritune.errors import TrituneError
from tritune.model.server import ModelKey
from tritune.pbtxt.message import pin_json, same_json, trial_json
from tritune.testing import FakeServer
from tritune.testing.counting import Execution
from tritune.triton import connect
from tritune.verbs.ports import Server

KEY = ModelKey("echo", "1")
CONFIG: dict[str, Any] = {
    "name": "echo",
    "backend": "python",
    "max_batch_size": 8,
    "input": [{"name": "X", "data_type": "TYPE_FP32", "dims": [4]}],
    "output": [{"name": "Y", "data_type": "TYPE_FP32", "dims": [4]}],
    "dynamic_batching": {"max_queue_delay_microseconds": 100},
    "instance_group": [{"kind": "KIND_CPU", "count": 1}],
}
BROKEN = CONFIG | {"name": "broken"}
ECHO = """
import triton_python_backend_utils as pb
class TritonPythonModel:
    def execute(self, requests):
        tensors = [pb.get_input_tensor_by_name(r, "X").as_numpy() for r in requests]
        return [pb.InferenceResponse([pb.Tensor("Y", x)]) for x in tensors]
"""
REASON = "Internal: RuntimeError: the weights are missing"

Infer = Callable[[Server, int], None]


def _write(repository: Path, config: dict[str, Any], code: str) -> None:
    from google.protobuf import json_format, text_format
    from tritonclient.grpc import model_config_pb2

    message = json_format.ParseDict(config, model_config_pb2.ModelConfig())
    version = repository / config["name"] / "1"
    version.mkdir(parents=True)
    (version / "model.py").write_text(code)
    (version.parent / "config.pbtxt").write_text(text_format.MessageToString(message))


def _send(server: Server, items: int) -> None:
    [shot] = server.shots("echo", "", items, None)
    with socket.create_connection((server.target.host, server.target.port), timeout=10) as peer:
        peer.sendall(shot.data)
        assert peer.recv(64).startswith(b"HTTP/1.1 200")


def _pretend(server: Server, items: int) -> None:
    assert isinstance(server, FakeServer)
    server.record("echo", Execution(requests=(items,), queue_ns=5_000, infer_ns=3_000_000))


@pytest.fixture(params=["fake", pytest.param("real", marks=pytest.mark.live)])
def served(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Server, Infer]]:
    """A server with the models `echo` (ready) and `broken` (which cannot come up), and a way to use echo."""
    if request.param == "fake":
        fake = FakeServer()
        fake.add_model(CONFIG)
        fake.add_model(BROKEN, state="UNAVAILABLE", reason=REASON)
        yield fake, _pretend
        return
    repository = tmp_path / "repository"
    _write(repository, CONFIG, ECHO)
    _write(repository, BROKEN, "raise RuntimeError('the weights are missing')")
    running = request.getfixturevalue("start_triton")(repository, models=["echo"])
    with connect(running.url) as real:
        with pytest.raises(TrituneError):
            real.load("broken", None, deadline_s=30)
        yield real, _send


def _changed(server: Server, **fields: Any) -> str:
    return json.dumps({**json.loads(server.effective_config("echo")), **fields})


def _delay(server: Server) -> int:
    return int(
        json.loads(server.effective_config("echo"))["dynamic_batching"]["max_queue_delay_microseconds"]
    )


def _slug(call: Callable[[], object]) -> str:
    with pytest.raises(TrituneError) as caught:
        call()
    assert caught.value.message
    assert "\n" not in caught.value.message
    return caught.value.slug


def test_a_server(served: tuple[Server, Infer]) -> None:
    """One after the other, for a real server takes seconds to start."""
    server, infer = served
    says_what_it_is(server)
    names_what_cannot_be_used(server)
    counts_what_was_done(server, infer)
    keeps_counters_over_an_in_place_change(server, infer)
    shows_the_old_policy_after_an_in_place_change(server)
    loads_an_override_and_counts_from_zero(server)
    refuses_a_bad_override_and_serves_on(server, infer)


def says_what_it_is(server: Server) -> None:
    assert server.info().version == "2.51.0"
    assert server.control_mode() == "explicit"
    assert not server.several_replicas()
    assert server.notes == ()
    assert server.url.endswith(f"{server.target.host}:{server.target.port}")
    [found] = server.metadata("echo").inputs
    assert (found.name, found.datatype, found.dims, found.optional) == ("X", "FP32", (-1, 4), False)
    assert [t.name for t in server.metadata("echo", "1").outputs] == ["Y"]
    [entry] = [entry for entry in server.index() if entry.name == "echo"]
    assert (entry.version, entry.state) == ("1", "READY")
    assert _delay(server) == 100
    server.wait_ready("echo", "1", deadline_s=1)


def names_what_cannot_be_used(server: Server) -> None:
    for ask in (server.metadata, server.effective_config):
        with pytest.raises(TrituneError) as caught:
            ask("ecko")
        assert caught.value.slug == "unknown-model"
        assert "'echo'" in caught.value.hint
        assert _slug(lambda ask=ask: ask("echo", "9")) == "unknown-version"
        with pytest.raises(TrituneError) as caught:
            ask("broken")
        assert caught.value.slug == "model-not-ready"
        assert "the weights are missing" in caught.value.message
    assert _slug(lambda: server.shots("ecko", "", 1, None)) == "unknown-model"
    assert _slug(lambda: server.shots("echo", "", 9, None)) == "bad-items"
    assert _slug(lambda: server.shots("echo", "", 1, b"{")) == "bad-data"
    assert _slug(lambda: server.wait_ready("broken", "", deadline_s=0.1)) == "model-not-ready"
    assert _slug(lambda: server.load("ecko", None, deadline_s=5)) == "unknown-model"
    assert _slug(lambda: server.load("broken", None, deadline_s=30)) == "load-failed"


def counts_what_was_done(server: Server, infer: Infer) -> None:
    before = server.statistics()
    infer(server, 1)
    infer(server, 3)
    after = server.statistics()
    assert after.source == "statistics"
    assert after.t_ns > before.t_ns
    counters, since = after.models[KEY], before.models[KEY]
    assert counters.success.count - since.success.count == 2
    assert counters.inference_count - since.inference_count == 4
    assert counters.execution_count - since.execution_count == 2
    assert counters.batch_stats is not None
    assert {size: stat.count for size, stat in counters.batch_stats.items()} == {1: 1, 3: 1}
    assert 0 < counters.compute_infer.ns <= counters.success.ns
    assert "broken" not in {key.model for key in after.models}
    metrics = server.metrics()
    assert metrics is not None
    assert metrics.source == "metrics"
    seen = metrics.models[KEY]
    assert seen.batch_stats is None
    assert (seen.inference_count, seen.execution_count, seen.success.count) == (4, 2, 2)
    # The page truncates each duration to whole microseconds (semantics 3.1).
    assert 0 <= counters.compute_infer.ns - seen.compute_infer.ns < 1_000 * seen.success.count
    assert metrics.pending[KEY] == 0


def keeps_counters_over_an_in_place_change(server: Server, infer: Infer) -> None:
    # The first load of a python model finds its new byte code and reloads whatever was asked (semantics 4.2).
    server.load("echo", _changed(server), deadline_s=30)
    infer(server, 1)
    once = server.statistics().models[KEY].success.count
    server.load("echo", _changed(server, instance_group=[{"kind": "KIND_CPU", "count": 2}]), deadline_s=30)
    assert server.statistics().models[KEY].success.count == once
    assert json.loads(server.effective_config("echo"))["instance_group"][0]["count"] == 2


def shows_the_old_policy_after_an_in_place_change(server: Server) -> None:
    """Why trials carry a mark (`trial_json`): a load that changes only the policy shows the old one."""
    server.load(
        "echo", _changed(server, dynamic_batching={"max_queue_delay_microseconds": 120}), deadline_s=30
    )
    original = server.effective_config("echo")
    server.load("echo", pin_json(original, ("1",)), deadline_s=30)
    assert same_json(server.effective_config("echo"), original)
    marked = trial_json(original, ("1",))
    server.load("echo", marked, deadline_s=30)
    assert same_json(server.effective_config("echo"), marked)
    server.load("echo", original, deadline_s=30)
    assert same_json(server.effective_config("echo"), original)


def loads_an_override_and_counts_from_zero(server: Server) -> None:
    # 64-bit numbers as strings, as protobuf writes them, are taken as well.
    server.load(
        "echo", _changed(server, dynamic_batching={"max_queue_delay_microseconds": "250"}), deadline_s=30
    )
    server.wait_ready("echo", "1", deadline_s=5)
    assert _delay(server) == 250
    assert server.statistics().models[KEY].success.count == 0
    # A plain load does not undo an override (semantics 4.2).
    server.load("echo", None, deadline_s=30)
    assert _delay(server) == 250


def refuses_a_bad_override_and_serves_on(server: Server, infer: Infer) -> None:
    before = json.loads(server.effective_config("echo"))
    bad = [
        "{nope",
        _changed(server, foo=1),
        _changed(server, name="other"),
        _changed(server, dynamic_batching={"preferred_batch_size": [64]}),
    ]
    for override in bad:
        assert _slug(lambda override=override: server.load("echo", override, deadline_s=30)) == "load-refused"
    with pytest.raises(TrituneError, match="no GPUs are available") as caught:
        server.load(
            "echo", _changed(server, instance_group=[{"kind": "KIND_GPU", "count": 1}]), deadline_s=30
        )
    assert caught.value.slug == "load-failed"
    assert json.loads(server.effective_config("echo")) == before
    infer(server, 1)


@pytest.mark.parametrize("kind", ["fake", pytest.param("real", marks=pytest.mark.live)])
def test_a_server_without_model_control(kind: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    server: Server
    if kind == "fake":
        fake = FakeServer(control="fixed")
        fake.add_model(CONFIG)
        server = fake
    else:
        _write(tmp_path / "repository", CONFIG, ECHO)
        start = request.getfixturevalue("start_triton")
        server = connect(start(tmp_path / "repository", control_mode="none").url)
    assert server.control_mode() == "fixed"
    assert [entry.name for entry in server.index()] == ["echo"]
    assert _slug(lambda: server.load("echo", _changed(server), deadline_s=5)) == "load-not-allowed"
