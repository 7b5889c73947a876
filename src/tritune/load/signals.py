"""Ctrl-C and a polite kill end a load cleanly instead of tearing it down."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from types import FrameType

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ending_signals(loop: asyncio.AbstractEventLoop, on_signal: Callable[[int], None]) -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP call `on_signal` in the loop; the handlers from before come back afterwards.

    None is lost: one that comes when the loop has made its last round calls `on_signal` at the end, or is
    raised again where the block ends with an exception. That is why these are no handlers of the loop, which
    would forget it. Does nothing outside the main thread, where Python allows no handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    came: deque[int] = deque()

    def deliver() -> None:
        while came:
            on_signal(came.popleft())

    def note(number: int, _frame: FrameType | None) -> None:
        came.append(number)
        with suppress(RuntimeError):  # the loop is closed
            loop.call_soon_threadsafe(deliver)

    before = {number: signal.getsignal(number) for number in _ENDING}
    try:
        for number in _ENDING:
            signal.signal(number, note)
        yield
    except BaseException:
        _put_back(before)
        while came:
            signal.raise_signal(came.popleft())
        raise
    _put_back(before)
    deliver()


def _put_back(before: dict[signal.Signals, Callable[[int, FrameType | None], object] | int | None]) -> None:
    for number, handler in before.items():
        # None: set by something that is not Python, which cannot be put back from here.
        signal.signal(number, signal.SIG_DFL if handler is None else handler)
