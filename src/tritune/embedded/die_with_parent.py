"""Run as a script: become the given command, but die by SIGKILL when the process that started us dies.

    python -I -S die_with_parent.py PARENT_PID COMMAND [ARGUMENT ...]

The kernel's wish (PR_SET_PDEATHSIG) survives exec and is bound to the *thread* that started us, so the
caller must start us from a thread that lasts as long as its process (`tritune.embedded.launch`). A parent
that died before the wish was made shows as a changed parent pid.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG = 1


def main() -> None:
    """Make the wish, look whether the parent still lives, become the command."""
    parent, command = int(sys.argv[1]), sys.argv[2:]
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL, 0, 0, 0) != 0:
        sys.exit(f"prctl(PR_SET_PDEATHSIG) failed: {os.strerror(ctypes.get_errno())}")
    if os.getppid() != parent:
        sys.exit("the process that wanted this server is gone")
    os.execv(command[0], command)  # noqa: S606 - becoming the command is the point


if __name__ == "__main__":
    main()
