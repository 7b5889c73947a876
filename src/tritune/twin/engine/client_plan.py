"""A client's policy as the driver takes it: chance drawn beforehand, room for every attempt there may be."""

from __future__ import annotations

import math

import numpy as np

from tritune.errors import TrituneError, UsageError
from tritune.model.client import ClientPolicy
from tritune.model.requests import Int64
from tritune.twin.engine.clients import SLOTS, TOKEN, TOKENS, Clients
from tritune.twin.engine.timing import Timing
from tritune.units import NS_PER_S

# Of the generators that a seed stands for, the first three make the noise of executions (timing.draw).
BACKOFF_PART = 3
# A year; beyond lies a policy that nobody means, such as 2**60 backoffs without a cap.
LONGEST_NS = 365 * 86_400 * NS_PER_S


def acts(policy: ClientPolicy | None) -> bool:
    """Whether the policy ever does anything: it gives up, tries again, or sends a second copy."""
    return policy is not None and bool(policy.timeout_ns or policy.retries or policy.hedge_ns)


def client_plan(
    policy: ClientPolicy, planned_ns: Int64, timing: Timing, *, seed: int, pause_ns: int = 0
) -> Clients:
    """The plan for so many requests; `pause_ns` is that of a closed loop.

    The same seed gives request q the same chance in its k-th retry under every policy, setting and number of
    requests. Raises UsageError (bad-client), TrituneError (twin-unsupported) for hedging.
    """
    _check(policy)
    n = len(planned_ns)
    rows = n * (1 + policy.retries)
    if policy.retry_budget is not None:
        # No more retries than tokens, and each request brings those of one success at most.
        rows = min(rows, n + math.ceil(policy.budget_burst + policy.retry_budget * n))
    s = np.zeros(SLOTS, np.int64)
    s[TOKENS] = round(policy.budget_burst * TOKEN)
    return Clients(
        planned_ns=planned_ns,
        backoff_ns=_backoff_ns(policy, n, seed),
        timeout_ns=policy.timeout_ns,
        retries=policy.retries,
        cancels=policy.cancels,
        tokens_each=-1 if policy.retry_budget is None else round(policy.retry_budget * TOKEN),
        tokens_most=round(policy.budget_burst * TOKEN),
        send_ns=timing.send_ns,
        reply_ns=timing.reply_ns,
        pause_ns=pause_ns,
        attempts=np.zeros(n, np.int64),
        request=np.empty(rows, np.int64),
        attempt=np.empty(rows, np.int64),
        sent_ns=np.empty(rows, np.int64),
        status=np.empty(rows, np.int64),
        # An attempt is answered or refused once; a request waits to be sent once at a time.
        calendar=np.empty((rows + n, 4), np.int64),
        s=s,
    )


def _backoff_ns(policy: ClientPolicy, n: int, seed: int) -> Int64:
    """Per request and number of the retry: how long after the failure it is sent."""
    waits = np.zeros((n, policy.retries), np.int64)
    for k, longest in enumerate(_longest_ns(policy)):
        chance = np.random.Generator(np.random.PCG64([seed, BACKOFF_PART, k])).random(n)
        waits[:, k] = np.rint(longest * (1 - policy.jitter * chance))
    return waits


def _longest_ns(policy: ClientPolicy) -> list[float]:
    """By number of the retry: the backoff before jitter."""
    cap = policy.backoff_cap_ns or math.inf
    longest, wait = [], float(policy.backoff_ns)
    for _ in range(policy.retries):
        longest.append(min(cap, wait))
        wait *= policy.backoff_factor
    return longest


def _check(policy: ClientPolicy) -> None:
    if policy.hedge_ns:
        raise TrituneError(
            "the twin cannot play clients that send a second copy of a request (hedge_ns)",
            slug="twin-unsupported",
            hint="Leave it out: the load generator does not send such copies either.",
        )
    least = (
        policy.timeout_ns,
        policy.retries,
        policy.backoff_ns,
        policy.backoff_factor,
        policy.backoff_cap_ns,
        policy.budget_burst,
        policy.retry_budget or 0.0,
    )
    if not all(math.isfinite(value) and value >= 0 for value in least) or not 0 <= policy.jitter <= 1:
        raise UsageError(
            "a client's timeout, retries, backoff and budget must not be negative, and its jitter is 0 to 1",
            slug="bad-client",
        )
    longest = (1 + policy.retries) * policy.timeout_ns + sum(_longest_ns(policy))
    if longest > LONGEST_NS:
        raise UsageError(
            f"a client would try one request for {longest / 1e9:.3g} s",
            slug="bad-client",
            hint="Set a cap for the backoff, or a smaller factor or timeout.",
        )
