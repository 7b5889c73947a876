"""Every attempt that was made, as columns: the one record that all figures of a run are folded from."""

from __future__ import annotations

from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Self

import numpy as np
import numpy.typing as npt

Int64 = npt.NDArray[np.int64]
Floats = npt.NDArray[np.float64]
Bools = npt.NDArray[np.bool_]


class Kind(IntEnum):
    """How an attempt ended. Anything but OK is an error and never enters a latency figure as a number."""

    OK = 0
    TIMEOUT = 1
    CONNECTION = 2
    REDIRECT = 3
    AUTH = 4
    CLIENT_ERROR = 5
    SERVER_ERROR = 6
    BAD_REPLY = 7


@dataclass(frozen=True)
class RequestLog:
    """One row per attempt, all columns int64 and equally long; times are ns from the run's start, -1 = none.

    `request` numbers the planned requests from 0, `attempt` the tries of one request from 0; `kind` holds
    `Kind` values, `status` the HTTP (or gRPC) code, `new_connection` 1 where a connection had to be opened.
    """

    request: Int64
    attempt: Int64
    planned_ns: Int64
    sent_ns: Int64
    first_byte_ns: Int64
    done_ns: Int64
    kind: Int64
    status: Int64
    items: Int64
    model: Int64
    shape: Int64
    worker: Int64
    new_connection: Int64

    @classmethod
    def empty(cls) -> Self:
        """A log without rows."""
        return cls(**{f.name: np.empty(0, np.int64) for f in fields(cls)})

    @classmethod
    def columns(cls) -> tuple[str, ...]:
        """The column names, in file order."""
        return tuple(f.name for f in fields(cls))

    def __len__(self) -> int:
        return len(self.request)

    def last_attempts(self) -> RequestLog:
        """One row per request: its last attempt, ordered by request."""
        order = np.lexsort((self.attempt, self.request))
        request = self.request[order]
        last = order[np.append(request[1:] != request[:-1], True)] if len(order) else order
        return RequestLog(**{name: getattr(self, name)[last] for name in self.columns()})

    def latency_ns(self) -> Floats:
        """Per request, in planned order: done of the last attempt - planned, ns; infinite where it failed."""
        last = self.last_attempts()
        latency = (last.done_ns - last.planned_ns).astype(np.float64)
        latency[last.kind != Kind.OK] = np.inf
        return latency[np.argsort(last.planned_ns, kind="stable")]

    def lateness_ns(self) -> Int64:
        """Per first attempt that was sent: sent - planned, the generator's own error."""
        first = (self.attempt == 0) & (self.sent_ns >= 0)
        lateness: Int64 = self.sent_ns[first] - self.planned_ns[first]
        return lateness

    def errors_by_kind(self) -> dict[str, int]:
        """How many requests ended in each kind of error, by the kind's name in lower case; zeros left out."""
        kinds = self.last_attempts().kind
        return {k.name.lower(): int((kinds == k).sum()) for k in Kind if k and (kinds == k).any()}
