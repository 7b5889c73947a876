"""The twin against results that were found without it: closed forms, laws, and an independent recursion."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from twin_play import MS, play

from tritune.twin.engine.setting import Policy, Setting
from tritune.twin.engine.simulate import ClosedLoop, Requests, Simulated, simulate
from tritune.twin.engine.timing import Draws, Timing

N = 400_000
LAZY = (Policy(max_queue_size=10**9),)


def exponential(seed: int, count: int = N) -> np.ndarray:
    """Independent, of mean 1. Seeds 2k and 2k + 1 are antithetic (u and 1 - u): where one path has a burst
    the other has a lull, so the mean of the two strays far less than that of two independent ones."""
    uniform = np.random.default_rng(seed // 2).random(count)
    return -np.log(1 - uniform) if seed % 2 else -np.log(np.maximum(uniform, 2.0**-60))


def poisson(rate_per_s: float, count: int = N, seed: int = 1) -> np.ndarray:
    return np.cumsum(exponential(seed, count) * (1e9 / rate_per_s)).astype(np.int64)


def settled(simulated: Simulated, values: np.ndarray) -> np.ndarray:
    """Without the first tenth, in which the queue fills."""
    return values[len(simulated.planned_ns) // 10 :]


def mean_wait_ns(
    setting: Setting, timing: Timing, rate_per_s: float, runs: int, *, noisy: bool = False
) -> float:
    """Queue time over several runs: near saturation one run says little about the mean."""
    means = []
    for seed in range(runs):
        draws = Draws(noise=exponential(1000 + seed)) if noisy else None
        done = simulate(setting, Requests(poisson(rate_per_s, seed=seed)), timing, draws=draws)
        means.append(settled(done, done.queue_ns()).mean())
    return float(np.mean(means))


# Inoue 2021 (arXiv 1912.06322): one server that always takes all, S(b) = alpha b + tau0, Poisson.
ALPHA, TAU = 0.1438 * MS, 1.8874 * MS


def inoue_bound_ns(rate: float) -> float:
    a, t, la = ALPHA, TAU, rate / 1e9
    phi0 = (a + t) / (2 * (1 - la * a)) * (1 + 2 * la * t + (1 - la * t) / (1 + la * a))
    phi1 = 1.5 * t / (1 - la * a) + (a / 2) * (la * a + 2) / (1 - la**2 * a**2)
    return min(phi0, phi1)


def inoue_mean_ns(rate: float) -> float:
    """Exact: E[T] from the moments of the chain b' = max(1, Poisson(lambda S(b)))."""
    from scipy.stats import poisson as law

    largest = 600
    sizes = np.arange(1, largest + 1)
    rows = law.pmf(np.arange(largest + 1)[None, :], (rate / 1e9 * (ALPHA * sizes + TAU))[:, None])
    chain = rows[:, 1:]
    chain[:, 0] += rows[:, 0]
    chain /= chain.sum(axis=1, keepdims=True)
    # share = share @ chain and sum(share) = 1; one of the balance equations says nothing new.
    equations = chain.T - np.eye(largest)
    equations[0] = 1
    share = np.linalg.solve(equations, np.eye(largest)[0])
    la, mean, square = rate / 1e9, share @ sizes, share @ sizes**2
    return float(ALPHA + TAU + (1 + 2 * la * ALPHA) * (square - mean) / (2 * la * mean))


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize(("load", "runs"), [(0.3, 2), (0.5, 2), (0.8, 4), (0.9, 12)])
def test_inoue(load: float, runs: int, eager: bool) -> None:
    largest = 4096
    rate = load / ALPHA * 1e9
    setting = Setting(max_batch_size=largest, dynamic=True, preferred=(largest,), eager=eager)
    timing = Timing(tuple(ALPHA * b + TAU for b in range(largest + 1)))
    means = []
    for seed in range(runs):
        done = simulate(setting, Requests(poisson(rate, seed=seed)), timing)
        means.append(settled(done, done.latency_ns()).mean())
    mean = float(np.mean(means))
    assert mean == pytest.approx(inoue_mean_ns(rate), rel=0.01)
    assert mean == pytest.approx(inoue_bound_ns(rate), rel=0.015)


@pytest.mark.parametrize(("load", "runs"), [(0.3, 2), (0.6, 4), (0.8, 14)])
@pytest.mark.parametrize("dynamic", [True, False])
def test_m_d_1(load: float, runs: int, dynamic: bool) -> None:
    service = 5 * MS
    setting = Setting(max_batch_size=1, dynamic=dynamic, preferred=(1,))
    wait = mean_wait_ns(setting, Timing((0.0, float(service))), load / service * 1e9, runs)
    assert wait == pytest.approx(load * service / (2 * (1 - load)), rel=0.01)


@pytest.mark.parametrize(("servers", "load", "runs"), [(1, 0.5, 4), (2, 0.7, 10), (4, 0.8, 28)])
def test_m_m_c(servers: int, load: float, runs: int) -> None:
    service = 5 * MS
    offered = servers * load
    setting = Setting(instances=servers, max_batch_size=1, dynamic=True, preferred=(1,))
    wait = mean_wait_ns(setting, Timing((0.0, float(service))), offered / service * 1e9, runs, noisy=True)
    top = offered**servers / math.factorial(servers) / (1 - load)
    erlang_c = top / (sum(offered**k / math.factorial(k) for k in range(servers)) + top)
    expected = erlang_c * service / (servers - offered)
    assert wait == pytest.approx(expected, rel=0.01)


CURVE = Timing(tuple(4.35 * MS + 0.53 * MS * b for b in range(17)))


@pytest.mark.parametrize("delay_ms", [0, 0.5, 5])
@pytest.mark.parametrize("instances", [1, 3])
def test_littles_law(delay_ms: float, instances: int) -> None:
    """Poisson arrivals see time averages: who is met at random instants = rate x mean time."""
    rate = 700.0 * instances
    setting = Setting(instances, 16, True, (16,), round(delay_ms * MS))
    done = simulate(setting, Requests(poisson(rate)), CURVE)
    times = np.sort(np.random.default_rng(3).uniform(done.arrived_ns[N // 10], done.arrived_ns[-1], 100_000))
    for enter, leave in (
        (done.arrived_ns, done.start_ns),
        (done.arrived_ns, done.server_done_ns),
        (done.joined_ns, done.start_ns),
    ):
        met = np.searchsorted(np.sort(enter), times) - np.searchsorted(np.sort(leave), times)
        stay = settled(done, (leave - enter).astype(float)).mean()
        assert met.mean() == pytest.approx(rate / 1e9 * stay, rel=0.02, abs=0.002)


@pytest.mark.parametrize("eager", [True, False])
@pytest.mark.parametrize(
    ("delay_ms", "load", "instances"), [(0, 0.4, 1), (0, 0.9, 1), (2, 0.7, 1), (1, 0.8, 4)]
)
def test_batch_identity(delay_ms: float, load: float, instances: int, eager: bool) -> None:
    """lambda E[W] = E[b(b-1)] / 2E[b] + E[bR] / E[b], with R the requests left behind at a start."""
    rate = load * instances * 8 / (3 * MS + 0.6 * MS * 8) * 1e9
    setting = Setting(instances, 8, True, (8,), round(delay_ms * MS), eager)
    timing = Timing(tuple(3 * MS + 0.6 * MS * b for b in range(9)))
    done = simulate(setting, Requests(poisson(rate)), timing)
    b = done.batch_items.astype(float)
    # At a batch's start: arrived until then, less all that have started until then.
    left = np.searchsorted(done.arrived_ns, done.batch_start_ns, "right") - np.cumsum(done.batch_requests)
    expected = (b * (b - 1)).mean() / (2 * b.mean()) + (b * left).mean() / b.mean()
    assert rate / 1e9 * done.queue_ns().mean() == pytest.approx(expected, rel=0.01)


def late_binding(
    arrivals: list[int], instances: int, largest: int, delay: int, service: list[int]
) -> tuple[list[int], list[int]]:
    """Start of each request and size of each batch, by the recursion of research.md 2."""
    free, starts, batches, h = [0] * instances, [], [], 0
    while h < len(arrivals):
        k = free.index(min(free))
        oldest, full = arrivals[h], h + largest - 1
        ready = min(oldest + delay, arrivals[full] if full < len(arrivals) else oldest + delay)
        start, e = max(free[k], ready), h
        while e < len(arrivals) and e - h < largest and arrivals[e] <= start:
            e += 1
        starts += [start] * (e - h)
        batches.append(e - h)
        free[k] = start + service[e - h]
        h = e
    return starts, batches


@settings(max_examples=300, deadline=None)
@given(
    gaps_us=st.lists(st.integers(1, 3000), min_size=1, max_size=80),
    instances=st.integers(1, 4),
    largest=st.integers(1, 9),
    delay_us=st.sampled_from([0, 100, 700, 5000]),
)
def test_lazy_dispatch_is_the_late_binding_recursion(
    gaps_us: list[int], instances: int, largest: int, delay_us: int
) -> None:
    """On whole microseconds, because Triton rounds its waits to them.

    Arrivals are odd, all other times are even: no two events meet at one instant.
    """
    arrivals = (np.cumsum(gaps_us) * 2 + 1) * 1000
    service = [0] + [(2000 + 600 * b) * 1000 for b in range(1, largest + 1)]
    delay = delay_us * 1000
    setting = Setting(instances, largest, True, (largest,), delay, False, policies=LAZY)
    done = play(setting, Requests(arrivals), Timing(tuple(map(float, service))))
    starts, batches = late_binding(arrivals.tolist(), instances, largest, delay, service)
    assert done.batch_items.tolist() == batches
    assert done.start_ns.tolist() == starts


def test_a_closed_loop_keeps_its_number_in_flight() -> None:
    setting = Setting(1, 8, True, (8,))
    timing = Timing((10.0 * MS,) * 9, send_ns=MS, reply_ns=2 * MS)
    alone = simulate(setting, ClosedLoop(1, 50), timing)
    assert (alone.latency_ns() == 13 * MS).all()
    many = play(setting, ClosedLoop(6, 3000, pause_ns=MS), timing)
    seconds = (many.done_ns.max() - many.planned_ns.min()) / 1e9
    # Little: in flight = throughput x (latency + pause).
    cycle = many.latency_ns().mean() / 1e9 + 0.001
    assert 3000 / seconds * cycle == pytest.approx(6, rel=0.01)
    at = np.linspace(0.1, seconds - 0.1, 500) * 1e9
    in_flight = (many.planned_ns[None] <= at[:, None]) & (many.done_ns[None] > at[:, None])
    assert in_flight.sum(axis=1).max() <= 6
