"""Change a config.pbtxt in place: comments, order and formatting stay, and nothing else may change."""

from __future__ import annotations

from tritune.errors import TrituneError
from tritune.model.config import Change, Setting
from tritune.pbtxt import message, splicing
from tritune.pbtxt.change import all_settings, apply
from tritune.pbtxt.document import Block, Document, Field, Listing, Scalar, Splice, document
from tritune.pbtxt.style import Style, indentation, style_of

_PREFERRED = "dynamic_batching.preferred_batch_size"


def edit(text: str, change: Change, path: str = message.PATH) -> str:
    """`text` with `change` made in it; every line that the change does not concern is byte for byte the same.

    The result is accepted only if Triton reads it as exactly `change.apply(change, parse(text))`; otherwise
    TrituneError "edit-refused". Raises PbtxtError where `text` itself cannot be read, and what
    `change.apply` raises.
    """
    before = message.parse(text, path)
    wanted = apply(change, before)
    edited, style = text, style_of(document(text))  # the file's own style, even if emptied on the way
    for setting in all_settings(change, before):
        edited = _set(edited, setting, style)
    if text and not text.endswith("\n"):  # emptied on the way, it would end like a new file
        edited = edited.removesuffix("\n").removesuffix("\r")
    try:
        accepted = message.same(message.parse(edited, path), wanted)
    except TrituneError:
        accepted = False
    if not accepted:
        raise TrituneError(
            f"{path} cannot be edited safely for '{change}'",
            slug="edit-refused",
            hint="Make this change by hand; the file is untouched.",
        )
    return edited


def _set(text: str, setting: Setting, style: Style) -> str:
    now = document(text)
    if not (setting.value is None and now.find(setting.path)):
        parsed = message.parse(text)
        if message.same(apply(Change((setting,)), parsed), parsed):
            return text
    value = setting.value
    if value is None or value == ():
        return _removed(text, setting.path)
    if setting.path == "dynamic_batching":
        return _emptied(now, style)
    if setting.path == "instance_group.count":
        return _counted(now, style, str(value))
    if isinstance(value, tuple):
        return _preferred(now, style, value)
    return _scalar(now, style, setting.path, str(value))


def _removed(text: str, path: str) -> str:
    now = document(text)
    while found := now.find(path):
        now = document(splicing.without(now, found[-1]))
    return now.text


def _emptied(now: Document, style: Style) -> str:
    for field in now.find("dynamic_batching"):
        block = field.value
        return now.spliced([Splice(block.start + 1, block.end - 1, " ")])
    return _new_at_top(now, style, [f"dynamic_batching{style.block_gap}{{ }}"])


def _scalar(now: Document, style: Style, path: str, value: str) -> str:
    if found := now.find(path):
        return now.spliced([Splice(found[-1].value.start, found[-1].value.end, value)])
    name = path.split(".")[-1]
    line = f"{name}{style.scalar_colon}{value}"
    if "." in path:
        return _in_batching(now, style, line)
    # Beside what names the model, where Triton's own examples have it.
    beside = [field for field in now.fields if field.name in ("name", "platform", "backend")]
    anchors = beside or list(now.fields)
    return splicing.at_top(now, style, [line], anchors[-1] if anchors else None)


def _in_batching(now: Document, style: Style, line: str) -> str:
    for field in now.find("dynamic_batching"):
        if isinstance(field.value, Block):
            return splicing.in_block(now, style, field.value, line)
    head = f"dynamic_batching{style.block_gap}{{"
    lines = [f"{head} {line} }}"] if style.one_line else [head, style.indent + line, "}"]
    return _new_at_top(now, style, lines)


def _new_at_top(now: Document, style: Style, lines: list[str]) -> str:
    return splicing.at_top(now, style, lines, now.fields[-1] if now.fields else None)


def _counted(now: Document, style: Style, count: str) -> str:
    groups = now.find("instance_group")
    line = f"count{style.scalar_colon}{count}"
    for field in groups:
        for block in field.blocks:
            own = [inner for inner in block.fields if inner.name == "count"]
            if own:
                return now.spliced([Splice(own[-1].value.start, own[-1].value.end, count)])
            return splicing.in_block(now, style, block, line)
    for field in groups:  # `instance_group []`
        return now.spliced([Splice(field.value.start, field.value.end, f"[ {{ {line} }} ]")])
    return _new_at_top(now, style, [f"instance_group{style.list_gap}[ {{ {line} }} ]"])


def _preferred(now: Document, style: Style, sizes: tuple[int, ...]) -> str:
    found = now.find(_PREFERRED)
    name = "preferred_batch_size"
    if not found:
        return _in_batching(now, style, f"{name}{style.scalar_colon}{style.listing(sizes)}")
    if len(found) > 1 and all(isinstance(field.value, Scalar) for field in found):
        return _one_each(now, style, found, sizes)
    value = found[0].value
    if isinstance(value, Scalar) and len(sizes) == 1:
        shown = str(sizes[0])
    else:
        shown = _like(now.text, style, value, sizes) if isinstance(value, Listing) else style.listing(sizes)
    text = now.spliced([Splice(value.start, value.end, shown)])
    for _ in found[1:]:
        again = document(text)
        text = splicing.without(again, again.find(_PREFERRED)[-1])
    return text


def _like(text: str, style: Style, value: Listing, sizes: tuple[int, ...]) -> str:
    """New sizes in the spacing of the list they replace, line by line where that one is."""
    if not value.items:
        return style.listing(sizes)
    first, last = value.items[0], value.items[-1]
    between = text[first.end : value.items[1].start] if len(value.items) > 1 else style.list_comma
    if "#" in between:  # the comment belongs to the size before it
        between = "," + style.newline + indentation(text, value.items[1].start)
    opening, closing = text[value.start : first.start], text[last.end : value.end]
    return opening + between.join(map(str, sizes)) + closing


def _one_each(now: Document, style: Style, found: tuple[Field, ...], sizes: tuple[int, ...]) -> str:
    """`preferred_batch_size: 4` once per size, as the file has it."""
    text = now.spliced(
        Splice(field.value.start, field.value.end, str(size))
        for field, size in zip(found, sizes, strict=False)
    )
    for _ in found[len(sizes) :]:
        again = document(text)
        text = splicing.without(again, again.find(_PREFERRED)[-1])
    lead = now.text[found[-1].start : found[-1].value.start]
    for size in sizes[len(found) :]:
        again = document(text)
        for field in again.find("dynamic_batching"):
            if isinstance(field.value, Block):
                anchor = again.find(_PREFERRED)[-1]
                text = splicing.in_block(again, style, field.value, f"{lead}{size}", anchor)
    return text
