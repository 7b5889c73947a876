"""The record of a run while it runs: flat int64 arrays, no Python object kept per request."""

from __future__ import annotations

from array import array
from collections.abc import Sequence

import numpy as np

from tritune.model.load import Shot
from tritune.model.requests import Int64, RequestLog

# Marks a row whose request was never due; such rows are not in the log.
UNUSED = -1
NO_TIME = -1


class Columns:
    """One row per request, in the order of their planned instants; times are ns from the run's start.

    `array` rather than numpy: setting one element costs a third, and this is done several times per request.
    """

    def __init__(self, planned_ns: array[int], size: int) -> None:
        self.planned = planned_ns
        self.sent = array("q")
        self.first_byte = array("q")
        self.done = array("q")
        self.kind = array("q")
        self.status = array("q")
        self.new_connection = array("q")
        self.size = 0
        self.grow(size)

    def grow(self, more: int) -> None:
        """Room for `more` rows; `planned` grows only where it is recorded, not given."""
        for column, empty in (
            (self.sent, NO_TIME),
            (self.first_byte, NO_TIME),
            (self.done, NO_TIME),
            (self.kind, UNUSED),
            (self.status, 0),
            (self.new_connection, 0),
        ):
            column.extend(array("q", [empty]) * more)
        self.size += more
        if len(self.planned) < self.size:
            self.planned.extend(array("q", [0]) * (self.size - len(self.planned)))

    def log(self, shots: Sequence[Shot]) -> RequestLog:
        """The rows that were due, as a RequestLog; request i carried shot i modulo their number."""
        used = np.flatnonzero(_view(self.kind) != UNUSED)
        which = used % len(shots)
        zeros = np.zeros(len(used), np.int64)
        return RequestLog(
            request=used.astype(np.int64),
            attempt=zeros,
            planned_ns=_view(self.planned)[used],
            sent_ns=_view(self.sent)[used],
            first_byte_ns=_view(self.first_byte)[used],
            done_ns=_view(self.done)[used],
            kind=_view(self.kind)[used],
            status=_view(self.status)[used],
            items=np.array([shot.items for shot in shots], np.int64)[which],
            model=zeros.copy(),
            shape=np.array([shot.shape for shot in shots], np.int64)[which],
            worker=zeros.copy(),
            new_connection=_view(self.new_connection)[used],
        )


def _view(column: array[int]) -> Int64:
    return np.frombuffer(column, np.int64)
