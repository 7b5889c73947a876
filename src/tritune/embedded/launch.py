"""Start one process in its own session, with its output in a file; optionally bound to our life."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from queue import SimpleQueue

from tritune.embedded import die_with_parent as _die_with_parent

_Job = tuple[Callable[[], int], "SimpleQueue[int | BaseException]"]


def launch(
    command: Sequence[str],
    environment: Mapping[str, str],
    log: Path,
    *,
    die_with_parent: bool,
    python: Path,
) -> int:
    """The pid of the started process.

    It leads its own session, so that a Ctrl-C in our terminal does not reach it before we have put things
    in order. With `die_with_parent` it is killed when this process ends in whatever way; `python` runs the
    small script that arranges this. Raises OSError when it cannot be started or the log not be written.
    """
    words = list(command)
    if die_with_parent:
        words = [str(python), "-I", "-S", _die_with_parent.__file__, str(os.getpid()), *words]

    def spawn() -> int:
        return os.posix_spawn(
            words[0],
            words,
            dict(environment),
            file_actions=[
                (os.POSIX_SPAWN_OPEN, 0, os.devnull, os.O_RDONLY, 0),
                (
                    os.POSIX_SPAWN_OPEN,
                    1,
                    str(log),
                    os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND,
                    0o644,
                ),
                (os.POSIX_SPAWN_DUP2, 1, 2),
            ],
            setsid=True,
            setsigmask=[],
            setsigdef=[signal.SIGPIPE, signal.SIGINT, signal.SIGTERM],
        )

    return _in_lasting_thread(spawn) if die_with_parent else spawn()


_lock = threading.Lock()
_jobs: dict[int, SimpleQueue[_Job]] = {}


def _in_lasting_thread(call: Callable[[], int]) -> int:
    """call() made by a daemon thread that ends only with this process (one per process, also after fork)."""
    with _lock:
        jobs = _jobs.get(os.getpid())
        if jobs is None:
            jobs = _jobs[os.getpid()] = SimpleQueue()
            threading.Thread(target=_serve, args=(jobs,), name="tritune-launch", daemon=True).start()
    answer: SimpleQueue[int | BaseException] = SimpleQueue()
    jobs.put((call, answer))
    outcome = answer.get()
    if isinstance(outcome, BaseException):
        raise outcome
    return outcome


def _serve(jobs: SimpleQueue[_Job]) -> None:
    while True:
        call, answer = jobs.get()
        try:
            answer.put(call())
        except OSError as error:
            answer.put(error)
