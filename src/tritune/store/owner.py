"""Who holds a lock: a process, known by its id and the moment it started, so that a reused id is seen."""

from __future__ import annotations

import os
import platform
from pathlib import Path

import msgspec


class Owner(msgspec.Struct, frozen=True):
    """The content of a lock file. `start` is in clock ticks since boot, `started` a wall time for people.

    `role` is "tune", "restore" or "watchdog". `host` names the machine: a process of another one cannot be
    looked up from here, so it counts as alive.
    """

    pid: int
    start: int
    run: str
    started: str
    role: str = "tune"
    host: str = ""

    @property
    def is_alive(self) -> bool:
        """Whether that very process still runs; a zombie does not."""
        return self.is_foreign or start_ticks(self.pid) == self.start

    @property
    def is_foreign(self) -> bool:
        """Whether it runs on another machine."""
        return bool(self.host) and self.host != platform.node()


def this_process(run: str, started: str, role: str) -> Owner:
    """The process that asks."""
    pid = os.getpid()
    return Owner(pid, start_ticks(pid) or 0, run, started, role, platform.node())


def start_ticks(pid: int) -> int | None:
    """When a process started, in clock ticks since boot; None where it is gone or a zombie.

    Field 22 of /proc/PID/stat. psutil's wall-clock time is not used: it moves with the clock's corrections,
    and a living tuning would then look dead.
    """
    try:
        stat = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return None
    fields = stat[stat.rfind(")") + 1 :].split()  # the name before may hold spaces and brackets
    return None if len(fields) < 20 or fields[0] in "ZX" else int(fields[19])
