"""The same work on all cores, with a progress bar on a terminal and a line now and then elsewhere."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

T = TypeVar("T")
R = TypeVar("R")

PLAIN_EVERY_S = 5.0
# Shorter than this nobody waits, and nothing needs to be counted.
FEW = 20


class ParallelWork:
    """Threads, because a simulation releases the interpreter while it runs.

    They are daemons: after Ctrl-C nothing waits for the pieces that are still being worked on.
    """

    def __init__(self, threads: int = 0) -> None:
        self._threads = threads or usable_cores()

    def step(self, text: str) -> None:
        """A line of conversation."""
        sys.stderr.write(text + "\n")

    def each(self, function: Callable[[T], R], items: Sequence[T], what: str = "") -> list[R]:
        """`function` of each item, in their order. The first failure is raised, and the rest left undone."""
        if not items:
            return []
        if what:
            self.step(f"simulating {len(items)} {what if len(items) > 1 else what.removesuffix('s')}")
        # The first one alone: it compiles the rules where that was never done.
        found: dict[int, R] = {0: function(items[0])}
        tell = _bar(len(items)) if what and len(items) >= FEW else nullcontext(lambda _: None)
        with tell as told:
            for position, value in self._rest(function, items):
                found[position] = value
                told(len(found))
        return [found[position] for position in range(len(items))]

    def _rest(self, function: Callable[[T], R], items: Sequence[T]) -> Any:
        """(position, result) of all but the first, as they get ready."""
        todo: SimpleQueue[int] = SimpleQueue()
        done: SimpleQueue[tuple[int, R | None, BaseException | None]] = SimpleQueue()
        stop = threading.Event()
        for position in range(1, len(items)):
            todo.put(position)

        def work() -> None:
            while not stop.is_set():
                try:
                    position = todo.get_nowait()
                except Empty:
                    return
                try:
                    done.put((position, function(items[position]), None))
                except BaseException as error:  # noqa: BLE001 - it is raised where it can be seen
                    done.put((position, None, error))

        for _ in range(min(self._threads, len(items) - 1)):
            threading.Thread(target=work, daemon=True).start()
        try:
            for _ in range(1, len(items)):
                position, value, error = done.get()
                if error is not None:
                    raise error
                yield position, value
        finally:
            stop.set()


def usable_cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _bar(total: int) -> AbstractContextManager[Callable[[int], None]]:
    return _Bar(total) if sys.stderr.isatty() else _Lines(total)


class _Bar:
    def __init__(self, total: int) -> None:
        columns = (TextColumn("  "), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        self._progress = Progress(*columns, console=Console(stderr=True), transient=True)
        self._task = self._progress.add_task("", total=total)

    def __enter__(self) -> Callable[[int], None]:
        self._progress.start()
        return lambda done: self._progress.update(self._task, completed=done)

    def __exit__(self, *_: object) -> None:
        self._progress.stop()


class _Lines:
    def __init__(self, total: int) -> None:
        self._total = total
        self._start = self._last = time.monotonic()

    def __enter__(self) -> Callable[[int], None]:
        return self._tell

    def __exit__(self, *_: object) -> None:
        pass

    def _tell(self, done: int) -> None:
        now = time.monotonic()
        if now - self._last >= PLAIN_EVERY_S and done < self._total:
            self._last = now
            left = (now - self._start) / done * (self._total - done)
            sys.stderr.write(f"  {done} of {self._total}, {left:.0f} s left\n")
