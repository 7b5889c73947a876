from __future__ import annotations

import pytest

from tritune.model.measurement import Estimate, Measurement
from tritune.model.slo import parse_slo
from tritune.model.workload import Workload
from tritune.stats.slo import judge
from tritune.units import NEVER_NS

MS = 1e6


def measured(p99: Estimate, *, errors: int = 0, requests: int = 10_000, **other: Estimate) -> Measurement:
    latency = {"p99": p99, **{k.replace("_", "."): v for k, v in other.items()}}
    failed = {"timeout": errors} if errors else {}
    return Measurement("s", Workload("m", rate_per_s=1, count=1), requests, 1.0, failed, latency)


@pytest.mark.parametrize(
    ("found", "answer", "leaning"),
    [
        (Estimate(40 * MS, 35 * MS, 50 * MS), "met", "met"),
        (Estimate(40 * MS, 35 * MS, 51 * MS), "undecided", "met"),
        (Estimate(60 * MS, 49 * MS, 70 * MS), "undecided", "not met"),
        (Estimate(60 * MS, 51 * MS, 70 * MS), "not met", "not met"),
        (Estimate(40 * MS), "undecided", "met"),
        (Estimate(60 * MS), "undecided", "not met"),
        (Estimate(NEVER_NS, NEVER_NS, NEVER_NS), "not met", "not met"),
        (Estimate(), "undecided", None),
    ],
)
def test_a_clause_is_judged_by_its_interval(found: Estimate, answer: str, leaning: str | None) -> None:
    verdict = judge(parse_slo("p99=50ms"), measured(found))
    assert (verdict.answer, verdict.leaning) == (answer, leaning)
    assert verdict.met is (leaning == "met")


def test_errors_count_over_planned_requests_and_one_bad_clause_is_enough() -> None:
    good = Estimate(40 * MS, 35 * MS, 45 * MS)
    assert judge(parse_slo("p99=50ms"), measured(good, errors=10)).answer == "met"
    assert judge(parse_slo("p99=50ms"), measured(good, errors=11)).answer == "not met"
    assert (
        judge(parse_slo("p99=50ms,p50=1ms"), measured(good, p50=Estimate(2 * MS, 1.5 * MS, 3 * MS))).answer
        == "not met"
    )
    assert judge(parse_slo("p99=50ms"), measured(good, requests=0)).answer == "undecided"


def test_a_percentile_between_the_measured_ones_is_judged_by_its_neighbours() -> None:
    tight = Estimate(10 * MS, 9 * MS, 11 * MS)
    wide = Estimate(90 * MS, 80 * MS, 99 * MS)
    run = measured(tight, p99_9=wide, p95=tight)
    assert judge(parse_slo("p97=20ms"), run).answer == "met"
    assert judge(parse_slo("p97=5ms"), run).answer == "not met"
    assert judge(parse_slo("p99.5=50ms"), run).answer == "undecided"
    assert judge(parse_slo("p99.95=50ms"), run).answer == "not met"
