"""`tritune server start|status|stop`: the embedded Triton, detached from this process."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from cyclopts import App

from tritune.errors import ExitCode, UsageError

if TYPE_CHECKING:
    from tritune.embedded.server import RunningServer

app = App(name="server", help="A real Triton on this machine, from its wheel, in an environment of its own.")


@app.command
def start(
    *,
    scenario: str | None = None,
    model_repository: Path | None = None,
    port: int | None = None,
    json: bool = False,
) -> int:
    """Start a server that goes on running; it listens on 127.0.0.1 only.

    Parameters
    ----------
    scenario
        Serve the models of this scenario.
    model_repository
        Serve this model repository (models of the Python backend).
    port
        HTTP port; gRPC and metrics are the next two. Default: free ones.
    json
        Print the server as JSON.
    """
    if (scenario is None) == (model_repository is None):
        raise UsageError(
            "server start needs either --scenario or --model-repository",
            slug="scenario-or-repository",
            hint="For example: tritune server start --scenario delay-too-long",
        )
    from tritune.cli.live import live_progress
    from tritune.cli.output import print_json
    from tritune.embedded.environment import ensure_environment
    from tritune.embedded.state import start_detached
    from tritune.places import state_folder
    from tritune.scenarios import load_scenario, materialise

    progress = live_progress()
    if scenario is not None:
        known = load_scenario(scenario)
        model_repository = materialise(known, state_folder() / "scenarios" / scenario)
    assert model_repository is not None  # noqa: S101 - one of the two was given
    environment = ensure_environment(progress.step)
    progress.step("starting Triton")
    server = start_detached(model_repository, environment=environment, http_port=port)
    if json:
        print_json("server", server)
    else:
        _show(server)
    return ExitCode.OK


@app.command
def status(*, json: bool = False) -> int:
    """List the servers that were started and still run.

    Parameters
    ----------
    json
        Print them as JSON.
    """
    from tritune.cli.output import print_json, say
    from tritune.embedded.state import live_servers

    servers = live_servers()
    if json:
        print_json("servers", servers)
        return ExitCode.OK
    for server in servers:
        _show(server)
    if not servers:
        say("no server of tritune's own is running")
    return ExitCode.OK


@app.command
def stop(which: str | None = None, /) -> int:
    """Stop one server, or all that were started from here.

    Parameters
    ----------
    which
        Its URL or pid; default: all of them.
    """
    from tritune.cli.output import say
    from tritune.embedded.state import stop_recorded

    stopped = stop_recorded(which)
    for server in stopped:
        say(f"stopped {server.url} (pid {server.pid}); its log stays at {server.log}")
    if not stopped:
        say("no server of tritune's own is running")
    return ExitCode.OK


def _show(server: RunningServer) -> None:
    """One server for a person: what to connect to, on stdout."""
    lines = (
        f"{server.url}  Triton {server.version}, pid {server.pid}, since {server.started_at}",
        f"  gRPC {server.grpc}, metrics {server.metrics}",
        f"  models {server.repository}",
        f"  log    {server.log}",
    )
    print("\n".join(lines))  # noqa: T201 - the data of this command


__all__ = ["app", "start", "status", "stop"]
