"""What may change, from which configuration, in which order."""

import pytest

from tritune.diagnose.moves import COUNT, DELAY, PREFERRED
from tritune.model.config import DynamicBatching, InstanceGroup, ServingConfig
from tritune.tune.space import STAGES, Candidate, Passed, candidates
from tritune.twin.fit.service import ServicePoint


def config(*, delay=0, preferred=(), max_batch=16, count=1, block=True) -> ServingConfig:
    return ServingConfig(
        name="m",
        max_batch_size=max_batch,
        dynamic_batching=DynamicBatching(preferred, delay) if block else None,
        instance_group=(InstanceGroup(count=count),),
    )


def settings(offered) -> list[list[tuple[str, object]]]:
    assert not isinstance(offered, Passed), offered
    return [[(s.path, s.value) for s in candidate.change.settings] for candidate in offered]


def curve(*service_ms_by_size: tuple[int, float], executions=50) -> dict[int, ServicePoint]:
    return {b: ServicePoint(ms * 1e6, executions) for b, ms in service_ms_by_size}


def test_a_large_delay_is_cut_to_the_articles_range_and_never_to_zero():
    offered = settings(candidates("delay", config(delay=100_000, preferred=(4, 8)), {}))
    assert offered == [[(DELAY, 500)], [(DELAY, 100)]]


@pytest.mark.parametrize("delay", [0, 100, 500, 1000])
def test_a_delay_within_the_range_offers_no_other_delay(delay):
    assert isinstance(candidates("delay", config(delay=delay), {}), Passed)


def test_plain_batching_moves_preferred_sizes_and_delay_together():
    offered = settings(candidates("plain batching", config(delay=500, preferred=(4, 8)), {}))
    assert offered == [[(PREFERRED, None), (DELAY, None)]]


def test_the_size_that_triton_fills_in_by_itself_is_not_a_preferred_size():
    assert isinstance(candidates("plain batching", config(preferred=(16,)), {}), Passed)


def test_a_model_without_the_block_is_offered_one():
    assert settings(candidates("plain batching", config(block=False), {})) == [[("dynamic_batching", "{}")]]


def test_a_model_that_cannot_batch_is_offered_no_batching():
    for stage in ("delay", "plain batching", "preferred sizes", "max batch size"):
        assert isinstance(candidates(stage, config(max_batch=0, delay=5000), {}), Passed)


def test_four_instances_go_to_one_and_then_to_two():
    assert settings(candidates("instances", config(count=4), {})) == [[(COUNT, 1)], [(COUNT, 2)]]


def test_more_than_two_instances_only_on_evidence():
    assert settings(candidates("instances", config(count=2), {})) == [[(COUNT, 1)]]
    offered = settings(candidates("instances", config(count=2), {}, instances_help=True))
    assert offered == [[(COUNT, 3)], [(COUNT, 4)]]


def test_a_second_instance_is_not_offered_where_fewer_were_better():
    assert isinstance(candidates("instances", config(count=1), {}, more_slows=True), Passed)


def test_the_cap_is_the_largest_size_that_still_pays():
    seen = curve((1, 5.0), (4, 8.0), (8, 12.0), (16, 40.0), (32, 140.0))
    offered = candidates("max batch size", config(max_batch=32), seen)
    assert settings(offered) == [[("max_batch_size", 8)]]
    assert "12.0 ms" in offered[0].reason


def test_no_cap_while_larger_batches_gain():
    assert isinstance(candidates("max batch size", config(), curve((1, 5.0), (8, 9.0), (16, 13.0))), Passed)


def test_a_size_that_was_hardly_seen_does_not_decide_a_cap():
    seen = curve((1, 5.0), (8, 9.0)) | curve((16, 13.0), executions=1)
    assert isinstance(candidates("max batch size", config(), seen), Passed)


def test_a_cap_takes_the_preferred_sizes_above_it_along():
    seen = curve((1, 5.0), (4, 8.0), (16, 60.0))
    with_delay = settings(candidates("max batch size", config(preferred=(2, 4, 8), delay=500), seen))
    assert with_delay == [[("max_batch_size", 4), (PREFERRED, (2, 4))]]
    without = settings(candidates("max batch size", config(preferred=(2, 8)), seen))
    assert without == [[("max_batch_size", 4), (PREFERRED, None)]]


@pytest.mark.parametrize("delay", [0, 100, 500, 1000, 5000, 100_000])
@pytest.mark.parametrize("preferred", [(), (4,), (4, 8), (2, 4, 8, 16), (16,)])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_no_move_makes_a_preferred_size_a_hard_cap(delay, preferred, count):
    """Delay 0 with the largest preferred size below max_batch_size is never entered by a move of ours."""
    before = config(delay=delay, preferred=preferred, count=count)
    seen = curve((1, 5.0), (4, 8.0), (8, 30.0), (16, 90.0))
    for stage in STAGES:
        offered = candidates(stage, before, seen)
        for candidate in offered if not isinstance(offered, Passed) else ():
            assert isinstance(candidate, Candidate)
            moved = {s.path: s.value for s in candidate.change.settings}
            new_delay = moved.get(DELAY, delay) or 0
            new_preferred = moved.get(PREFERRED, preferred) or ()
            new_max = moved.get("max_batch_size", 16)
            entered = new_delay == 0 and new_preferred and max(new_preferred) < new_max
            was_there = delay == 0 and preferred and max(preferred) < 16
            assert not entered or was_there, (stage, candidate)
