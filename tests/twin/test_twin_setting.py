"""What Triton makes of a configuration and a version, and what the twin refuses in a sentence."""

from __future__ import annotations

import msgspec
import numpy as np
import pytest
from twin_play import LAZY, config

from tritune.errors import TrituneError, UsageError
from tritune.model.config import InstanceGroup, QueuePolicy, TensorSpec
from tritune.pbtxt.message import view_text
from tritune.twin.engine.setting import Policy, Setting, release_of, rules_of, setting_of
from tritune.twin.engine.simulate import ClosedLoop, Requests, simulate
from tritune.twin.engine.timing import Timing, draw


def test_preferred_sizes_are_filled_in_as_triton_does() -> None:
    assert setting_of(config(0)).preferred == (8,)
    assert setting_of(config(0, (4, 2, 4))).preferred == (2, 4)
    assert setting_of(config(0, largest=0)).preferred == ()
    assert not setting_of(config(dynamic=False)).dynamic


@pytest.mark.parametrize(
    ("policy", "block", "eager"),
    [
        (QueuePolicy(), {}, True),
        (QueuePolicy(timeout_action="DELAY"), {}, True),
        (QueuePolicy(max_queue_size=1), {}, False),
        (QueuePolicy(default_timeout_microseconds=1), {}, False),
        (QueuePolicy(allow_timeout_override=True), {}, False),
        (QueuePolicy(), {"priority_levels": 1, "default_priority_level": 1}, False),
    ],
)
def test_what_switches_to_lazy_dispatch(policy: QueuePolicy, block: dict[str, int], eager: bool) -> None:
    given = config(0, policy=policy, **block)
    assert setting_of(given, "24.10").eager == eager
    assert setting_of(given, "23.07").eager


def test_levels_have_their_own_policy_else_the_default() -> None:
    setting = setting_of(
        config(
            policy=QueuePolicy(max_queue_size=7),
            priority_levels=2,
            default_priority_level=2,
            priority_queue_policy=((1, QueuePolicy("REJECT", 500, True)),),
        )
    )
    assert setting.policies == (Policy(0, 500_000, True), Policy(7, 0, False))
    assert rules_of(setting).max_queue_size.tolist() == [0, 0, 7]


@pytest.mark.parametrize(
    ("tensor", "compared", "enforced"),
    [
        (TensorSpec("I", "FP32", (4,)), False, False),
        (TensorSpec("I", "FP32", (-1,)), True, True),
        (TensorSpec("I", "FP32", (-1,), allow_ragged_batch=True), False, False),
        (TensorSpec("I", "FP32", (4,), optional=True), True, False),
        (TensorSpec("I", "INT32", (4,), is_shape_tensor=True), True, True),
    ],
)
def test_which_inputs_must_be_equal(tensor: TensorSpec, compared: bool, enforced: bool) -> None:
    setting = setting_of(msgspec.structs.replace(config(0), input=(tensor,)))
    assert (setting.inputs_compared, setting.shapes_enforced) == (compared, enforced)


def test_the_next_preferred_size_is_the_next_above_else_the_smallest() -> None:
    rules = rules_of(setting_of(config(1, (2, 5))))
    assert rules.next_preferred.tolist() == [2, 2, 5, 5, 5, 2, 2, 2, 2]
    assert np.flatnonzero(rules.is_preferred).tolist() == [2, 5]


@pytest.mark.parametrize(
    ("version", "release"),
    [
        ("24.10", (24, 10)),
        ("2.51.0", (24, 10)),
        ("2.37.0", (23, 8)),
        ("2.44.0", (24, 3)),
        ("2.21.0", (22, 4)),
        ("24.03-py3", (24, 3)),
        ("2.51.0dev", (24, 10)),
    ],
)
def test_versions(version: str, release: tuple[int, int]) -> None:
    assert release_of(version) == release


def test_what_a_version_changes() -> None:
    given = config(0, policy=LAZY)
    assert setting_of(given, "24.03").ticks
    assert not setting_of(given, "24.02").ticks
    assert setting_of(given, "23.12").cancels
    assert not setting_of(given, "23.07").cancels
    assert setting_of(given, "") == setting_of(given, "26.06")


def test_a_version_that_is_none() -> None:
    with pytest.raises(UsageError) as error:
        release_of("latest")
    assert error.value.slug == "bad-version"


REPLACE = msgspec.structs.replace
REFUSED = {
    "DELAY": (config(policy=QueuePolicy("DELAY", 1000)), ""),
    "preserve_ordering": (config(preserve_ordering=True), ""),
    "response cache": (REPLACE(config(), response_cache=True), ""),
    "rate limiter": (REPLACE(config(), instance_group=(InstanceGroup(rate_limited=True),)), ""),
    "sequence batcher": (REPLACE(config(), sequence_batching=True), ""),
    "ensemble": (REPLACE(config(dynamic=False), ensemble_steps=("a", "b")), ""),
    "share one thread": (REPLACE(config(instances=2), backend="tensorrt"), ""),
    "older than 22.04": (config(), "22.03"),
    "23.08 to 23.11": (config(policy=LAZY), "23.10"),
    "older than 22.09": (config(1), "22.08"),
}


@pytest.mark.parametrize("what", REFUSED)
def test_what_is_refused(what: str) -> None:
    given, version = REFUSED[what]
    with pytest.raises(TrituneError, match=what) as error:
        setting_of(given, version)
    assert error.value.slug == "twin-unsupported"
    assert error.value.hint


SETTING = setting_of(config(0))
TIMING = Timing((1e6,) * 9)


@pytest.mark.parametrize(
    ("load", "timing", "slug"),
    [
        (Requests([5, 3]), TIMING, "bad-plan"),
        (Requests([-1]), TIMING, "bad-plan"),
        (ClosedLoop(0, 5), TIMING, "bad-plan"),
        (Requests([0], items=9), TIMING, "bad-items"),
        (Requests([0], items=0), TIMING, "bad-items"),
        (Requests([0]), Timing((1e6,) * 8), "service-times-missing"),
        (Requests([0]), Timing((1e6,) * 8 + (float("nan"),)), "service-times-missing"),
    ],
)
def test_a_load_that_cannot_be_played(load: Requests, timing: Timing, slug: str) -> None:
    with pytest.raises(UsageError) as error:
        simulate(SETTING, load, timing)
    assert error.value.slug == slug


def test_nothing_to_play() -> None:
    done = simulate(SETTING, Requests([]), TIMING)
    assert len(done.done_ns) == len(done.batch_start_ns) == 0


def test_draws_have_the_asked_for_moments_and_grow_at_the_end() -> None:
    timing = Timing((1.0,), cv=0.3, stall_p=0.05, stall_ns=7, lost_wakeup_p=0.2)
    draws = draw(timing, 200_000, seed=4)
    assert draws.noise.mean() == pytest.approx(1, abs=0.005)
    assert draws.noise.std() == pytest.approx(0.3, rel=0.02)
    assert (draws.stalls_ns == 7).mean() == pytest.approx(0.05, rel=0.05)
    few = draw(timing, 1000, seed=4)
    for name in ("noise", "stalls_ns", "wakeups"):
        assert (getattr(draws, name)[:1000] == getattr(few, name)).all()


def test_from_a_config_pbtxt_to_a_setting() -> None:
    setting = setting_of(
        view_text("""
            name: "m" backend: "onnxruntime" max_batch_size: 16
            input [ { name: "I" data_type: TYPE_FP32 dims: [ -1 ] },
                    { name: "S" data_type: TYPE_INT32 dims: [ 1 ] is_shape_tensor: true } ]
            output [ { name: "O" data_type: TYPE_FP32 dims: [ 1 ] } ]
            instance_group [ { count: 2 kind: KIND_CPU }, { count: 1 kind: KIND_GPU gpus: [ 0, 1 ] } ]
            dynamic_batching {
              preferred_batch_size: [ 8, 4 ] max_queue_delay_microseconds: 700
              priority_levels: 2 default_priority_level: 2
              default_queue_policy { default_timeout_microseconds: 9000 allow_timeout_override: true }
              priority_queue_policy { key: 1 value { max_queue_size: 5 } }
            }
        """),
        "2.51.0",
    )
    assert setting == Setting(
        instances=4,
        max_batch_size=16,
        dynamic=True,
        preferred=(4, 8),
        delay_ns=700_000,
        eager=False,
        priority_levels=2,
        default_priority_level=2,
        policies=(Policy(max_queue_size=5), Policy(0, 9_000_000, True)),
        shapes_enforced=True,
        inputs_compared=True,
    )


@pytest.mark.parametrize(
    ("field", "what"),
    [
        ("response_cache { enable: true }", "response cache"),
        ("instance_group [ { rate_limiter { resources [ { name: 'R' count: 1 } ] } } ]", "rate limiter"),
        ("sequence_batching { }", "sequence batcher"),
        ("dynamic_batching { preserve_ordering: true }", "preserve_ordering"),
    ],
)
def test_from_a_config_pbtxt_to_a_refusal(field: str, what: str) -> None:
    with pytest.raises(TrituneError, match=what):
        setting_of(view_text(f'name: "m" max_batch_size: 4 {field}'))
