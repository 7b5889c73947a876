"""Whatever the style of the file: an edit means exactly the change, leaves the rest, and can be undone."""

from hypothesis import given, settings
from hypothesis import strategies as st

from tritune.model.config import Change, Setting
from tritune.pbtxt import change as changing
from tritune.pbtxt import message
from tritune.pbtxt.document import document
from tritune.pbtxt.edit import edit
from tritune.pbtxt.errors import PbtxtError

DELAY = "dynamic_batching.max_queue_delay_microseconds"
PREFERRED = "dynamic_batching.preferred_batch_size"
COUNT = "instance_group.count"

sizes = st.lists(st.integers(1, 4096), min_size=1, max_size=4).map(tuple)
setting = st.one_of(
    st.builds(Setting, st.just("max_batch_size"), st.one_of(st.none(), st.integers(0, 4096))),
    st.builds(Setting, st.just("dynamic_batching"), st.sampled_from([None, "{}"])),
    st.builds(Setting, st.just(PREFERRED), st.one_of(st.none(), sizes)),
    st.builds(Setting, st.just(DELAY), st.one_of(st.none(), st.integers(0, 2**64 - 1))),
    st.builds(Setting, st.just(COUNT), st.one_of(st.none(), st.integers(1, 64))),
)
changes = st.lists(setting, min_size=1, max_size=3).map(lambda some: Change(tuple(some)))


@st.composite
def files(draw: st.DrawFn) -> str:
    """A legal config.pbtxt in an odd but consistent or inconsistent style."""
    newline = draw(st.sampled_from(["\n", "\r\n"]))
    comment = st.sampled_from(["", "", "", " # why [ { } ] : “x”"])
    gap = st.sampled_from([": ", ":", " : "])
    block_gap = st.sampled_from([" ", ": ", "", ":"])
    separator = st.sampled_from(["", "", "", ",", ";"])
    signs = st.sampled_from(["{}", "{}", "<>"])

    def scalar(name: str, value: str) -> str:
        return f"{name}{draw(gap)}{value}{draw(separator)}"

    def block(name: str, fields: list[str]) -> str:
        opening, closing = draw(signs)
        if draw(st.booleans()):
            body = " ".join(fields)
            inside = f" {body} " if body else ""
            return f"{name}{draw(block_gap)}{opening}{inside}{closing}{draw(separator)}"
        indent = draw(st.sampled_from(["  ", "    ", "\t", ""]))
        body = "".join(f"{indent}{field}{draw(comment)}{newline}" for field in fields)
        return f"{name}{draw(block_gap)}{opening}{newline}{body}{closing}{draw(separator)}"

    def preferred() -> list[str]:
        chosen = draw(st.lists(st.integers(1, 64), max_size=3))
        if draw(st.booleans()):
            return [scalar("preferred_batch_size", str(size)) for size in chosen]
        inner = draw(st.sampled_from([", ", ",", f",{newline}"])).join(map(str, chosen))
        return [scalar("preferred_batch_size", f"[{inner}]")]

    fields: list[str] = []
    if draw(st.booleans()):
        fields.append(scalar("name", draw(st.sampled_from(['"m"', "'m'", '"a" "b"']))))
    if draw(st.booleans()):
        fields.append(scalar("max_batch_size", draw(st.sampled_from(["8", "0", "0x10"]))))
    if draw(st.booleans()):
        inner = preferred() if draw(st.booleans()) else []
        inner += [scalar("max_queue_delay_microseconds", "100")] if draw(st.booleans()) else []
        inner += [scalar("preserve_ordering", "true")] if draw(st.booleans()) else []
        inner += [block("default_queue_policy", ["max_queue_size: 4"])] if draw(st.booleans()) else []
        fields.append(block("dynamic_batching", draw(st.permutations(inner))))
    if draw(st.booleans()):
        group = [scalar("kind", "KIND_CPU")] + ([scalar("count", "2")] if draw(st.booleans()) else [])
        listed = draw(st.booleans())
        one = block("instance_group", group)
        if listed:
            value = "{ " + " ".join(group) + " }" if draw(st.booleans()) else ""
            one = f"instance_group{draw(block_gap)}[{value}]"
        fields.append(one)
    if draw(st.booleans()):
        fields.append(block("input", [scalar("name", '"x"'), scalar("dims", "[ -1 ]")]))
    fields = draw(st.permutations(fields))
    between = st.sampled_from([newline, newline, newline * 2, f"{newline}# note{newline}", " "])
    text = "".join(
        field + draw(comment) + newline * draw(st.integers(0, 1)) + draw(between) for field in fields
    )
    return text if draw(st.booleans()) else text.rstrip()


def readable(text: str) -> bool:
    """The generator may put two fields behind one comment; that is legal, but `a: 1 # b c: 2` loses one."""
    try:
        message.parse(text)
    except PbtxtError:
        return False
    return True


@settings(max_examples=300, deadline=None)
@given(files().filter(readable), changes)
def test_edit_means_the_change_and_back_means_the_original(text: str, change: Change) -> None:
    before = message.parse(text)
    edited = edit(text, change)
    assert message.same(message.parse(edited), changing.apply(change, before))
    assert edited.endswith("\n") == text.endswith("\n") or text == "" or edited == ""
    if "\r\n" in text and "\n" not in text.replace("\r\n", ""):
        assert "\n" not in edited.replace("\r\n", "")
    assert edited.count("# note") == text.count("# note")
    for field in document(text).fields:
        if field.name in ("name", "input"):
            assert text[field.start : field.stop] in edited
    back = edit(edited, back_to(before))
    restored = message.parse(back)
    if not before.HasField("dynamic_batching") or message.parse(edited).HasField("dynamic_batching"):
        assert restored.max_batch_size == before.max_batch_size
        assert restored.dynamic_batching.preferred_batch_size == before.dynamic_batching.preferred_batch_size


def back_to(before: message.Message) -> Change:
    """The change that gives every field in reach its value in `before`."""
    some = [Setting("max_batch_size", before.max_batch_size or None)]
    if before.HasField("dynamic_batching"):
        block = before.dynamic_batching
        some.append(Setting(PREFERRED, tuple(block.preferred_batch_size) or None))
        some.append(Setting(DELAY, block.max_queue_delay_microseconds or None))
    else:
        some.append(Setting("dynamic_batching", None))
    return Change(tuple(some))
