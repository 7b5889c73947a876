"""Edits in place: exactly what they write, and that a case file comes back when the edit is undone."""

# ruff: noqa: E501, ISC004 - a table of whole files reads best with one file in a line.

import difflib
from pathlib import Path

import pytest

from tritune.errors import TrituneError
from tritune.model.config import Change, Setting, Value
from tritune.pbtxt import edit as editing
from tritune.pbtxt import message
from tritune.pbtxt.edit import edit
from tritune.pbtxt.errors import PbtxtError

CASES = Path(__file__).parents[1] / "data" / "cases"
DELAY = "dynamic_batching.max_queue_delay_microseconds"
PREFERRED = "dynamic_batching.preferred_batch_size"
COUNT = "instance_group.count"


def to(*pairs: tuple[str, Value]) -> Change:
    return Change(tuple(Setting(path, value) for path, value in pairs))


EDITS = [
    # values in place; comments stay
    ("max_batch_size : 8 # why\n", to(("max_batch_size", 16)), "max_batch_size : 16 # why\n"),
    ("max_batch_size:8", to(("max_batch_size", 16)), "max_batch_size:16"),
    ("dynamic_batching { preferred_batch_size: [2,4] }", to((PREFERRED, (1, 2, 3))),
     "dynamic_batching { preferred_batch_size: [1,2,3] }"),
    ("dynamic_batching { preferred_batch_size: [\n  2,\n  4\n] }", to((PREFERRED, (4, 8, 16))),
     "dynamic_batching { preferred_batch_size: [\n  4,\n  8,\n  16\n] }"),
    ("dynamic_batching {\n  preferred_batch_size: 2\n}\n", to((PREFERRED, (4, 8))),
     "dynamic_batching {\n  preferred_batch_size: [ 4, 8 ]\n}\n"),
    ("dynamic_batching {\n  preferred_batch_size: 2\n}\n", to((PREFERRED, (4,))),
     "dynamic_batching {\n  preferred_batch_size: 4\n}\n"),
    # one line per size
    ("dynamic_batching {\n  preferred_batch_size: 4 # a\n  preferred_batch_size: 8\n}\n", to((PREFERRED, (2,))),
     "dynamic_batching {\n  preferred_batch_size: 2 # a\n}\n"),
    ("dynamic_batching {\n  preferred_batch_size: 4\n  preferred_batch_size: 8 # b\n  preserve_ordering: true\n}\n",
     to((PREFERRED, (1, 2, 3))),
     "dynamic_batching {\n  preferred_batch_size: 1\n  preferred_batch_size: 2 # b\n"
     "  preferred_batch_size: 3\n  preserve_ordering: true\n}\n"),
    ("dynamic_batching { preferred_batch_size: 4 preferred_batch_size: 8 }", to((PREFERRED, (1, 2, 3))),
     "dynamic_batching { preferred_batch_size: 1 preferred_batch_size: 2 preferred_batch_size: 3 }"),
    ("dynamic_batching { preferred_batch_size: [4] preferred_batch_size: 8 }", to((PREFERRED, (1, 2))),
     "dynamic_batching { preferred_batch_size: [1, 2] }"),
    # new fields in the style of the file
    ("dynamic_batching { }\n", to((DELAY, 5)), "dynamic_batching { max_queue_delay_microseconds: 5 }\n"),
    ("dynamic_batching {}\n", to((DELAY, 5)), "dynamic_batching { max_queue_delay_microseconds: 5 }\n"),
    ("dynamic_batching {\n}\n", to((DELAY, 5)), "dynamic_batching {\n  max_queue_delay_microseconds: 5\n}\n"),
    ("dynamic_batching {\n    # soon\n}\ninput {\n    dims: 1\n}\n", to((DELAY, 5)),
     "dynamic_batching {\n    # soon\n    max_queue_delay_microseconds: 5\n}\ninput {\n    dims: 1\n}\n"),
    ("dynamic_batching {\n    preserve_ordering: true # o\n}", to((DELAY, 5)),
     "dynamic_batching {\n    preserve_ordering: true # o\n    max_queue_delay_microseconds: 5\n}"),
    ("dynamic_batching {\n\tpreserve_ordering: true,\n}", to((DELAY, 5)),
     "dynamic_batching {\n\tpreserve_ordering: true,\n\tmax_queue_delay_microseconds: 5,\n}"),
    ("dynamic_batching {\n  preserve_ordering: true }", to((DELAY, 5)),
     "dynamic_batching {\n  preserve_ordering: true\n  max_queue_delay_microseconds: 5 }"),
    ("dynamic_batching { preserve_ordering: true, priority_levels: 1 }", to((DELAY, 5)),
     "dynamic_batching { preserve_ordering: true, priority_levels: 1, max_queue_delay_microseconds: 5 }"),
    ("  name: \"m\"\n  input: {\n     dims: [1]\n  }\n", to((DELAY, 5)),
     "  name: \"m\"\n  input: {\n     dims: [1]\n  }\n  dynamic_batching: {\n     max_queue_delay_microseconds: 5\n  }\n"),
    ("name: \"m\"\r\ninput {\r\n  dims: 1\r\n}", to((DELAY, 5)),
     "name: \"m\"\r\ninput {\r\n  dims: 1\r\n}\r\ndynamic_batching {\r\n  max_queue_delay_microseconds: 5\r\n}"),
    ("name: \"m\" input {\n  dims: 1\n}\n", to(("max_batch_size", 4)), "name: \"m\" max_batch_size: 4 input {\n  dims: 1\n}\n"),
    ("", to(("max_batch_size", 4)), "max_batch_size: 4\n"),
    ("# c", to(("max_batch_size", 4)), "# c\nmax_batch_size: 4"),
    ("name: \"m\"\n", to(("dynamic_batching", "{}")), "name: \"m\"\ndynamic_batching { }\n"),
    ("dynamic_batching {\n  preferred_batch_size: 4 # x\n}\n", to(("dynamic_batching", "{}")), "dynamic_batching { }\n"),
    # plain batching keeps what it does not name
    ("dynamic_batching {\n  # why\n  preferred_batch_size: [ 4 ] # a\n  max_queue_delay_microseconds: 5\n"
     "  preserve_ordering: true\n}\n", to((PREFERRED, None), (DELAY, None)),
     "dynamic_batching {\n  # why\n  preserve_ordering: true\n}\n"),
    # removing
    ("name: \"m\"\n\ndynamic_batching {\n  preserve_ordering: true\n} # end\n\ninput { }\n", to(("dynamic_batching", None)),
     "name: \"m\"\n\ninput { }\n"),
    ("name: \"m\"\n\ndynamic_batching { }", to(("dynamic_batching", None)), "name: \"m\""),
    ("name: \"m\"\n\ndynamic_batching { }\n", to(("dynamic_batching", None)), "name: \"m\"\n"),
    ("dynamic_batching { }\n\nname: \"m\"\n", to(("dynamic_batching", None)), "name: \"m\"\n"),
    ("name: \"m\", max_batch_size: 8, backend: \"b\"\n", to(("max_batch_size", None)), "name: \"m\", backend: \"b\"\n"),
    ("dynamic_batching { preserve_ordering: true, max_queue_delay_microseconds: 1 }", to((DELAY, None)),
     "dynamic_batching { preserve_ordering: true }"),
    ("dynamic_batching {max_queue_delay_microseconds: 1}", to((DELAY, None)), "dynamic_batching {}"),
    ("dynamic_batching {\n  max_queue_delay_microseconds: 1 }", to((DELAY, None)), "dynamic_batching {\n  }"),
    ("dynamic_batching { max_queue_delay_microseconds: 0 }", to((DELAY, None)), "dynamic_batching { }"),
    # instances
    ("instance_group [ { kind: KIND_CPU } ]\n", to((COUNT, 3)), "instance_group [ { kind: KIND_CPU count: 3 } ]\n"),
    ("instance_group [\n  {\n    count: 1 # one\n  }\n]\n", to((COUNT, 3)), "instance_group [\n  {\n    count: 3 # one\n  }\n]\n"),
    ("instance_group {\n  kind: KIND_CPU\n}\n", to((COUNT, 3)), "instance_group {\n  kind: KIND_CPU\n  count: 3\n}\n"),
    ("name: \"m\"\n", to((COUNT, 3)), "name: \"m\"\ninstance_group [ { count: 3 } ]\n"),
    ("instance_group []\n", to((COUNT, 3)), "instance_group [ { count: 3 } ]\n"),
    ("instance_group: [{ count: 2, kind: KIND_CPU }]\n", to((COUNT, None)), "instance_group: [{ kind: KIND_CPU }]\n"),
    # the size that Triton would have filled in goes before the maximum changes; chosen sizes stay
    ("max_batch_size: 8\ndynamic_batching {\n  preferred_batch_size: [ 8 ]\n}\n", to(("max_batch_size", 4)),
     "max_batch_size: 4\ndynamic_batching {\n}\n"),
    ("max_batch_size: 8\ndynamic_batching { preferred_batch_size: [ 4, 8 ] }\n", to(("max_batch_size", 16)),
     "max_batch_size: 16\ndynamic_batching { preferred_batch_size: [ 4, 8 ] }\n"),
    ("max_batch_size: 8\ndynamic_batching { preferred_batch_size: [ 8 ] }\n", to((PREFERRED, (8,)), ("max_batch_size", 16)),
     "max_batch_size: 16\ndynamic_batching { preferred_batch_size: [ 8 ] }\n"),
    # nothing to do
    ("max_batch_size: 0x8\n", to(("max_batch_size", 8)), "max_batch_size: 0x8\n"),
    ("name: \"m\"\n", to((DELAY, None), ("dynamic_batching", None), (COUNT, None)), "name: \"m\"\n"),
]  # fmt: skip


@pytest.mark.parametrize(("before", "change", "after"), EDITS, ids=[f"{b!r}: {c}" for b, c, _ in EDITS])
def test_edit_writes_exactly_this(before: str, change: Change, after: str) -> None:
    assert edit(before, change) == after


def readable(text: str) -> bool:
    try:
        message.parse(text)
    except PbtxtError:
        return False
    return True


@pytest.mark.parametrize("path", sorted(CASES.glob("*.pbtxt")), ids=lambda path: path.name)
def test_single_edits_of_case_files_and_back(path: Path) -> None:
    """One value there and back: the same text where the field was there, the same message where it was not."""
    with path.open(encoding="utf-8", newline="") as file:
        text = file.read()
    if not readable(text):
        with pytest.raises(PbtxtError):
            edit(text, to(("max_batch_size", 3)))
        return
    before = message.parse(text)
    for name in ("max_batch_size", DELAY, COUNT):
        owner, _, field = name.rpartition(".")
        if owner == "instance_group" and len(before.instance_group) > 1:
            continue
        if owner == "dynamic_batching" and before.HasField("sequence_batching"):
            continue
        held = before.instance_group[0] if name == COUNT and before.instance_group else before
        held = before.dynamic_batching if owner == "dynamic_batching" else held
        old = getattr(held, field, 0)
        edited = edit(text, to((name, 37)))
        changed = [line for line in difflib.ndiff(text.split("\n"), edited.split("\n")) if line[0] in "+-"]
        if old and not (
            name == "max_batch_size" and list(before.dynamic_batching.preferred_batch_size) == [old]
        ):
            assert len(changed) == 2
            assert edit(edited, to((name, old))) == text.replace("0x08", "8")
        elif name != COUNT and (owner == "" or before.HasField(owner)):
            assert message.same(message.parse(edit(edited, to((name, None)))), before)


def test_an_edit_that_would_not_mean_the_change_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(editing, "_set", lambda text, setting, style: text)
    with pytest.raises(TrituneError, match="cannot be edited safely") as raised:
        edit("max_batch_size: 8", to(("max_batch_size", 16)))
    assert raised.value.slug == "edit-refused"
    monkeypatch.setattr(editing, "_set", lambda text, setting, style: "max_batch_size: 16 }")
    with pytest.raises(TrituneError) as raised:
        edit("max_batch_size: 8", to(("max_batch_size", 16)))
    assert raised.value.slug == "edit-refused"
