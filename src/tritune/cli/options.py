"""Options that several verbs share, said once."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from cyclopts import Parameter

from tritune.errors import UsageError
from tritune.model.workload import Arrivals, Workload
from tritune.units import NS_PER_S, parse_duration

DEFAULT_FOR = "15s"
LONGEST_NS = 3600 * NS_PER_S
MAX_RATE_PER_S = 1_000_000.0


@Parameter(name="*")
@dataclass(frozen=True)
class Where:
    """How to reach the server beside its HTTP endpoint.

    Parameters
    ----------
    grpc
        gRPC endpoint HOST:PORT. Default: the HTTP port + 1, if it answers.
    metrics
        Metrics URL. Default: the HTTP port + 2, if it answers.
    """

    grpc: str | None = None
    metrics: str | None = None


@Parameter(name="*")
@dataclass(frozen=True)
class Traffic:
    """What is sent.

    Parameters
    ----------
    rate
        Open loop: requests per second, sent at planned instants whatever the answers do.
    concurrency
        Closed loop: requests in flight.
    n
        How many requests.
    duration
        How long, e.g. 30s.
    arrivals
        poisson or constant.
    seed
        The same seed sends the same plan.
    items
        Batch dimension of every request; default: as many rows as --data has, else 1.
    data
        A Triton JSON inference request to send; without it tensors are zeros.
    timeout
        After this long a request counts as failed.
    model_version
        A version of the model; default: the one that is served.
    """

    rate: float | None = None
    concurrency: Annotated[int | None, Parameter(name=["--concurrency", "-c"])] = None
    n: Annotated[int | None, Parameter(name=["-n", "--count"])] = None
    duration: Annotated[str | None, Parameter(name="--for")] = None
    arrivals: Arrivals = "poisson"
    seed: int = 1
    items: int = 0
    data: Path | None = None
    timeout: str = "10s"
    model_version: str = ""


def workload(model: str, traffic: Traffic) -> Workload:
    """The workload that the options describe. Raises UsageError where they contradict each other."""
    if (traffic.rate is None) == (traffic.concurrency is None):
        raise UsageError(
            "a load needs either --rate or --concurrency",
            slug="rate-or-concurrency",
            hint="--rate 200 sends 200 requests/s at planned instants; --concurrency 50 keeps 50 in flight.",
        )
    for flag, value in (("--rate", traffic.rate), ("--concurrency", traffic.concurrency), ("-n", traffic.n)):
        if value is not None and not 0 < value <= MAX_RATE_PER_S:
            raise UsageError(
                f"{flag} {value:g} is out of range", slug="out-of-range", hint="Use a number above 0."
            )
    if traffic.items < 0:
        raise UsageError(f"--items {traffic.items} is out of range", slug="out-of-range", hint="At least 1.")
    length = parse_duration(traffic.duration) if traffic.duration else None
    if length is None and traffic.n is None:
        length = parse_duration(DEFAULT_FOR)
    if length is not None and not 0 < length <= LONGEST_NS:
        raise UsageError(
            f"--for {traffic.duration} is out of range", slug="out-of-range", hint="More than 0, at most 1h."
        )
    timeout = parse_duration(traffic.timeout)
    if not 0 < timeout <= LONGEST_NS:
        raise UsageError(
            f"--timeout {traffic.timeout} is out of range",
            slug="out-of-range",
            hint="More than 0, at most 1h.",
        )
    return Workload(
        model=model,
        version=traffic.model_version,
        rate_per_s=traffic.rate,
        concurrency=traffic.concurrency,
        count=traffic.n,
        duration_ns=length,
        arrivals=traffic.arrivals,
        seed=traffic.seed,
        items=traffic.items,
        data=str(traffic.data) if traffic.data else None,
        timeout_ns=timeout,
    )


def read_data(path: Path | None) -> bytes | None:
    """The request file; a sentence where it cannot be read."""
    if path is None:
        return None
    try:
        return path.read_bytes()
    except OSError as error:
        raise UsageError(
            f"the request file {path} cannot be read: {error.strerror}", slug="data-unreadable"
        ) from error
