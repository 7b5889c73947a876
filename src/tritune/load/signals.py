"""Ctrl-C and a polite kill end a load cleanly instead of tearing it down."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

_ENDING = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def ending_signals(loop: asyncio.AbstractEventLoop, on_signal: Callable[[int], None]) -> Iterator[None]:
    """SIGINT, SIGTERM and SIGHUP call `on_signal` in the loop; the handlers from before come back afterwards.

    Does nothing outside the main thread, where Python allows no handlers.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.getsignal(number) for number in _ENDING}
    for number in _ENDING:
        loop.add_signal_handler(number, on_signal, int(number))
    try:
        yield
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            # None: set by something that is not Python, which cannot be put back from here.
            signal.signal(number, signal.SIG_DFL if handler is None else handler)
