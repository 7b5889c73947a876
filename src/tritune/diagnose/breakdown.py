"""Where the mean request spends its time, in parts that add up."""

from __future__ import annotations

from tritune.diagnose.result import Breakdown, Part
from tritune.model.server import ServerWindow

STAGES = ("queue", "compute_input", "compute_infer", "compute_output")


def breakdown(window: ServerWindow, client_mean_ns: float | None = None) -> Breakdown | None:
    """Means over the successful requests, ns, from statistics or metrics; None where none succeeded.

    Every stage is divided by the number of requests (not of executions: Triton charges each request of a
    batch the whole execution, semantics 3.1), so the parts add up to the mean request. `rest` is what the
    request spent outside the stages: response, callbacks, ordering; in an ensemble all of its steps; it
    may be a rounding error below zero. The client part is given only where the client saw more than the
    server, else the two did not measure the same requests.
    """
    counters = window.counters
    requests = counters.success.count
    if requests <= 0:
        return None
    stages = [(name, getattr(counters, name).ns / requests) for name in STAGES]
    request = counters.success.ns / requests
    parts = [Part(name, ns) for name, ns in stages]
    parts.append(Part("rest", request - sum(ns for _, ns in stages)))
    if client_mean_ns is not None and client_mean_ns >= request:
        parts.append(Part("client", client_mean_ns - request))
    return Breakdown(requests, tuple(parts))


def mean_of(parts: Breakdown, name: str) -> float:
    """The part's mean, ns; 0 where the breakdown has no such part."""
    return sum(part.ns for part in parts.parts if part.name == name)


def request_mean(parts: Breakdown) -> float:
    """The mean request as the server saw it: all parts but the client's, ns."""
    return parts.total_ns - mean_of(parts, "client")
