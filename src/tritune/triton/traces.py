"""Request traces: switch them on for one model over gRPC, read what the server writes to its trace file.

A trace is the only ground truth of who was executed with whom: the COMPUTE_* instants come from one set of
timestamps per execution, so requests with the same COMPUTE_START were one batch (semantics 3.5).
"""

from __future__ import annotations

import glob
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import msgspec

from tritune.errors import TrituneError
from tritune.triton.grpc import Grpc, GrpcError
from tritune.triton.model_errors import first_line

# By the server's names; () = the model follows the server's own setting.
Settings = dict[str, tuple[str, ...]]
_CHANGEABLE = ("trace_level", "trace_rate", "trace_count", "log_frequency")
# Any log_frequency but 0 has the server write whole numbered files (see TraceFile); so many requests make a
# portion where nobody asks for one earlier.
_EVERY_REQUEST: Settings = {
    "trace_level": ("TIMESTAMPS",),
    "trace_rate": ("1",),
    "trace_count": ("-1",),
    "log_frequency": ("100000",),
}


class RequestTrace(msgspec.Struct, frozen=True):
    """One request: its id as the client gave it, and the instant of each activity, CLOCK_MONOTONIC ns.

    The activities are the server's: REQUEST_START, QUEUE_START, COMPUTE_START, COMPUTE_INPUT_END,
    COMPUTE_OUTPUT_START, COMPUTE_END, REQUEST_END, and those of the front end. A request that was refused or
    dropped has no COMPUTE_*. `parent` is the trace's number of the ensemble request that it belongs to, 0 =
    none; `number` is its own, unique for as long as the server lives.
    """

    number: int
    request_id: str
    model: str
    version: str
    at_ns: Mapping[str, int]
    parent: int = 0


class Tracing:
    """The trace settings of one model. Whoever changes them writes what `start` returns to the journal."""

    def __init__(self, grpc: Grpc, url: str, model: str) -> None:
        self._grpc = grpc
        self._url = url
        self._model = model

    def settings(self) -> Settings:
        """What can be changed for this model; () where it equals the server's own setting."""
        own, server = self._ask(self._model), self._ask("")
        return {name: () if own.get(name) == server.get(name) else own.get(name, ()) for name in _CHANGEABLE}

    def file(self) -> Path:
        """The file that traces go to; it may not be there before the first of them.

        Fails with no-trace-file where the server has none, or sends its traces elsewhere, or where the
        file's folder is not on this machine.
        """
        settings = self._ask("")
        name = next(iter(settings.get("trace_file", ())), "")
        if not name or settings.get("trace_mode") not in (None, ("triton",)):
            raise _no_file(f"{self._url} has no trace file")
        if not Path(name).parent.is_dir():
            raise _no_file(f"the trace file of {self._url}, {name}, is not on this machine")
        return Path(name)

    def start(self) -> Settings:
        """Trace every request of the model from now on; returns the settings before, for `restore`.

        Fails with no-trace-file (see `file`), before anything is changed, and with trace-refused.
        """
        self.file()
        before = self.settings()
        self._ask(self._model, _EVERY_REQUEST)
        return before

    def flush(self) -> None:
        """Have the server write what it has traced to a numbered file: it does so at every change."""
        self._ask(self._model, _EVERY_REQUEST)

    def restore(self, before: Settings) -> None:
        """The settings as `start` found them; what was traced is written to the file."""
        self._ask(self._model, before)

    def _ask(self, model: str, changes: Settings | None = None) -> Settings:
        try:
            return self._grpc.trace_setting(model, changes)
        except GrpcError as error:
            if error.slug != "grpc-refused":
                raise
            raise TrituneError(
                f"{self._url} refused to trace '{model or 'its requests'}': {first_line(error.details)}",
                slug="trace-refused",
                hint="Is the model loaded, and was the server started with --trace-config triton,file=PATH?",
            ) from error


class TraceFile:
    """What a server writes to its trace file and to the numbered files beside it, each request read once.

    With log_frequency 0 the server appends to the file itself: an array that stays open while it runs, whose
    last few kilobytes stay in its memory (24.10 never flushes the stream). Otherwise each portion is an array
    of its own in FILE.0, FILE.1, ..., whole. What is there when this is made is passed over.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self._read: dict[Path, tuple[int, int]] = {}  # bytes used, and when the file was last written
        for part in self._parts():
            status = part.stat()
            self._read[part] = status.st_size, status.st_mtime_ns

    def new(self) -> tuple[RequestTrace, ...]:
        """The requests that were written since the last call, in the order of writing within each file.

        None where there is no file yet; a request that is not written to its end yet is left to a later call.
        Fails with trace-unreadable or bad-trace.
        """
        return tuple(trace for part in self._parts() for trace in self._new_in(part))

    def _parts(self) -> list[Path]:
        numbered = [
            part
            for part in self.path.parent.glob(f"{glob.escape(self.path.name)}.*")
            if part.suffix[1:].isdecimal()
        ]
        own = [self.path] if self.path.exists() else []
        return own + sorted(numbered, key=lambda part: int(part.suffix[1:]))

    def _new_in(self, part: Path) -> tuple[RequestTrace, ...]:
        used, written = self._read.get(part, (0, 0))
        try:
            status = part.stat()
            if status.st_size == used and status.st_mtime_ns == written:
                return ()
            if part != self.path or status.st_size < used:
                used = 0  # a number is used again after the server's restart, and its file written anew
            with part.open("rb") as file:
                file.seek(used)
                data = file.read()
        except OSError as error:
            raise TrituneError(
                f"the trace file {part} cannot be read: {error.strerror}",
                slug="trace-unreadable",
                hint="Make it readable for this user, or run tritune as the user that runs the server.",
            ) from error
        if part != self.path and not data.endswith(b"]"):
            return ()  # still being written
        requests, more = _requests(data, part, part_is_whole=part != self.path)
        self._read[part] = used + more, status.st_mtime_ns
        return requests


# The server escapes nothing: a request id with a quote makes entries that are no JSON (measured on 24.10).
_ENTRY = re.compile(
    rb'[\[\],\s]*\{"id":(?P<id>\d+),'
    rb'(?:"timestamps":\[\{"name":"(?P<name>\w+)","ns":(?P<ns>\d+)\}\]'
    rb'|"model_name":"(?P<model>.*?)","model_version":(?P<version>-?\d+)'
    rb'(?:,"request_id":"(?P<request>.*?)")?(?:,"parent_id":(?P<parent>\d+))?'
    rb'|"activity":.*?)\}(?=[\],]|$)',
    re.DOTALL,
)


def _requests(data: bytes, part: Path, *, part_is_whole: bool) -> tuple[tuple[RequestTrace, ...], int]:
    """The requests that are there as a whole, and how many bytes they take."""
    found: list[RequestTrace] = []
    entries: list[re.Match[bytes]] = []
    place = used = 0
    while entry := _ENTRY.match(data, place):
        if entries and entries[0]["id"] != entry["id"]:
            found.append(_request(entries))
            entries, used = [], place
        entries.append(entry)
        place = entry.end()
    rest = data[place:].strip(b"[], \t\r\n")
    if not rest:
        return (*found, *([_request(entries)] if entries else [])), len(data)
    cut = rest.startswith(b'{"id":'[: len(rest)]) and b',{"id":' not in rest
    if not cut or part_is_whole:
        raise TrituneError(
            f"{part} does not hold Triton's traces: byte {place} begins no entry",
            slug="bad-trace",
            hint="Another program may write to this file; give the server one of its own.",
        )
    return tuple(found), used


def _request(entries: Sequence[re.Match[bytes]]) -> RequestTrace:
    head = next((entry for entry in entries if entry["model"] is not None), None)
    return RequestTrace(
        number=int(entries[0]["id"]),
        request_id=(head["request"] or b"").decode(errors="replace") if head else "",
        model=head["model"].decode(errors="replace") if head else "",
        version=head["version"].decode() if head else "",
        at_ns={entry["name"].decode(): int(entry["ns"]) for entry in entries if entry["name"]},
        parent=int(head["parent"] or 0) if head else 0,
    )


def _no_file(message: str) -> TrituneError:
    return TrituneError(
        message,
        slug="no-trace-file",
        hint="Start the server on this machine with --trace-config triton,file=PATH.",
    )
