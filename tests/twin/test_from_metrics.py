"""Service times from Prometheus counters: found where the load varied, else refused with what is missing."""

from __future__ import annotations

import msgspec
import pytest
from observed_run import SERVER_NS, truth
from observed_windows import watched, whole
from twin_play import MS, config

from tritune.errors import TrituneError
from tritune.model.server import ServerWindow, Tally
from tritune.model.workload import Bursts
from tritune.twin.engine.timing import Timing
from tritune.twin.fit.from_metrics import from_metrics
from tritune.twin.fit.metric_levels import load_levels

RATES = (100, 250, 400, 600, 800)


def scraped(*rates: float, seconds: int = 20, **more: object) -> list[ServerWindow]:
    return [
        whole(watched(rate, seconds, seed=k + 1, batch_stats=False, **more))  # type: ignore[arg-type]
        for k, rate in enumerate(rates)
    ]


@pytest.mark.parametrize("delay_ms", [0, 5])
def test_the_line_is_found_from_five_loads(delay_ms: float) -> None:
    served = config(delay_ms, largest=16)
    found = from_metrics(served, scraped(*RATES, served=served), source="a test")
    assert found.base_ns.value == pytest.approx(4.35 * MS, rel=0.05)
    assert found.slope_ns.value == pytest.approx(0.53 * MS, rel=0.05)
    for figure in (found.base_ns, found.slope_ns):
        assert figure.low is not None
        assert figure.high is not None
        assert figure.low < figure.value < figure.high
    times = found.profile.service_ns
    assert list(times) == list(range(1, 17))
    assert {times[b].source for b in (1, 2, 8)} == {"regression"}
    assert found.profile.server_overhead_ns.value == pytest.approx(SERVER_NS, rel=0.01)
    assert found.profile.client_overhead_ns is None
    assert (found.profile.cv.source, found.profile.arrival.process) == ("prior", "poisson")
    assert [level.rate_per_s for level in found.levels] == sorted(level.rate_per_s for level in found.levels)


def test_without_the_size_bias_it_would_be_wrong() -> None:
    """The slope through the plain means of batches, at loads where batches vary much."""
    levels = scraped(*RATES)
    x = [w.counters.inference_count / w.counters.execution_count for w in levels]
    y = [w.counters.compute_infer.ns / w.counters.success.count for w in levels]
    slope = (y[-1] - y[0]) / (x[-1] - x[0])
    assert abs(slope / (0.53 * MS) - 1) > 0.05
    found = from_metrics(config(5, largest=16), levels)
    assert abs(found.slope_ns.value / (0.53 * MS) - 1) < 0.05


def test_contention_that_is_known_is_taken_out() -> None:
    served = config(0, largest=16, instances=2)
    levels = scraped(*RATES, served=served, timing=truth(contention=(0.5,)))
    found = from_metrics(served, levels, contention=0.5)
    assert found.base_ns.value == pytest.approx(4.35 * MS, rel=0.1)
    assert found.slope_ns.value == pytest.approx(0.53 * MS, rel=0.1)
    assert found.profile.contention.source == "given"
    with pytest.raises(TrituneError, match="2 instances may slow each other down"):
        from_metrics(served, levels)


def test_scrapes_of_about_the_same_rate_are_one_level() -> None:
    """Sixteen scrapes whose rate goes up and down: each level has the rate of its own scrapes."""
    served = config(5, largest=16)
    rates = [100, 300, 500, 700] * 4
    scrapes = []
    for k, window in enumerate(scraped(*rates, seconds=4)):
        begin = 15_000 * MS * k
        scrapes.append(msgspec.structs.replace(window, t0_ns=begin, t1_ns=begin + 4_000 * MS))
    levels = load_levels(served, scrapes, None)
    assert len(levels) == 8
    assert sum(level.seconds for level in levels) == pytest.approx(64)
    assert [level.counters.success.count / level.seconds for level in levels] == pytest.approx(
        [100, 100, 300, 300, 500, 500, 700, 700], rel=0.2
    )


def refusal(levels: list[ServerWindow], **served: object) -> str:
    with pytest.raises(TrituneError) as caught:
        from_metrics(config(**({"delay_ms": 5, "largest": 16} | served)), levels)  # type: ignore[arg-type]
    assert caught.value.slug in ("twin-bad-run", "twin-no-batches")
    return caught.value.message


def test_what_the_metrics_do_not_tell_is_said() -> None:
    assert "the load varied too little: the mean batch changed from" in refusal(scraped(400, 400, 400, 400))
    assert "the load varied too little" in refusal(scraped(400, seconds=5))
    full = config(0, largest=2)
    assert "every batch was full (2 items)" in refusal(
        scraped(1500, 1700, 1900, served=full, seconds=5, timing=truth(2)), delay_ms=0, largest=2
    )
    assert "batch of its own" in refusal(scraped(100, 200, 300, seconds=5), dynamic=False)


def test_traffic_that_is_not_poisson_is_seen() -> None:
    bursts = Bursts(8, 500 * MS, 0.2)
    assert "the traffic is of another kind" in refusal(scraped(50, 150, 250, 350, bursts=bursts, seconds=60))


def test_steps_instead_of_a_line_are_seen() -> None:
    steps = Timing((0.0, *(3e6 if b < 3 else 15e6 for b in range(1, 17))))
    assert "does not rise in a straight line" in refusal(scraped(60, 150, 300, 500, timing=steps))


@pytest.mark.parametrize("what", ["reset", "failed", "nothing", "sizes", "executions"])
def test_counters_that_cannot_be_used(what: str) -> None:
    levels = scraped(100, 200, 300, seconds=5)
    first = levels[0].counters
    changed = {
        "failed": {"fail": Tally(100, 0)},
        "nothing": {"success": Tally()},
        "sizes": {"inference_count": round(1.5 * first.inference_count)},
        "executions": {"execution_count": 0},
    }
    if what == "reset":
        levels[0] = msgspec.structs.replace(levels[0], reset=True)
    else:
        levels = [
            msgspec.structs.replace(w, counters=msgspec.structs.replace(w.counters, **changed[what]))
            for w in (levels[:1] if what != "nothing" else levels)
        ] + (levels[1:] if what != "nothing" else [])
    words = {
        "reset": "reset",
        "failed": "100 requests failed",
        "nothing": "no request was answered",
        "sizes": "differ in size",
        "executions": "not counted",
    }
    assert words[what] in refusal(levels)
