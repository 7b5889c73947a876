"""A timeline: requests at planned instants, and what a scheduler made of them: who was executed with whom."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

import msgspec

NEVER = -1
# Why a request was refused (`ExecutedRequest.refusal`).
QUEUE_FULL = "queue-full"
TIMED_OUT = "timed-out"


class PlannedRequest(msgspec.Struct, frozen=True):
    """One request, to be sent `planned_ns` after the timeline's start; `items` is its batch dimension.

    Requests of unequal `shape` have inputs of unequal size. `priority` 0 is the model's default level, 1 the
    highest. `timeout_ns` is the request's own queue timeout, 0 = none; Triton takes whole microseconds. An
    execution takes as long as the longest `service_ns` of its requests.
    """

    planned_ns: int
    service_ns: int
    items: int = 1
    shape: int = 1
    priority: int = 0
    timeout_ns: int = 0


class Timeline(msgspec.Struct, frozen=True):
    """Requests in the order of their planned instants."""

    requests: tuple[PlannedRequest, ...]

    def __post_init__(self) -> None:
        planned = [request.planned_ns for request in self.requests]
        if planned != sorted(planned):
            raise ValueError("the requests of a timeline are in the order of their planned instants")


class ExecutedRequest(msgspec.Struct, frozen=True):
    """When a request came into the scheduler's queue, and the execution that it was part of, ns.

    All instants are on one clock. `released_ns` is when the server had done with the request: the instance
    that ran its batch is free once the last of them is released. `batch` numbers the executions in the order
    of their start; a request that was refused or dropped has the batch NEVER and no instants of an execution.
    `refusal` then says why. Which instance ran it is not known: a trace does not say.
    """

    queue_start_ns: int
    compute_start_ns: int = NEVER
    compute_end_ns: int = NEVER
    released_ns: int = NEVER
    batch: int = NEVER
    refusal: str = ""


class Batch(msgspec.Struct, frozen=True):
    """One execution: the requests in it, by their place in the timeline, ascending.

    `end_ns` is the end of the backend's work, `free_ns` when the last request was released.
    """

    requests: tuple[int, ...]
    start_ns: int
    end_ns: int
    free_ns: int


class ExecutedTimeline(msgspec.Struct, frozen=True):
    """What became of each request of a timeline, in the timeline's order."""

    requests: tuple[ExecutedRequest, ...]

    @classmethod
    def of(cls, times: Iterable[tuple[int, int, int, int]], refusals: Sequence[str] = ()) -> Self:
        """From (queue start, compute start, compute end, release) of each, NEVER for what did not happen.

        `refusals`: why each was refused, empty where it was not; none given: nobody knows of any.

        Requests with the same compute start were one execution: all of them get the one set of timestamps
        that the backend took (semantics 3.5).
        """
        rows = tuple(times)
        starts = {start: n for n, start in enumerate(sorted({row[1] for row in rows if row[1] != NEVER}))}
        why = refusals or ("",) * len(rows)
        return cls(
            tuple(
                ExecutedRequest(*row, starts.get(row[1], NEVER), refusal)
                for row, refusal in zip(rows, why, strict=True)
            )
        )

    @property
    def batches(self) -> tuple[Batch, ...]:
        """The executions in the order of their start."""
        members: dict[int, list[int]] = {}
        for index, request in enumerate(self.requests):
            if request.batch != NEVER:
                members.setdefault(request.batch, []).append(index)
        return tuple(self._batch(indices) for _, indices in sorted(members.items()))

    def sizes(self, timeline: Timeline) -> tuple[int, ...]:
        """Items in each execution, in the order of their start."""
        return tuple(sum(timeline.requests[i].items for i in batch.requests) for batch in self.batches)

    def _batch(self, indices: Sequence[int]) -> Batch:
        members = [self.requests[i] for i in indices]
        return Batch(
            tuple(indices),
            members[0].compute_start_ns,
            max(request.compute_end_ns for request in members),
            max(request.released_ns for request in members),
        )
