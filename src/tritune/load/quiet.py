"""Keeps the interpreter's own pauses out of the timed path."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# How long another thread (the one that draws the progress) may hold the interpreter while a reply waits.
_SWITCH_S = 0.0002


@contextmanager
def quiet() -> Iterator[None]:
    """No garbage collection, and quick hand-over between threads; both as before afterwards."""
    collecting, switch_s = gc.isenabled(), sys.getswitchinterval()
    gc.freeze()
    gc.disable()
    sys.setswitchinterval(_SWITCH_S)
    try:
        yield
    finally:
        sys.setswitchinterval(switch_s)
        gc.unfreeze()
        if collecting:
            gc.enable()
