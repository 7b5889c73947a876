"""How many requests per second the twin simulates, beside SimPy and Ciw on the same queues in the same run.

Two queues, both at load 0.7 with Poisson arrivals:
  single: two servers, exponential service, one request at a time (M/M/2): all three can do it as it is;
  batching: one server, batches of up to 16 after at most 500 us, S(b) = 4.35 + 0.53 b ms. SimPy gets a
  plain late-binding batcher, less than Triton's rules; Ciw has no batches.
The twin runs its full rules on both, on one core, without compilation (measured apart). Writes
benchmarks/results/twin-speed.json.
"""

from __future__ import annotations

import json
import os
import platform
import sys
import time
from collections.abc import Callable
from functools import cache
from pathlib import Path

import ciw
import numpy as np
import simpy

from tritune.twin.engine.setting import Policy, Setting
from tritune.twin.engine.simulate import Requests, Simulated, simulate
from tritune.twin.engine.timing import Draws, Timing

RESULT = Path(__file__).parent / "results" / "twin-speed.json"
TARGET_PER_S = 5e6
LOAD = 0.7
SINGLE_MEAN_NS = 5_000_000
MOST = 16
CURVE_NS = [0.0] + [4.35e6 + 0.53e6 * b for b in range(1, MOST + 1)]
BATCH_RATE = LOAD * MOST / CURVE_NS[MOST] * 1e9
SINGLE_RATE = LOAD * 2 / SINGLE_MEAN_NS * 1e9
DELAY_NS = 500_000
# As many as one setting gets in a search; the others get fewer, to end within a minute.
MANY, LARGE, FEW = 100_000, 1_000_000, 40_000


@cache
def arrivals(rate: float, count: int) -> np.ndarray:
    return np.cumsum(np.random.default_rng(1).exponential(1e9 / rate, count)).astype(np.int64)


@cache
def exponential(count: int) -> np.ndarray:
    return np.random.default_rng(2).exponential(1.0, count)


def best_rate(count: int, run: Callable[[], object], times: int) -> float:
    """Requests per second of the fastest of several runs."""
    best = float("inf")
    for _ in range(times):
        began = time.perf_counter()
        run()
        best = min(best, time.perf_counter() - began)
    return count / best


def twin_single(count: int) -> Simulated:
    setting = Setting(2, 1, True, (1,))
    draws = Draws(noise=exponential(count))
    return simulate(setting, Requests(arrivals(SINGLE_RATE, count)), Timing((0, SINGLE_MEAN_NS)), draws=draws)


def twin_batching(count: int, *, eager: bool = True) -> Simulated:
    policies = (Policy(),) if eager else (Policy(max_queue_size=10**9),)
    setting = Setting(1, MOST, True, (MOST,), DELAY_NS, eager, policies=policies)
    return simulate(setting, Requests(arrivals(BATCH_RATE, count)), Timing(tuple(CURVE_NS)))


def simpy_single(count: int) -> float:
    """Mean time in the system, ns."""
    world = simpy.Environment()
    servers = simpy.Resource(world, 2)
    planned, service = arrivals(SINGLE_RATE, count), exponential(count) * SINGLE_MEAN_NS
    total = 0.0

    def request(i: int):
        nonlocal total
        came = world.now
        with servers.request() as turn:
            yield turn
            yield world.timeout(service[i])
        total += world.now - came

    def source():
        for i in range(count):
            yield world.timeout(max(0.0, planned[i] - world.now))
            world.process(request(i))

    world.process(source())
    world.run()
    return total / count


def simpy_batching(count: int) -> float:
    """Mean time in the system, ns."""
    world = simpy.Environment()
    queue: list[float] = []
    planned = arrivals(BATCH_RATE, count)
    total, done = 0.0, 0
    news = world.event()

    def source():
        nonlocal news
        for i in range(count):
            yield world.timeout(max(0.0, planned[i] - world.now))
            queue.append(world.now)
            if len(queue) in (1, MOST):
                news.succeed()
                news = world.event()

    def server():
        nonlocal total, done
        while done < count:
            while not queue:
                yield news
            while len(queue) < MOST and world.now < queue[0] + DELAY_NS:
                yield news | world.timeout(queue[0] + DELAY_NS - world.now)
            batch = queue[:MOST]
            del queue[: len(batch)]
            yield world.timeout(CURVE_NS[len(batch)])
            total += sum(world.now - came for came in batch)
            done += len(batch)

    world.process(source())
    world.process(server())
    world.run()
    return total / count


def ciw_single(count: int) -> float:
    """Mean time in the system, ns."""
    network = ciw.create_network(
        arrival_distributions=[ciw.dists.Exponential(rate=SINGLE_RATE)],
        service_distributions=[ciw.dists.Exponential(rate=1e9 / SINGLE_MEAN_NS)],
        number_of_servers=[2],
    )
    ciw.seed(1)
    simulation = ciw.Simulation(network)
    simulation.simulate_until_max_customers(count)
    records = simulation.get_all_records()
    return float(np.mean([r.exit_date - r.arrival_date for r in records])) * 1e9


def compile_time_s() -> float:
    began = time.perf_counter()
    twin_batching(10)
    return time.perf_counter() - began


def main() -> int:
    first_s = compile_time_s()
    twin_single(MANY), twin_batching(LARGE)  # arrivals and noise are drawn now, and kept
    single = best_rate(MANY, lambda: twin_single(MANY), 20)
    batching = best_rate(MANY, lambda: twin_batching(MANY), 20)
    large = best_rate(LARGE, lambda: twin_batching(LARGE), 5)
    others = {
        "simpy, single": best_rate(FEW, lambda: simpy_single(FEW), 2),
        "ciw, single": best_rate(FEW, lambda: ciw_single(FEW), 2),
        "simpy, batching (late binding)": best_rate(FEW, lambda: simpy_batching(FEW), 2),
    }
    # The same queues indeed: equal arrivals and service give equal times; Ciw draws its own.
    agree = {
        "single: SimPy": simpy_single(FEW) / twin_single(FEW).latency_ns().mean() - 1,
        "single: Ciw": ciw_single(FEW) / twin_single(FEW).latency_ns().mean() - 1,
        "batching, lazy: SimPy": simpy_batching(FEW) / twin_batching(FEW, eager=False).latency_ns().mean()
        - 1,
    }
    growth = batching / large
    results = [
        at_least("twin, full rules, batching", batching, TARGET_PER_S),
        at_least("twin, full rules, single", single, TARGET_PER_S),
        # 1 where time grows in proportion to requests; more where memory must be had from the system first.
        at_most("time per request, 1 M over 100 k requests", growth, 2.0, "ratio"),
        at_most("mean latency off SimPy, single", abs(agree["single: SimPy"]), 1e-4, "share"),
        at_most(
            "mean latency off SimPy, batching (lazy)", abs(agree["batching, lazy: SimPy"]), 1e-4, "share"
        ),
    ]
    for name, rate in others.items():
        results.append(result(name, rate, None, "requests/s", None))
    for r in results:
        target = (
            ""
            if r["target"] is None
            else f"target {r['target']:>12,.6g}  {'holds' if r['holds'] else 'MISSED'}"
        )
        print(f"{r['name']:<50} {r['measured']:>14,.6g} {r['unit']:<11} {target}")
    print(f"the first call in this process took {first_s:.1f} s (compilation, or loading what was compiled)")
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_text(
        json.dumps(
            {
                "schema": 1,
                "environment": environment(),
                "results": results,
                "data": {
                    "requests": {"twin": MANY, "simpy and ciw": FEW},
                    "times_as_fast": {
                        n: (single if "single" in n else batching) / r for n, r in others.items()
                    },
                    "agreement_of_means": agree,
                    "first_call_s": first_s,
                },
            },
            indent=2,
        )
        + "\n"
    )
    return 0


def at_least(name: str, measured: float, target: float) -> dict[str, object]:
    return result(name, measured, target, "requests/s", measured >= target)


def at_most(name: str, measured: float, target: float, unit: str) -> dict[str, object]:
    return result(name, measured, target, unit, measured <= target)


def result(
    name: str, measured: float, target: float | None, unit: str, holds: bool | None
) -> dict[str, object]:
    """One line of Bench JSON; without a target it is there to compare with."""
    return {
        "name": name,
        "measured": float(measured),
        "target": target,
        "unit": unit,
        "holds": None if holds is None else bool(holds),
    }


def environment() -> dict[str, object]:
    import numba

    return {
        "python": platform.python_version(),
        "machine": platform.machine(),
        "system": platform.system(),
        "cpus": os.cpu_count(),
        "load_average": os.getloadavg()[0],
        "numba": numba.__version__,
        "numpy": np.__version__,
        "simpy": simpy.__version__,
        "ciw": ciw.__version__,
    }


if __name__ == "__main__":
    sys.exit(main())
