"""How long things take on one machine, and the chance in it, drawn before anything is simulated."""

from __future__ import annotations

import math
from dataclasses import dataclass, field

import msgspec
import numpy as np

from tritune.errors import UsageError
from tritune.model.requests import Bools, Floats, Int64


class Timing(msgspec.Struct, frozen=True):
    """Durations in ns, means; `service_ns[b]` is S(b), entry 0 unused, the last entry the largest batch.

    contention[b]: a batch of b items takes 1 + contention[b] x (others active at its start) as long; one
    entry stands for all sizes, none for no contention. cv: standard deviation / mean of the execution
    noise (lognormal). stall_p, stall_ns: a share of executions takes that much longer. send_ns: from the
    planned instant to the scheduler's queue; reply_ns: from the end of the execution to the client;
    turnaround_ns: from there to the instance's next dequeue. wake_ns: the batcher thread's wake-up.
    lost_wakeup_p: the chance per completion that lazy dispatch misses it (24.03 and later).
    """

    service_ns: tuple[float, ...]
    contention: tuple[float, ...] = ()
    cv: float = 0.0
    stall_p: float = 0.0
    stall_ns: int = 0
    send_ns: int = 0
    reply_ns: int = 0
    turnaround_ns: int = 0
    wake_ns: int = 0
    lost_wakeup_p: float = 0.0

    def table(self, largest: int) -> tuple[Floats, Floats]:
        """S(b) and contention for b = 0 .. largest. Raises UsageError where a size has no service time."""
        service = np.array(self.service_ns, np.float64)
        if len(service) <= largest:
            raise UsageError(
                f"there are service times up to batch size {len(service) - 1} only,"
                f" and batches of {largest} may form",
                slug="service-times-missing",
                hint="Measure larger batches, or lower max_batch_size.",
            )
        if not (np.isfinite(service).all() and (service >= 0).all()):
            raise UsageError("a service time is negative or not a number", slug="service-times-missing")
        contention = np.zeros(largest + 1)
        given = self.contention if len(self.contention) != 1 else self.contention * (largest + 1)
        contention[: len(given)] = given[: largest + 1]
        if given:
            contention[len(given) :] = given[-1]
        return service[: largest + 1].copy(), contention


@dataclass(frozen=True)
class Draws:
    """Chance by number: noise factor and stall of the k-th batch, a uniform number of the k-th completion.

    Two settings simulated with the same draws differ by the settings alone (common random numbers).
    """

    noise: Floats = field(default_factory=lambda: np.empty(0))
    stalls_ns: Int64 = field(default_factory=lambda: np.empty(0, np.int64))
    wakeups: Floats = field(default_factory=lambda: np.empty(0))


def draw(timing: Timing, batches: int, seed: int) -> Draws:
    """Draws for so many batches (as many as there are requests always suffice); same seed, same draws.

    Fewer batches get the first part of the draws of more.
    """
    noise, stalls, wakeups = (np.random.Generator(np.random.PCG64([seed, part])) for part in range(3))
    factors = np.ones(batches)
    if timing.cv > 0:
        # Lognormal of mean 1: sigma^2 = ln(1 + cv^2), mu = -sigma^2 / 2.
        sigma = math.sqrt(math.log1p(timing.cv**2))
        factors = np.exp(sigma * noise.standard_normal(batches) - sigma**2 / 2)
    late = np.zeros(batches, np.int64)
    if timing.stall_p > 0:
        late[stalls.random(batches) < timing.stall_p] = timing.stall_ns
    lost = wakeups.random(batches) if timing.lost_wakeup_p > 0 else np.ones(batches)
    return Draws(factors, late, lost)


def lost_wakeups(timing: Timing, draws: Draws) -> Bools:
    """By number of the completion: whether lazy dispatch misses it."""
    lost: Bools = draws.wakeups < timing.lost_wakeup_p
    return lost
