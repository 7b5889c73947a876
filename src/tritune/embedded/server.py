"""A running Triton of our own: started, waited for, found again, stopped. Everything listens on 127.0.0.1."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

import msgspec
import psutil

from tritune.embedded.launch import launch
from tritune.embedded.layout import Environment
from tritune.embedded.ports import all_free, free_ports
from tritune.embedded.readiness import PortTakenError, died, wait_ready
from tritune.errors import TrituneError
from tritune.places import state_folder

ControlFlag = Literal["explicit", "none", "poll"]

_HOST = "127.0.0.1"
_PORT_TRIES = 5
# A stepped clock may move psutil's idea of a start time a little; a reused pid moves it by far more.
_SAME_START_S = 1.0


class RunningServer(msgspec.Struct, frozen=True, kw_only=True):
    """A server process and where it answers; also what a record on disk holds.

    `created` is the process's start time (psutil, seconds since the epoch): with the pid it names the
    process for good. `started_at` is the same for people (UTC). `trace_file` is where traces would go.
    """

    pid: int
    created: float
    started_at: str
    url: str
    grpc: str
    metrics: str
    version: str
    repository: str
    log: str
    trace_file: str


def start(
    repository: Path | str,
    *,
    environment: Environment,
    models: Sequence[str] = ("*",),
    control_mode: ControlFlag = "explicit",
    die_with_parent: bool = True,
    folder: Path | None = None,
    http_port: int | None = None,
    extra_flags: Sequence[str] = (),
    deadline_s: float = 90.0,
) -> RunningServer:
    """The server, ready to infer with `models` ("*" = all; only `explicit` lets one choose).

    HTTP is on `http_port` or a free one, gRPC and metrics on the two ports after it. The log and the trace
    file go to `folder` (default: a new one under the state folder) and stay there. Fails with what the log
    says when the server dies or is not ready within `deadline_s`; the process is then gone.
    """
    repository = Path(repository).absolute()
    if not repository.is_dir():
        raise TrituneError(
            f"there is no model repository at {repository}",
            slug="no-repository",
            hint="Name a folder that holds one folder per model, each with a config.pbtxt.",
        )
    folder = folder.absolute() if folder is not None else _new_folder()
    for attempt in range(_PORT_TRIES):
        port = free_ports() if http_port is None else http_port
        if http_port is not None and not all_free(port):
            raise _port_taken(port)
        log = folder / ("triton.log" if attempt == 0 else f"triton-{attempt + 1}.log")
        try:
            return _start_once(
                repository,
                environment,
                _flags(repository, environment, models, control_mode, folder, port, extra_flags),
                log,
                folder / "trace.json",
                port,
                die_with_parent,
                deadline_s,
            )
        except PortTakenError:
            if http_port is not None:
                raise _port_taken(port) from None
    raise _port_taken(port)


def is_alive(server: RunningServer) -> bool:
    """Whether exactly this process still runs; a later process that got the same pid does not count."""
    return _process(server) is not None


def stop(server: RunningServer, *, grace_s: float = 10.0) -> bool:
    """False if it was gone already; else it was asked to end and, after `grace_s`, made to end.

    A process with this pid but another start time is left alone.
    """
    process = _process(server)
    if process is None:
        return False
    try:
        process.terminate()
        try:
            process.wait(timeout=grace_s)
        except psutil.TimeoutExpired:
            process.kill()
            process.wait(timeout=grace_s)
    except psutil.NoSuchProcess:
        return True
    except (psutil.AccessDenied, psutil.TimeoutExpired) as error:
        raise TrituneError(
            f"the server with pid {server.pid} could not be stopped: {error}",
            slug="server-not-stopped",
            hint="It may belong to another user; stop it as that user.",
        ) from error
    return True


def _port_taken(port: int) -> TrituneError:
    return TrituneError(
        f"port {port}, {port + 1} or {port + 2} on {_HOST} is already in use",
        slug="port-taken",
        hint="Triton needs three: HTTP, gRPC and metrics. Name another first port, or none.",
    )


def _new_folder() -> Path:
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%S.%fZ")
    return state_folder() / "servers" / stamp


def _flags(
    repository: Path,
    environment: Environment,
    models: Sequence[str],
    control_mode: ControlFlag,
    folder: Path,
    port: int,
    extra: Sequence[str],
) -> list[str]:
    chosen = [f"--load-model={model}" for model in models] if control_mode == "explicit" else []
    return [
        f"--model-repository={repository}",
        f"--backend-directory={environment.backends}",
        f"--model-control-mode={control_mode}",
        *chosen,
        f"--http-address={_HOST}",
        f"--http-port={port}",
        f"--grpc-address={_HOST}",
        f"--grpc-port={port + 1}",
        f"--metrics-address={_HOST}",
        f"--metrics-port={port + 2}",
        "--allow-gpu-metrics=false",
        "--metrics-config",
        "summary_latencies=true",
        # No level is set, so nothing is traced; but the file can only be named here, not over the network.
        "--trace-config",
        f"triton,file={folder / 'trace.json'}",
        "--exit-timeout-secs=5",
        *extra,
    ]


def _start_once(
    repository: Path,
    environment: Environment,
    flags: list[str],
    log: Path,
    trace_file: Path,
    port: int,
    die_with_parent: bool,
    deadline_s: float,
) -> RunningServer:
    try:
        log.parent.mkdir(parents=True, exist_ok=True)
        pid = launch(
            [str(environment.tritonserver), *flags],
            environment.process_environment(),
            log,
            die_with_parent=die_with_parent,
            python=environment.python,
        )
    except OSError as error:
        raise TrituneError(
            f"Triton could not be started: {error}",
            slug="server-not-started",
            hint=f"Can {log.parent} be written, and does {environment.tritonserver} exist?",
        ) from error
    try:
        created = psutil.Process(pid).create_time()
    except psutil.NoSuchProcess:
        raise died(log) from None
    server = RunningServer(
        pid=pid,
        created=created,
        started_at=datetime.fromtimestamp(created, UTC).isoformat(timespec="seconds"),
        url=f"http://{_HOST}:{port}",
        grpc=f"{_HOST}:{port + 1}",
        metrics=f"http://{_HOST}:{port + 2}/metrics",
        version="",
        repository=str(repository),
        log=str(log),
        trace_file=str(trace_file),
    )
    try:
        version = wait_ready(_HOST, port, pid, lambda: is_alive(server), log, deadline_s)
    except BaseException:  # an interrupt must not leave a half-started server behind either
        stop(server, grace_s=2.0)
        raise
    return msgspec.structs.replace(server, version=version)


def _process(server: RunningServer) -> psutil.Process | None:
    try:
        process = psutil.Process(server.pid)
        if abs(process.create_time() - server.created) > _SAME_START_S:
            return None
        if process.status() == psutil.STATUS_ZOMBIE:
            process.wait(timeout=0)  # ours and dead: take it off the process table
            return None
    except psutil.TimeoutExpired:
        return None  # dead, but another's to collect
    except psutil.NoSuchProcess:
        return None
    return process
