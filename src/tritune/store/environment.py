"""environment.json: what a figure may depend on. No user names, no host names, nothing secret."""

from __future__ import annotations

import os
import platform

import msgspec
import psutil

from tritune import __version__


class Environment(msgspec.Struct, frozen=True):
    """The machine and the software of the load's side; memory in bytes.

    `cpus` is what the machine has, `usable_cpus` what this process may use.
    """

    tool_version: str
    python: str
    implementation: str
    system: str
    kernel: str
    machine: str
    cpus: int
    usable_cpus: int
    memory_bytes: int


def environment() -> Environment:
    """This process's."""
    return Environment(
        tool_version=__version__,
        python=platform.python_version(),
        implementation=platform.python_implementation(),
        system=platform.system(),
        kernel=platform.release(),
        machine=platform.machine(),
        cpus=os.cpu_count() or 1,
        usable_cpus=len(os.sched_getaffinity(0)),
        memory_bytes=int(psutil.virtual_memory().total),
    )
