"""Compiled or not, the results are the same; numba stays away until something is simulated."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import fields

import numpy as np
import pytest
from twin_play import MS, assert_same

from tritune.twin.engine import compiled, driver, rules
from tritune.twin.engine.setting import Policy, Setting
from tritune.twin.engine.simulate import Requests, Simulated, simulate
from tritune.twin.engine.timing import Timing

TIMING = Timing(
    tuple(4.35 * MS + 0.531 * MS * b for b in range(17)),
    contention=(0.37,),
    cv=0.11,
    stall_p=0.01,
    stall_ns=40 * MS,
    send_ns=413_001,
    reply_ns=311_003,
    turnaround_ns=100_007,
    wake_ns=61_013,
    lost_wakeup_p=0.05,
)
SETTINGS = {
    "eager": Setting(2, 16, True, (16,), 500_000),
    "preferred": Setting(1, 16, True, (4, 8), 0),
    "merging": Setting(1, 16, True, (4,), 20_000),
    "lazy": Setting(2, 16, True, (16,), 2 * MS, False, policies=(Policy(200, 150 * MS, True),)),
    "priorities": Setting(2, 16, True, (16,), 0, False, 2, 1, (Policy(), Policy(20)), True, True),
    "default": Setting(2, 16),
}


def played(name: str, *, interpreted: bool) -> Simulated:
    rng = np.random.default_rng(5)
    count = 2000
    load = Requests(
        np.cumsum(rng.exponential(1e9 / 1500, count)).astype(np.int64),
        items=rng.integers(1, 4, count),
        shape=rng.integers(0, 2, count),
        priority=rng.integers(0, 3, count),
        timeout_ns=rng.choice([0, 40 * MS], count),
        give_up_ns=200 * MS,
        cancels=True,
    )
    return simulate(SETTINGS[name], load, TIMING, seed=9, interpreted=interpreted)


def sums(simulated: Simulated) -> dict[str, int]:
    """A fingerprint in which the order counts."""
    return {
        f.name: int(
            (getattr(simulated, f.name) % 1_000_003 * np.arange(1, 1 + len(getattr(simulated, f.name)))).sum()
        )
        for f in fields(simulated)
    }


@pytest.mark.parametrize("name", SETTINGS)
def test_compiled_and_interpreted_are_equal(name: str) -> None:
    assert_same(played(name, interpreted=False), played(name, interpreted=True))


def test_machine_code_is_made_once_for_numbers_and_arrays_alike() -> None:
    instants = np.arange(4) * 10 * MS
    for several in (1, np.ones(4, np.int64)):
        load = Requests(instants, items=several, shape=several, timeout_ns=several)
        simulate(SETTINGS["eager"], load, TIMING)
    assert len(compiled.compiled().signatures) == 1  # type: ignore[attr-defined]


def test_numba_disable_jit_changes_nothing() -> None:
    code = (
        "import json, test_compiled as t; "
        "print(json.dumps({n: t.sums(t.played(n, interpreted=False)) for n in t.SETTINGS}))"
    )
    here = os.path.dirname(__file__)  # noqa: PTH120
    environment = os.environ | {"NUMBA_DISABLE_JIT": "1", "PYTHONPATH": os.pathsep.join([here, *sys.path])}
    answer = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, check=True)
    assert json.loads(answer.stdout) == {n: sums(played(n, interpreted=False)) for n in SETTINGS}


def test_numba_is_imported_by_the_first_simulation_only() -> None:
    code = (
        "import sys, tritune.cli.main, tritune.twin.engine.simulate, tritune.twin.engine.ties; "
        "sys.exit('numba' in sys.modules)"
    )
    subprocess.run(
        [sys.executable, "-c", code], check=True, env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    )


def test_the_stamp_follows_code_and_constants() -> None:
    functions = [rules.dispatch, driver.run]
    stamp = compiled._stamp(functions, {"A": 1})
    assert stamp == compiled._stamp(functions, {"A": 1})
    assert stamp != compiled._stamp(functions, {"A": 2})
    assert stamp != compiled._stamp([rules.dequeue, driver.run], {"A": 1})


def test_functions_are_compiled_after_those_they_call() -> None:
    order = [
        f.__name__
        for f in compiled._callees_first(
            [driver.run, driver.accept, rules.dispatch, rules.dequeue, rules.arrival]
        )
    ]
    assert order.index("dequeue") < order.index("dispatch")
    assert order[-1] == "run" or order.index("arrival") < order.index("run")
