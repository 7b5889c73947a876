"""`tritune load` and `tritune simulate` as programs: a measured run, and what is predicted from one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

from tritune.embedded.server import RunningServer
from tritune.testing.timelines.undisturbed import undisturb


def tritune(*argv: object) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [sys.executable, "-m", "tritune", *map(str, argv)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


def measured(server: RunningServer, runs: Path, seed: int, *, model: str, rate: int, length: str) -> Path:
    """The folder of one run; neither server nor sender is interrupted where that is allowed."""
    undisturb(server.pid)
    load = tritune(
        *("load", server.url, "--model", model, "--rate", rate, "--for", length),
        *("--seed", seed, "--runs", runs, "--json"),
    )
    undisturb(load.pid)
    _, said = load.communicate(timeout=60)
    assert load.returncode in (0, 4), said
    return Path(said.rpartition("Wrote ")[2].splitlines()[0])


def simulated(run: Path, *argv: object) -> tuple[int, dict[str, Any], str]:
    """Exit code, what --json printed, what was said."""
    verb = tritune("simulate", run, "--json", *argv)
    out, said = verb.communicate(timeout=120)
    return verb.returncode, json.loads(out) if out else {}, said
