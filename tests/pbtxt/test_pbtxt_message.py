"""Text, JSON and message say the same; a change and a pin do what they say and nothing else."""

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tritune.errors import TrituneError
from tritune.model.config import (
    Change,
    DynamicBatching,
    EnsembleStep,
    InstanceGroup,
    QueuePolicy,
    Setting,
    TensorSpec,
    Value,
)
from tritune.pbtxt import message

CASES = Path(__file__).parents[1] / "data" / "cases"
PARSES = sorted(
    name
    for name, entry in json.loads((CASES / "MANIFEST.json").read_text())["files"].items()
    if entry["parses"]
)
CONFIG = json.dumps(
    {
        "name": "m",
        "backend": "python",
        "max_batch_size": 8,
        "version_policy": {"latest": {"num_versions": 1}},
        "input": [{"name": "x", "data_type": "TYPE_STRING", "dims": [-1, 3], "optional": True}],
        "output": [{"name": "y", "data_type": "TYPE_FP32", "dims": ["2"]}],
        "instance_group": [{"name": "m_0", "kind": "KIND_CPU", "count": 2, "gpus": []}],
        "dynamic_batching": {"preferred_batch_size": [8], "max_queue_delay_microseconds": 500},
        "parameters": {"b": {"string_value": "2"}, "a": {"string_value": "1"}},
    }
)


def to(*pairs: tuple[str, Value]) -> Change:
    return Change(tuple(Setting(path, value) for path, value in pairs))


def after(change: Change, config: str = CONFIG) -> dict[str, object]:
    result: dict[str, object] = json.loads(message.apply_json(change, config))
    return result


@pytest.mark.parametrize("name", PARSES)
def test_text_and_json_are_the_same_configuration(name: str) -> None:
    text = (CASES / name).read_text(encoding="utf-8")
    as_json = message.json_of_text(text)
    assert message.same_json(as_json, message.json_of_text(message.text_of_json(as_json)))
    assert message.same_text(text, message.text_of_json(as_json))
    assert message.view_text(text) == message.view_json(as_json)


def test_view_of_an_effective_configuration() -> None:
    view = message.view_json(CONFIG)
    assert view.name == "m"
    assert view.backend == "python"
    assert view.input == (TensorSpec("x", "BYTES", (-1, 3), optional=True),)
    assert view.output == (TensorSpec("y", "FP32", (2,)),)
    assert view.dynamic_batching == DynamicBatching((8,), 500)
    assert view.instance_group == (InstanceGroup("m_0", "KIND_CPU", 2),)
    assert (view.instances, view.preferred, view.sequence_batching, view.decoupled) == (2, (8,), False, False)


def test_view_of_a_text() -> None:
    view = message.view_text(
        "max_batch_size: 4 instance_group { kind: KIND_GPU gpus: [0, 1] } instance_group { passive: true }"
        "dynamic_batching { priority_levels: 2 preserve_ordering: true default_queue_policy {"
        " timeout_action: DELAY default_timeout_microseconds: 9 allow_timeout_override: true"
        " max_queue_size: 7 } }"
        "model_transaction_policy { decoupled: true } input { data_type: TYPE_BF16 allow_ragged_batch: true }"
    )
    assert view.instance_group == (InstanceGroup("", "KIND_GPU", 1, (0, 1)), InstanceGroup(passive=True))
    assert view.dynamic_batching == DynamicBatching((), 0, True, 2, QueuePolicy("DELAY", 9, True, 7))
    assert view.decoupled
    assert view.input == (TensorSpec("", "BF16", (), allow_ragged_batch=True),)
    assert message.view_text("sequence_batching { }").sequence_batching
    steps = "ensemble_scheduling { step { model_name: 'a' } step { model_name: 'b' } }"
    assert message.view_text(steps).ensemble_steps == ("a", "b")
    taken = "input_map { key: 'x' value: 'in' } input_map { key: 'z' value: 'in' }"
    first = f"model_name: 'a' model_version: -1 {taken}"
    second = "model_name: 'b' model_version: 3 output_map { key: 'y' value: 'out' }"
    view = message.view_text(f"ensemble_scheduling {{ step {{ {first} }} step {{ {second} }} }}")
    assert view.ensemble == (EnsembleStep("a", -1, ("in",), ()), EnsembleStep("b", 3, (), ("out",)))
    assert view.ensemble_in_flight == 0
    assert message.view_text("ensemble_scheduling { max_inflight_requests: 9 }").ensemble_in_flight == 9
    assert message.view_text("").dynamic_batching is None


def test_equality_does_not_depend_on_the_order_of_maps_and_fields() -> None:
    fields = json.loads(CONFIG)
    fields["parameters"] = dict(reversed(fields["parameters"].items()))
    assert message.same_json(CONFIG, json.dumps(dict(reversed(fields.items()))))
    fields["parameters"]["a"]["string_value"] = "3"
    assert not message.same_json(CONFIG, json.dumps(fields))


def test_an_empty_block_is_not_a_missing_one() -> None:
    assert not message.same_json('{"dynamic_batching": {}}', "{}")
    assert after(to(("dynamic_batching", "{}")), "{}") == {"dynamic_batching": {}}
    assert after(to(("dynamic_batching", "{}")))["dynamic_batching"] == {}
    assert "dynamic_batching" not in after(to(("dynamic_batching", None)))


def test_a_change_touches_only_its_fields() -> None:
    original = json.loads(message.json_of(message.message_of_json(CONFIG)))
    changed = after(to(("dynamic_batching.max_queue_delay_microseconds", 100), ("instance_group.count", 4)))
    assert changed["dynamic_batching"] == {"preferred_batch_size": [8], "max_queue_delay_microseconds": "100"}
    assert changed["instance_group"] == [{"name": "m_0", "kind": "KIND_CPU", "count": 4}]
    for name in original.keys() - {"dynamic_batching", "instance_group"}:
        assert changed[name] == original[name]


@pytest.mark.parametrize(
    ("change", "sizes"),
    [
        (to(("max_batch_size", 4)), []),
        (to(("max_batch_size", 8)), [8]),
        (to(("max_batch_size", None)), []),
        (to(("max_batch_size", 16), ("dynamic_batching.preferred_batch_size", (8,))), [8]),
        (to(("dynamic_batching.preferred_batch_size", (8,)), ("max_batch_size", 16)), [8]),
    ],
)
def test_the_filled_in_preferred_size_goes_when_the_maximum_changes(change: Change, sizes: list[int]) -> None:
    result = message.message_of_json(message.apply_json(change, CONFIG))
    assert list(result.dynamic_batching.preferred_batch_size) == sizes


def test_a_new_group_and_several_groups() -> None:
    assert after(to(("instance_group.count", 3)), "{}") == {"instance_group": [{"count": 3}]}
    assert after(to(("instance_group.count", None)), "{}") == {}
    two = '{"instance_group": [{"count": 1}, {"count": 2}]}'
    with pytest.raises(TrituneError) as raised:
        message.apply_json(to(("instance_group.count", 3)), two)
    assert raised.value.slug == "several-instance-groups"


def test_removing_from_no_block_makes_none() -> None:
    assert after(to(("dynamic_batching.preferred_batch_size", None)), "{}") == {}


def test_dynamic_batching_never_replaces_another_scheduler() -> None:
    with pytest.raises(TrituneError) as raised:
        message.apply_json(to(("dynamic_batching", "{}")), '{"sequence_batching": {}}')
    assert raised.value.slug == "other-scheduler"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        ("name", 1),
        ("max_batch_size", -1),
        ("max_batch_size", (8,)),
        ("max_batch_size", "{}"),
        ("dynamic_batching", 1),
        ("dynamic_batching.preferred_batch_size", 4),
        ("dynamic_batching.preferred_batch_size", (0,)),
        ("dynamic_batching.max_queue_delay_microseconds", 2**64),
        ("instance_group.count", 0),
    ],
)
def test_settings_that_are_none(path: str, value: Value) -> None:
    with pytest.raises(TrituneError) as raised:
        message.apply_json(to((path, value)), CONFIG)
    assert raised.value.slug == "bad-setting"


def test_pinning_serves_exactly_these_versions() -> None:
    pinned = json.loads(message.pin_json(CONFIG, ["12", 3, "3"]))
    assert pinned["version_policy"] == {"specific": {"versions": ["3", "12"]}}
    del pinned["version_policy"]
    expected = json.loads(message.json_of(message.message_of_json(CONFIG)))
    del expected["version_policy"]
    assert pinned == expected
    with pytest.raises(TrituneError) as raised:
        message.pin_json(CONFIG, [])
    assert raised.value.slug == "no-version-to-pin"


@pytest.mark.parametrize(
    ("config", "slug", "words"),
    [
        ('{"new_thing": 1}', "config-newer-fields", "new_thing"),
        ('{"dynamic_batching": {"new_thing": 1}}', "config-newer-fields", "dynamic_batching.new_thing"),
        ('{"input": [{"a": 1}]}', "config-newer-fields", "input[0].a"),
        ('{"input": [{"data_type": "TYPE_FP4"}]}', "config-newer-fields", "TYPE_FP4"),
        ('{"max_batch_size": "many"}', "bad-config-json", "max_batch_size"),
        ("[]", "bad-config-json", "object"),
        ("<html>", "bad-config-json", "object"),
        ("{", "bad-config-json", "JSON"),
    ],
)
def test_json_that_is_not_understood_is_never_used(config: str, slug: str, words: str) -> None:
    for use in (message.view_json, message.text_of_json, lambda text: message.same_json(text, text)):
        with pytest.raises(TrituneError) as raised:
            use(config)
        assert raised.value.slug == slug
        assert words in raised.value.message
        assert "\n" not in raised.value.message


def test_importing_costs_neither_protobuf_nor_the_grammar() -> None:
    code = (
        "import sys, tritune.pbtxt.message, tritune.pbtxt.diff\n"
        "sys.exit(any(name in sys.modules for name in ('google.protobuf', 'tritonclient', 'lark', 'grpc')))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
