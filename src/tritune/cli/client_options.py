"""What the clients of a simulation do when there is no answer, as options."""

from __future__ import annotations

from dataclasses import dataclass

from cyclopts import Group, Parameter

from tritune.errors import UsageError
from tritune.model.client import ClientPolicy
from tritune.units import parse_duration


@Parameter(name="*", group=Group("Clients"))
@dataclass(frozen=True)
class Clients:
    """What clients do; without these they wait for ever.

    Parameters
    ----------
    client_timeout
        How long a client waits for an answer, e.g. 50ms; then it gives up, and retries if it may.
    retries
        How often a request is tried again at most.
    backoff
        Wait before a retry, e.g. 10ms; doubles with each one, and a random part of it is taken (full jitter).
    retry_budget
        Retries per success, e.g. 0.1: on average one in ten answered requests allows a retry.
    """

    client_timeout: str | None = None
    retries: int = 0
    backoff: str | None = None
    retry_budget: float | None = None


def policy(clients: Clients) -> ClientPolicy | None:
    """The policy; None where no option was given. Raises UsageError (out-of-range, bad-duration)."""
    if clients == Clients():
        return None
    if not 0 <= clients.retries <= 20:
        raise UsageError(f"--retries {clients.retries} is out of range", slug="out-of-range", hint="0 to 20.")
    budget = clients.retry_budget
    if budget is not None and not 0 <= budget <= 100:
        raise UsageError(
            f"--retry-budget {budget:g} is out of range", slug="out-of-range", hint="0 or more, e.g. 0.1."
        )
    timeout = parse_duration(clients.client_timeout) if clients.client_timeout else 0
    if clients.client_timeout and timeout <= 0:
        raise UsageError("--client-timeout is zero", slug="out-of-range", hint="For example 50ms.")
    return ClientPolicy(
        timeout_ns=timeout,
        retries=clients.retries,
        backoff_ns=parse_duration(clients.backoff) if clients.backoff else 0,
        retry_budget=budget,
    )
