"""The batcher goes once more through its loop before an idle instance has woken up."""

from __future__ import annotations

import pytest

from tritune.model.config import DynamicBatching, InstanceGroup, ServingConfig
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import Requests, simulate
from tritune.twin.engine.timing import Timing
from tritune.units import NS_PER_MS


@pytest.mark.parametrize(("instances", "sizes"), [(1, [4, 1]), (2, [5])])
def test_a_preferred_batch_takes_one_more_while_an_instance_wakes_up(
    instances: int, sizes: list[int]
) -> None:
    """As a 24.10 does: two levels, P = {4}; level 1 reaches 4 at 10 ms while a request of level 2 waits.

    With two instances another is idle, so the batcher may go on, and the payload of 4 takes the fifth
    (rule 3): 12 of 16 times. With one instance there is no slot left: 4 and 1, 16 of 16 times.
    """
    config = ServingConfig(
        name="m",
        max_batch_size=8,
        dynamic_batching=DynamicBatching(
            preferred_batch_size=(4,),
            max_queue_delay_microseconds=100_000,
            priority_levels=2,
            default_priority_level=2,
        ),
        instance_group=(InstanceGroup(kind="KIND_CPU", count=instances),),
    )
    done = simulate(
        setting_of(config, "24.10"),
        Requests([0, 2 * NS_PER_MS, 10 * NS_PER_MS], items=[1, 1, 3], priority=[1, 2, 1]),
        Timing(service_ns=(5.0 * NS_PER_MS,) * 9),
    )
    assert done.batch_items.tolist() == sizes
    assert done.batch_start_ns[0] == 10 * NS_PER_MS
