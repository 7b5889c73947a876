"""Let the server's threads run when they are ready, so that other programs on this machine decide no race."""

from __future__ import annotations

import os
from contextlib import suppress

import psutil

# Above all ordinary programs; equal among each other, so that none of them interrupts another.
_PRIORITY = os.sched_param(1)


def undisturb(pid: int) -> bool:
    """Give the process, its children and all their threads real-time priority; False where we may not.

    A wake-up then reaches a thread within microseconds, and a thread that has just finished an execution is
    not interrupted by one that it woke. Measured on two cores beside other work, 128 random timelines each
    with a delay of 1 or 12 ms: 66 % were executed as the rules say without it, 95 % with it. Threads that the
    server starts later are not covered: call it again after a load.
    """
    if len(os.sched_getaffinity(0)) < 2:
        return False
    root = psutil.Process(pid)
    for process in (root, *root.children(recursive=True)):
        with suppress(psutil.NoSuchProcess, ProcessLookupError):  # the old version's, about to end
            for thread in process.threads():
                try:
                    os.sched_setscheduler(thread.id, os.SCHED_FIFO, _PRIORITY)
                except PermissionError:
                    return False
    return True
