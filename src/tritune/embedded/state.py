"""Servers that outlive the command that started them: one record each, found and stopped by later ones."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import msgspec

from tritune.embedded.layout import Environment
from tritune.embedded.server import ControlFlag, RunningServer, is_alive, start, stop
from tritune.errors import TrituneError, UsageError
from tritune.places import state_folder


def start_detached(
    repository: Path | str,
    *,
    environment: Environment,
    models: tuple[str, ...] = ("*",),
    control_mode: ControlFlag = "explicit",
    http_port: int | None = None,
) -> RunningServer:
    """A ready server that goes on after this process, with its record written. Fails as `start` does.

    A server whose record cannot be written is stopped again: nobody could find it later.
    """
    server = start(
        repository,
        environment=environment,
        models=models,
        control_mode=control_mode,
        http_port=http_port,
        die_with_parent=False,
    )
    try:
        _write(server)
    except OSError as error:
        stop(server)
        raise TrituneError(
            f"the server's record could not be written to {_folder()}: {error}",
            slug="state-not-writable",
            hint="Set XDG_STATE_HOME to a folder that you may write to.",
        ) from error
    return server


def live_servers() -> tuple[RunningServer, ...]:
    """The recorded servers that still run, oldest first; records of those that are gone are removed.

    Their logs stay where they are.
    """
    alive = []
    for path, server in _records():
        if is_alive(server):
            alive.append(server)
        else:
            _forget(path)
    return tuple(sorted(alive, key=lambda server: server.created))


def stop_recorded(which: str | None = None) -> tuple[RunningServer, ...]:
    """The servers that were stopped: the one with this URL or pid, or all where None is given.

    Raises UsageError (no-such-server) when a named one is not among the live ones. Having nothing to stop
    without a name is no error. A process that merely got a recorded pid is never touched.
    """
    alive = live_servers()
    if which is not None:
        wanted = which.rstrip("/")
        alive = tuple(server for server in alive if wanted in (server.url, str(server.pid)))
        if not alive:
            raise UsageError(
                f"no running server of tritune's own is known as {which}",
                slug="no-such-server",
                hint="tritune server status lists them with URL and pid.",
            )
    for server in alive:
        stop(server)
        _forget(_path(server))
    return alive


def _folder() -> Path:
    return state_folder() / "servers"


def _path(server: RunningServer) -> Path:
    return _folder() / f"{server.pid}-{server.created:.2f}.json"


def _write(server: RunningServer) -> None:
    """Whole or not at all: written beside, then renamed."""
    path = _path(server)
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_suffix(".new")
    with beside.open("wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(server)))
        file.flush()
        os.fsync(file.fileno())
    beside.replace(path)


def _forget(path: Path) -> None:
    """Remove a record. One that cannot be removed does no harm: its process is known to be gone."""
    with suppress(OSError):
        path.unlink()


def _records() -> Iterator[tuple[Path, RunningServer]]:
    """All records that can be read; a torn one names no process that we could stop safely, so it is left."""
    for path in sorted(_folder().glob("*.json")):
        try:
            yield path, msgspec.json.decode(path.read_bytes(), type=RunningServer)
        except (OSError, msgspec.DecodeError):
            continue
