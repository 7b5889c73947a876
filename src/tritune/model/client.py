"""How a client behaves: how long it waits for an answer, and what it does when there is none."""

from __future__ import annotations

import msgspec


class ClientPolicy(msgspec.Struct, frozen=True, kw_only=True):
    """Timeout, retries, backoff, budget; 0 = none. The default waits for ever and never retries.

    An attempt without an answer after `timeout_ns` is given up; `cancels`: the server is told so. A request
    is tried 1 + `retries` times at most: after an attempt that timed out or was refused, the k-th retry
    (from 0) is sent after d = min(backoff_cap_ns, backoff_ns x backoff_factor^k), less a uniform share of up
    to `jitter` of it (1 = full jitter: uniform between 0 and d). `retry_budget`: tokens that each success
    adds, up to `budget_burst`, which is what a client starts with; a retry takes one, and without one it is
    not made (None: no budget). One budget for the whole traffic. `hedge_ns`: a second copy is sent when
    there is no answer after that time.
    """

    timeout_ns: int = 0
    retries: int = 0
    backoff_ns: int = 0
    backoff_factor: float = 2.0
    backoff_cap_ns: int = 0
    jitter: float = 1.0
    retry_budget: float | None = None
    budget_burst: float = 10.0
    cancels: bool = False
    hedge_ns: int = 0
