"""Bursts found in counters once a second: known ones come back, and Poisson arrivals stay Poisson."""

from __future__ import annotations

import math

import numpy as np
import pytest
from observed_run import truth
from observed_windows import watched
from twin_play import config

from tritune.arrivals.processes import plan
from tritune.model.workload import Bursts
from tritune.stats.quantiles import quantile
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import Requests, simulate
from tritune.twin.fit.burst import MIN_WINDOWS, BurstFit, fit_arrivals
from tritune.twin.fit.moments import TOLERANCES, moments, observed, simulated

SERVED, UNSEEN = config(5, largest=16), config(0, largest=12)
SETTING = setting_of(SERVED)


def fitted(rate: float, seconds: int = 60, **more: object) -> BurstFit:
    return fit_arrivals(SETTING, truth(), watched(rate, seconds, **more))  # type: ignore[arg-type]


def p99(served: object, rate: float, bursts: Bursts | None) -> float:
    planned = plan(rate, "on-off" if bursts else "poisson", 77, count=200_000, bursts=bursts)
    setting = setting_of(served)  # type: ignore[arg-type]
    return quantile(simulate(setting, Requests(planned), truth(), seed=7).latency_ns(), 0.99)


@pytest.mark.parametrize(
    ("rate", "bursts"),
    [(300, Bursts(6, 300_000_000, 0.2)), (400, Bursts(8, 60_000_000, 0.25))],
)
def test_the_tail_under_known_bursts_is_found_from_counters(rate: float, bursts: Bursts) -> None:
    """Seen at a delay of 5 ms and batches of 16, then asked about no delay and batches of 12."""
    found = fitted(rate, 120, bursts=bursts)
    arrival = found.arrival
    assert arrival.process == "on-off"
    assert found.p_poisson < 1e-6
    assert p99(SERVED, arrival.rate_per_s, arrival.bursts) == pytest.approx(
        p99(SERVED, rate, bursts), rel=0.1
    )
    assert p99(UNSEEN, arrival.rate_per_s, arrival.bursts) == pytest.approx(
        p99(UNSEEN, rate, bursts), rel=0.15
    )
    # What a model without bursts would have said.
    assert p99(SERVED, rate, None) < 0.7 * p99(SERVED, rate, bursts)
    for figure, true in ((found.ratio, bursts.ratio), (found.duty, bursts.duty)):
        assert figure is not None
        assert figure.low is not None
        assert figure.high is not None
        assert figure.low / 1.2 < true < figure.high * 1.2


def test_poisson_stays_poisson() -> None:
    found = [fitted(rate, 30, seed=seed) for rate in (60, 500) for seed in range(10)]
    assert sum(fit.arrival.process == "poisson" for fit in found) >= 18
    assert all(fit.notes for fit in found if fit.arrival.process == "poisson")


def test_constant_arrivals_are_told() -> None:
    found = fitted(300, 30, arrivals="constant")
    assert (found.arrival.process, found.arrival.scv) == ("constant", 0.0)


def test_too_little_is_refused() -> None:
    with pytest.raises(ValueError, match="19 windows"):
        fit_arrivals(SETTING, truth(), watched(300, MIN_WINDOWS - 1))
    with pytest.raises(ValueError, match="no batch statistics"):
        fit_arrivals(SETTING, truth(), watched(300, 25, batch_stats=False))


def test_windows_and_a_simulation_give_the_same_numbers() -> None:
    """Counter windows are made from a play; both ways to its moments must agree."""
    planned = plan(300, "poisson", 5, duration_ns=61 * 10**9)
    play = simulate(SETTING, Requests(planned), truth(), seed=104)
    seen, direct = observed(watched(300, 60, seed=5)), simulated(play, 1.0)
    np.testing.assert_array_equal(seen.requests, direct.requests[:60])
    np.testing.assert_allclose(seen.queue_ns, direct.queue_ns[:60])
    here = moments(seen, (1, 2, 3), 5e6)
    assert len(here) == len(TOLERANCES)
    mean = seen.queue_ns.sum() / seen.requests.sum()
    assert here[0] == pytest.approx(math.log(mean + 0.02 * 5e6))
    assert here[2] == pytest.approx(seen.batches[:2].sum() / seen.batches.sum())
