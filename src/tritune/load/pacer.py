"""Wakes the event loop at absolute instants, without the millisecond grain of its own timers."""

from __future__ import annotations

import asyncio
import ctypes
import os
from collections.abc import Callable
from typing import Any

from tritune.errors import TrituneError
from tritune.units import NS_PER_S

_CLOCK_MONOTONIC = 1
_TFD_TIMER_ABSTIME = 1


class _Timespec(ctypes.Structure):
    _fields_ = (("tv_sec", ctypes.c_long), ("tv_nsec", ctypes.c_long))


class _Itimerspec(ctypes.Structure):
    _fields_ = (("it_interval", _Timespec), ("it_value", _Timespec))


class Pacer:
    """Calls `due` in the loop at the instant set last, CLOCK_MONOTONIC in ns.

    A Linux timerfd read by the loop itself. Measured against a thread that sleeps and then calls
    call_soon_threadsafe: half the lateness and half the CPU, as nothing is handed between threads and a
    timerfd knows no timer slack.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop, due: Callable[[], None]) -> None:
        self._loop = loop
        self._due = due
        self._libc: Any = ctypes.CDLL(None, use_errno=True)
        self._fd = self._create()
        self._set_time: Any = self._libc.timerfd_settime
        self._spec = _Itimerspec()
        self._spec_pointer = ctypes.byref(self._spec)
        loop.add_reader(self._fd, self._expired)

    def _create(self) -> int:
        try:
            fd = int(self._libc.timerfd_create(_CLOCK_MONOTONIC, os.O_NONBLOCK | os.O_CLOEXEC))
        except AttributeError:
            fd = -1
        if fd < 0:
            reason = os.strerror(ctypes.get_errno()) if ctypes.get_errno() else "it needs Linux"
            raise TrituneError(
                f"this system gives no timer to pace requests with (timerfd_create: {reason})",
                slug="no-timer",
                hint="Run the load from a Linux machine, and check the limit of open files (ulimit -n).",
            )
        return fd

    def wake_at(self, instant_ns: int) -> None:
        """Call `due` at this instant; at once where it has passed."""
        seconds, rest = divmod(max(instant_ns, 1), NS_PER_S)  # 0 would disarm the timer
        self._spec.it_value.tv_sec, self._spec.it_value.tv_nsec = seconds, rest
        self._set_time(self._fd, _TFD_TIMER_ABSTIME, self._spec_pointer, None)

    def _expired(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return  # set anew since the loop saw it: the new instant will come
        self._due()

    def close(self) -> None:
        """Never call `due` again."""
        self._loop.remove_reader(self._fd)
        os.close(self._fd)
