"""Reading trace files as a 24.10 writes them, and what is asked of a server's trace settings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tritune.errors import TrituneError
from tritune.triton.grpc import GrpcError
from tritune.triton.traces import RequestTrace, TraceFile, Tracing

ACTIVITIES = (
    "HTTP_RECV_START",
    "REQUEST_START",
    "QUEUE_START",
    "COMPUTE_START",
    "COMPUTE_END",
    "REQUEST_END",
)


def written(number: int, request_id: str, parent: int = 0) -> bytes:
    """One request as the server writes it: times first, who it was somewhere among them, nothing escaped."""
    times = [
        f'{{"id":{number},"timestamps":[{{"name":"{name}","ns":{1000 * number + i}}}]}}'
        for i, name in enumerate(ACTIVITIES)
    ]
    own = f',"parent_id":{parent}' if parent else ""
    head = (
        f'{{"id":{number},"model_name":"timed","model_version":1,"request_id":"{request_id}"{own}}}'
        if request_id
        else f'{{"id":{number},"model_name":"timed","model_version":1{own}}}'
    )
    return ",".join([times[0], head, *times[1:]]).encode()


def expected(number: int, request_id: str, parent: int = 0) -> RequestTrace:
    at_ns = {name: 1000 * number + i for i, name in enumerate(ACTIVITIES)}
    return RequestTrace(number, request_id, "timed", "1", at_ns, parent)


def test_an_array_that_is_still_open(tmp_path: Path) -> None:
    file = TraceFile(tmp_path / "trace.json")
    assert file.new() == ()
    file.path.write_bytes(b"[" + written(1, "a") + b"," + written(2, ""))
    assert file.new() == (expected(1, "a"), expected(2, ""))
    assert file.new() == ()
    with file.path.open("ab") as more:
        more.write(b"," + written(3, "c", parent=2) + b"]")
    assert file.new() == (expected(3, "c", parent=2),)


def test_several_arrays_and_a_quote_in_an_id(tmp_path: Path) -> None:
    """A request id is written as it came: `r"é0` makes an entry that is no JSON."""
    file = TraceFile(tmp_path / "trace.json")
    file.path.write_bytes(b"[" + written(1, 'r"é0') + b"]\n[" + written(2, "b") + b"]")
    assert file.new() == (expected(1, 'r"é0'), expected(2, "b"))


@given(cut=st.integers(0, 3 * len(written(1, "a")) + 2))
def test_a_file_that_is_written_while_it_is_read(cut: int, tmp_path_factory: pytest.TempPathFactory) -> None:
    whole = b"[" + b",".join(written(n, "abc"[n - 1]) for n in (1, 2, 3))
    file = TraceFile(tmp_path_factory.mktemp("trace") / "trace.json")
    file.path.write_bytes(whole[:cut])
    found = list(file.new())
    with file.path.open("ab") as more:
        more.write(whole[cut:])
    found += file.new()
    numbers = {trace.number for trace in found}
    assert numbers == {1, 2, 3}
    # Nothing tells a cut between two entries of one request from its end, but a cut within an entry does.
    if not any(whole[:cut].endswith(end) for end in (b"}", b"},")):
        assert [*found] == [expected(1, "a"), expected(2, "b"), expected(3, "c")]


def test_numbered_files_are_read_once_in_their_order_and_old_ones_not(tmp_path: Path) -> None:
    path = tmp_path / "trace.json"
    (tmp_path / "trace.json.0").write_bytes(b"[" + written(1, "old") + b"]")
    file = TraceFile(path)
    (tmp_path / "trace.json.10").write_bytes(b"[" + written(4, "d") + b"]")
    (tmp_path / "trace.json.2").write_bytes(b"[" + written(3, "c") + b"]")
    (tmp_path / "trace.json.bak").write_bytes(b"nonsense")
    (tmp_path / "trace.json.11").write_bytes(b"[" + written(5, "e"))  # being written
    assert file.new() == (expected(3, "c"), expected(4, "d"))
    (tmp_path / "trace.json.11").write_bytes(b"[" + written(5, "e") + b"]")
    (tmp_path / "trace.json.2").write_bytes(b"[" + written(1, "anew") + b"]")  # the server was restarted
    assert file.new() == (expected(1, "anew"), expected(5, "e"))
    assert file.new() == ()


@pytest.mark.parametrize("content", [b"hello", b"[1, 2]", b'{"traces": []}', b'[{"id":1,"what":2},{"id":1}]'])
def test_what_is_no_trace_file(tmp_path: Path, content: bytes) -> None:
    file = TraceFile(tmp_path / "trace.json")
    file.path.write_bytes(content)
    with pytest.raises(TrituneError) as caught:
        file.new()
    assert caught.value.slug == "bad-trace"


def test_a_trace_file_that_cannot_be_read(tmp_path: Path) -> None:
    (tmp_path / "trace.json").mkdir()
    file = TraceFile(tmp_path / "trace.json")
    (tmp_path / "trace.json" / "inside").touch()
    with pytest.raises(TrituneError) as caught:
        file.new()
    assert caught.value.slug == "trace-unreadable"


class Server:
    """The trace settings of a server with one model, as on 24.10: a model shows its own or the server's."""

    def __init__(self, **settings: tuple[str, ...]) -> None:
        self.server: dict[str, tuple[str, ...]] = {
            "trace_level": ("OFF",),
            "trace_rate": ("1000",),
            "trace_count": ("-1",),
            "log_frequency": ("0",),
            "trace_mode": ("triton",),
        } | settings
        self.own: dict[str, tuple[str, ...]] = {}
        self.changes: list[dict[str, tuple[str, ...]]] = []

    def trace_setting(self, model: str, changes: Any = None) -> dict[str, tuple[str, ...]]:
        if model not in ("", "timed"):
            raise GrpcError(
                "refused", slug="grpc-refused", code="INVALID_ARGUMENT", details="unknown model : x"
            )
        if changes:
            assert model == "timed"  # never the server's own
            self.changes.append(dict(changes))
            self.own |= changes
        return self.server | ({k: v for k, v in self.own.items() if v} if model else {})


def tracing(server: Server, model: str = "timed") -> Tracing:
    return Tracing(server, "http://127.0.0.1:8000", model)  # type: ignore[arg-type]


def test_settings_are_put_back_as_they_were(tmp_path: Path) -> None:
    server = Server(trace_file=(str(tmp_path / "trace.json"),))
    server.own = {"trace_rate": ("7",)}
    seen = server.trace_setting("timed")
    traced = tracing(server)
    before = traced.start()
    assert before == {"trace_level": (), "trace_rate": ("7",), "trace_count": (), "log_frequency": ()}
    assert server.trace_setting("timed")["trace_level"] == ("TIMESTAMPS",)
    assert server.trace_setting("timed")["trace_rate"] == ("1",)
    traced.restore(before)
    assert server.trace_setting("timed") == seen


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"trace_file": ("",)},
        {"trace_file": ("/no/such/folder/trace.json",)},
        {"trace_file": ("trace.json",), "trace_mode": ("opentelemetry",)},
    ],
)
def test_no_trace_file_changes_nothing(settings: dict[str, tuple[str, ...]]) -> None:
    server = Server(**settings)
    with pytest.raises(TrituneError) as caught:
        tracing(server).start()
    assert caught.value.slug == "no-trace-file"
    assert server.changes == []


def test_a_refusal_is_a_sentence(tmp_path: Path) -> None:
    server = Server(trace_file=(str(tmp_path / "trace.json"),))
    with pytest.raises(TrituneError) as caught:
        tracing(server, "nix").start()
    assert caught.value.slug == "trace-refused"
    assert str(caught.value) == "http://127.0.0.1:8000 refused to trace 'nix': unknown model : x"
