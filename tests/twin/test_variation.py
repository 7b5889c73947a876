"""The variation of one execution from sums over many: unbiased, also while the machine drifts."""

from __future__ import annotations

import numpy as np
import pytest
from observed_run import observe, truth

from tritune.model.server import BatchStat
from tritune.twin.fit.variation import MIN_WINDOWS, variation, variation_of


def drawn(
    cv: float,
    sizes: dict[int, float],
    parts: int,
    rng: np.random.Generator,
    speed: np.ndarray | None = None,
) -> list[dict[int, BatchStat]]:
    """Statistics of parts in which each size runs so often (Poisson); `speed` slows whole parts down."""
    speed = np.ones(parts) if speed is None else speed
    found = []
    for k in range(parts):
        counts = {b: int(rng.poisson(mean)) for b, mean in sizes.items()}
        each = {b: (4e6 + 5e5 * b) * (1 + cv * rng.standard_normal(n)) * speed[k] for b, n in counts.items()}
        found.append({b: BatchStat(len(ns), 0, round(ns.sum()), 0) for b, ns in each.items() if len(ns)})
    return found


def mean_square(cv: float, sizes: dict[int, float], speed: np.ndarray | None, runs: int = 200) -> float:
    rng = np.random.default_rng(4)
    found = [variation_of(drawn(cv, sizes, 12, rng, speed)) for _ in range(runs)]
    assert all(one is not None for one in found)
    return float(np.mean([one.value**2 for one in found if one]))


@pytest.mark.parametrize("cv", [0.02, 0.2])
@pytest.mark.parametrize("sizes", [{1: 30.0, 2: 20.0, 3: 5.0, 8: 1.0}, {4: 50.0}])
def test_it_is_unbiased(cv: float, sizes: dict[int, float]) -> None:
    assert mean_square(cv, sizes, None) == pytest.approx(cv**2, rel=0.08)


def test_a_machine_that_drifts_is_no_variation_of_executions() -> None:
    """10 % up and down, in steps or as a wave: a single window factor would read it as 50 % and more."""
    several, one = {1: 60.0, 2: 40.0, 3: 20.0}, {1: 60.0}
    steps = np.tile([1.0, 1.1], 6)
    wave = 1 + 0.05 * np.sin(np.linspace(0, 3, 12))
    assert mean_square(0.03, several, steps) == pytest.approx(0.03**2, rel=0.1)
    assert mean_square(0.03, several, wave) == pytest.approx(0.03**2, rel=0.1)
    # One size alone has nothing to be compared with but its neighbour in time.
    assert mean_square(0.03, one, wave) < (2 * 0.03) ** 2
    assert mean_square(0.03, one, steps) > (10 * 0.03) ** 2


def test_the_interval_holds_the_truth() -> None:
    rng, hits = np.random.default_rng(8), 0
    for _ in range(300):
        found = variation_of(drawn(0.05, {1: 30.0, 2: 20.0, 5: 4.0}, 10, rng))
        assert found is not None
        hits += found.low <= 0.05 <= found.high
    assert 0.92 <= hits / 300 <= 0.98


def test_too_few_parts_say_nothing() -> None:
    run = observe(600, 3000)
    assert variation(run.run(parts=MIN_WINDOWS - 1).parts) is None
    assert variation(()) is None
    assert variation(run.run(parts=MIN_WINDOWS).parts) is not None


@pytest.mark.parametrize(("rate", "delay_ms"), [(60, 0), (300, 2), (900, 0.5)])
def test_what_a_load_was_made_with_comes_back(rate: float, delay_ms: float) -> None:
    run = observe(rate, 8000, delay_ms=delay_ms, timing=truth(cv=0.04))
    found = variation(run.run(parts=20).parts)
    assert found is not None
    assert found.low < 0.04 < found.high
    assert found.value == pytest.approx(0.04, rel=0.25)
