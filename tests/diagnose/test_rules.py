"""Each rule on windows made from physics: what must fire, what must not, and what it proposes."""

from __future__ import annotations

from functools import reduce
from operator import add

import msgspec
import pytest
from physics import affine, config, serve, steady

from tritune.diagnose.batches import batch_rows, mean_batch
from tritune.diagnose.breakdown import breakdown
from tritune.diagnose.capacity import capacity
from tritune.diagnose.contention import by_load, compare_instances
from tritune.diagnose.context import Context
from tritune.diagnose.delay import delay_queue_ns
from tritune.diagnose.diagnose import diagnose
from tritune.diagnose.result import Diagnosis
from tritune.model.config import ServingConfig, Setting
from tritune.model.server import ServerWindow
from tritune.twin.fit.service import service_curve

DELAY = "dynamic_batching.max_queue_delay_microseconds"
PREFERRED = "dynamic_batching.preferred_batch_size"


def slugs(found: Diagnosis) -> list[str]:
    assert found.no_verdict == ""
    return [f.slug for f in found.findings]


def changes(found: Diagnosis) -> list[tuple[Setting, ...]]:
    return [r.change.settings for r in found.findings[0].remedies if r.change is not None]


# healthy ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [30, 100, 200, 400, 700])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_plain_batching_below_its_capacity_has_no_finding(rate: float, seed: int) -> None:
    conf = config(largest=16)
    assert slugs(diagnose(conf, serve(conf, rate, affine(4.35, 0.53), seed=seed))) == []


def test_two_instances_that_do_not_contend_have_no_finding_but_a_limit() -> None:
    conf = config(largest=16, count=2)
    found = diagnose(conf, serve(conf, 500, affine(4.35, 0.53)))
    assert slugs(found) == []
    assert any("other 1 instances are idle" in line for line in found.not_seen)


# delay-too-long -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("preferred", "delay_us", "rate"),
    [((4, 8), 100_000, 150), ((2, 4, 8), 100_000, 60), ((), 50_000, 40), ((8,), 20_000, 100)],
)
def test_a_delay_that_makes_the_queue_is_found(
    preferred: tuple[int, ...], delay_us: int, rate: float
) -> None:
    conf = config(preferred=preferred, delay_us=delay_us)
    found = diagnose(conf, serve(conf, rate, affine(3, 0.5), seconds=30))
    assert slugs(found) == ["delay-too-long"]
    assert found.findings[0].confidence == "high"
    first, second = changes(found)
    assert first == (Setting(DELAY, 500),)
    assert {s.path for s in second} == ({PREFERRED, DELAY} if set(preferred) - {8} else {DELAY})
    assert all(s.value is None for s in second)


def test_a_delay_is_found_from_metrics_too_with_less_confidence() -> None:
    conf = config(delay_us=50_000)
    found = diagnose(conf, serve(conf, 40, affine(3, 0.5), seconds=30, metrics=True))
    assert slugs(found) == ["delay-too-long"]
    assert found.findings[0].confidence == "medium"
    assert any("No batch statistics" in line for line in found.not_seen)


@pytest.mark.parametrize(
    ("delay_us", "rate"),
    [
        (500, 200),  # within the article's range
        (5_000, 900),  # inert: every batch waits longer for the instance
    ],
)
def test_a_short_or_inert_delay_is_not_the_cause(delay_us: int, rate: float) -> None:
    conf = config(largest=16, delay_us=delay_us)
    assert "delay-too-long" not in slugs(diagnose(conf, serve(conf, rate, affine(4.35, 0.53))))


def test_a_long_delay_on_a_saturated_model_is_not_the_cause() -> None:
    conf = config(largest=4, delay_us=100_000)
    assert slugs(diagnose(conf, serve(conf, 230, affine(8.5, 2)))) == ["saturated"]


def test_a_long_delay_that_no_request_waits_for_is_not_the_cause() -> None:
    """Requests queue far less than the delay would make them: it is not what the model runs with."""
    conf = config(delay_us=100_000)
    short = serve(config(), 50, affine(3, 0.5))
    assert slugs(diagnose(conf, short)) == []


# preferred-caps -----------------------------------------------------------------------------------


def test_preferred_sizes_with_delay_0_cap_the_batches() -> None:
    """Issue 2, part 6: {4, 8}, delay 0, max 16, S(b) = 4.35 + 0.53 b ms: capacity 8 / S(8) = 931/s."""
    conf = config(largest=16, preferred=(4, 8))
    found = diagnose(conf, serve(conf, 950, affine(4.35, 0.53)))
    assert slugs(found) == ["preferred-caps"]
    assert found.findings[0].confidence == "high"
    assert changes(found) == [(Setting(PREFERRED, None),), (Setting(DELAY, 500),)]


def test_no_remedy_ever_sets_delay_0_and_keeps_small_preferred_sizes() -> None:
    windows = [
        (c := config(largest=16, preferred=(4, 8), delay_us=d), serve(c, r, affine(4.35, 0.53)))
        for d in (0, 2_000, 100_000)
        for r in (30, 200, 950, 1300)
    ]
    for conf, seen in windows:
        for finding in diagnose(conf, seen).findings:
            for remedy in finding.remedies:
                settings = {s.path: s.value for s in remedy.change.settings} if remedy.change else {}
                delay = settings.get(DELAY, conf.dynamic_batching.max_queue_delay_microseconds)  # type: ignore[union-attr]
                if DELAY in settings and not delay:
                    assert settings[PREFERRED] is None


@pytest.mark.parametrize(
    ("preferred", "delay_us", "rate"), [((4, 8), 500, 900), ((16,), 0, 900), ((4, 8), 0, 300)]
)
def test_preferred_sizes_with_a_delay_or_room_do_not_cap(
    preferred: tuple[int, ...], delay_us: int, rate: float
) -> None:
    conf = config(largest=16, preferred=preferred, delay_us=delay_us)
    assert "preferred-caps" not in slugs(diagnose(conf, serve(conf, rate, affine(4.35, 0.53))))


# bigger-batches-slower ----------------------------------------------------------------------------


def spill(b: int) -> float:
    return 9 + b + (20 + 0.05 * (b - 8) ** 2 if b > 8 else 0)


def test_sizes_beyond_the_knee_are_named_with_the_best_one() -> None:
    conf = config(largest=16, preferred=(16,))
    seen = reduce(add, (serve(conf, 300, spill, seed=s, start_s=20 * s) for s in range(4)))
    found = diagnose(conf, seen)
    assert slugs(found) == ["bigger-batches-slower"]
    assert found.findings[0].confidence == "high"
    assert found.capacity is not None
    assert found.capacity.best_size == 8
    assert changes(found) == [(Setting("max_batch_size", 8),)]


def test_sizes_that_this_traffic_does_not_run_are_no_finding() -> None:
    conf = config(largest=16)
    assert slugs(diagnose(conf, serve(conf, 60, spill))) == []


def test_an_affine_service_time_is_never_slower_in_larger_batches() -> None:
    conf = config(largest=16)
    for rate in (200, 800, 1200):
        found = slugs(diagnose(conf, serve(conf, rate, affine(4.35, 0.53))))
        assert "bigger-batches-slower" not in found


# instances-contend --------------------------------------------------------------------------------


def test_four_instances_on_one_device_are_suspected_from_one_window() -> None:
    conf = config(count=4)
    found = diagnose(conf, serve(conf, 300, affine(5, 0.5), contention=1.0))
    assert slugs(found) == ["instances-contend"]
    assert found.findings[0].confidence in ("low", "medium")
    assert changes(found) == [
        (Setting("instance_group.count", 1),),
        (Setting("instance_group.count", 2),),
    ]


def test_a_quiet_and_a_busy_part_prove_contention() -> None:
    conf = config(count=4)
    parts = [serve(conf, r, affine(5, 0.5), contention=1.0, seed=r) for r in (20, 300)]
    found = diagnose(conf, parts[1], parts=parts)
    assert slugs(found) == ["instances-contend"]
    assert found.findings[0].confidence == "high"


def test_parts_without_contention_silence_the_suspicion() -> None:
    conf = config(count=4)
    parts = [serve(conf, r, affine(5, 0.5), seed=r) for r in (20, 800)]
    assert slugs(diagnose(conf, parts[1])) == ["instances-contend"]  # low: one window cannot tell
    assert diagnose(conf, parts[1]).findings[0].confidence == "low"
    assert slugs(diagnose(conf, parts[1], parts=parts)) == []


def test_parts_at_one_load_prove_nothing() -> None:
    conf = config(count=4)
    parts = [serve(conf, 300, affine(5, 0.5), contention=1.0, seed=s) for s in range(6)]
    assert by_load(parts) is None
    assert by_load(parts[:1]) is None


def test_the_confirming_comparison_at_equal_batch_sizes() -> None:
    four, one = config(count=4), config(count=1)
    contended = compare_instances(
        serve(four, 300, affine(5, 0.5), contention=0.9), serve(one, 300, affine(5, 0.5))
    )
    assert contended is not None
    assert contended.contend
    assert 1 + 0.9 * 2 < contended.ratio < 1 + 0.9 * 3  # between two and all three others at work
    assert contended.low < contended.ratio < contended.high
    free = compare_instances(serve(four, 300, affine(5, 0.5)), serve(one, 300, affine(5, 0.5)))
    assert free is not None
    assert not free.contend
    assert free.ratio == pytest.approx(1)
    assert (
        compare_instances(serve(four, 300, affine(5, 0.5), metrics=True), serve(one, 300, affine(5, 0.5)))
        is None
    )


def test_several_groups_get_advice_without_an_edit() -> None:
    conf = config(count=2, groups=2)
    found = diagnose(conf, serve(conf, 300, affine(5, 0.5), contention=1.0))
    assert slugs(found) == ["instances-contend"]
    assert changes(found) == []


# saturated ----------------------------------------------------------------------------------------


def test_load_near_one_with_full_batches_is_saturation() -> None:
    conf = config(largest=4)
    found = diagnose(conf, serve(conf, 230, affine(8.5, 2), seconds=30))
    assert slugs(found) == ["saturated"]
    assert found.findings[0].confidence == "high"
    assert changes(found) == [(Setting("instance_group.count", 2),)]


def test_without_a_dynamic_batcher_the_first_remedy_is_one() -> None:
    conf = config(largest=8, batching=False)
    found = diagnose(conf, serve(conf, 190, affine(4.5, 0.5)))
    assert slugs(found) == ["saturated"]
    assert changes(found)[0] == (Setting("dynamic_batching", "{}"),)


def test_a_few_small_batches_at_high_apparent_load_are_not_saturation() -> None:
    """Busy 90 %, only sizes 1 to 3 seen often: load is an upper bound, and larger batches have room."""
    conf = config(largest=16)
    seen = serve(conf, 160, affine(5, 0.5), seconds=2)
    assert slugs(diagnose(conf, seen)) == []


def test_metrics_show_saturation_by_a_long_queue_on_busy_instances() -> None:
    conf = config(largest=4)
    found = diagnose(conf, serve(conf, 260, affine(8.5, 2), metrics=True))
    assert slugs(found) == ["saturated"]
    assert found.findings[0].confidence == "medium"
    # the same means over a thousand times the span: nobody is busy, so an old backlog it was
    seen = serve(conf, 260, affine(8.5, 2), metrics=True)
    idle = msgspec.structs.replace(seen, t1_ns=seen.t1_ns * 1000)
    assert slugs(diagnose(conf, idle)) == []


# the delay's own queue ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("preferred", "delay_us", "rate"),
    [
        ((4, 8), 100_000, 150),
        ((2, 4, 8), 100_000, 150),
        ((), 50_000, 40),
        ((8,), 20_000, 100),
        ((), 5_000, 60),
    ],
)
def test_the_delay_s_own_queue_is_the_queue_of_a_server_that_takes_no_time(
    preferred: tuple[int, ...], delay_us: int, rate: float
) -> None:
    """Oracle: with executions of a microsecond all queue is voluntary, and the estimate finds it."""
    conf = config(preferred=preferred, delay_us=delay_us)
    seen = serve(conf, rate, affine(0.001, 0), seconds=60)
    made = delay_queue_ns(context_of(conf, seen))
    assert made == pytest.approx(seen.counters.queue.mean_ns, rel=0.15)


def test_no_idle_time_leaves_no_voluntary_wait() -> None:
    conf = config(largest=4, delay_us=100_000)
    context = context_of(conf, serve(conf, 260, affine(8.5, 2)))
    assert context.utilisation == pytest.approx(1, abs=0.02)
    made = delay_queue_ns(context)
    assert made is not None
    assert made < 0.1 * context.queue_ns


def context_of(conf: ServingConfig, seen: ServerWindow) -> Context:
    parts, mean = breakdown(seen), mean_batch(seen)
    assert parts is not None
    assert mean is not None
    return Context(conf, seen, parts, batch_rows(seen), mean, capacity(conf, seen), service_curve(seen))


def test_few_small_batches_together_show_that_the_large_ones_are_slower() -> None:
    """A real window (bigger-is-slower, 5 s): the small sizes ran one to four times each, 16 ran 59 times."""
    counts = {
        1: 5,
        2: 1,
        3: 1,
        4: 4,
        5: 3,
        6: 2,
        7: 4,
        8: 1,
        9: 7,
        10: 4,
        11: 3,
        12: 2,
        13: 9,
        14: 7,
        15: 7,
        16: 59,
    }
    conf = config(largest=16)
    found = diagnose(conf, steady(counts, spill, queue_ms=35, seconds=5))
    assert slugs(found) == ["bigger-batches-slower"]
    assert changes(found) == [(Setting("max_batch_size", 7),)]


def test_full_batches_alone_are_saturation_without_certainty() -> None:
    """Nothing smaller ran, so nothing says whether smaller batches would do more."""
    conf = config(largest=16)
    found = diagnose(conf, steady({15: 20, 16: 80}, spill, queue_ms=200, seconds=5))
    assert [(f.slug, f.confidence) for f in found.findings] == [("saturated", "medium")]
