"""A model's configuration as text, as JSON and as Triton's own message; the doors of this package.

Protobuf and the message classes are imported inside the functions: they cost 0.2 s, and the first screen
of a command that needs none of this should not wait for them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from tritune.errors import TrituneError
from tritune.model.config import Change, ServingConfig
from tritune.pbtxt.change import apply, pin_versions
from tritune.pbtxt.errors import PbtxtError
from tritune.pbtxt.grammar import tokens
from tritune.pbtxt.reader import check
from tritune.pbtxt.view import view

if TYPE_CHECKING:
    from google.protobuf.descriptor import Descriptor

# inference.ModelConfig; tritonclient ships its generated class without types.
Message = Any

MARK = "tritune_trial"
PATH = "config.pbtxt"


def new_message() -> Message:
    """An empty inference.ModelConfig."""
    from tritonclient.grpc import model_config_pb2

    return model_config_pb2.ModelConfig()


def parse(text: str, path: str = PATH) -> Message:
    """The configuration that Triton reads from `text`; `path` is named in errors.

    An empty text is an empty configuration. Raises PbtxtError where Triton's parser would refuse.
    """
    from google.protobuf import text_format

    message = new_message()
    descriptor: Descriptor = message.DESCRIPTOR
    check(text, descriptor, path)
    try:
        # Merge, not Parse: `check` has applied C++'s rule for repetition, and Python's is another.
        text_format.Merge(_as_python_reads(text), message)
    except (text_format.ParseError, UnicodeDecodeError) as error:
        line = getattr(error, "GetLine", lambda: None)() or 1
        column = getattr(error, "GetColumn", lambda: None)() or 1
        raise PbtxtError(
            f"this cannot be read: {str(error).splitlines()[0]}",
            path=path,
            line=line,
            column=column,
            hint="Texts must be UTF-8; check the escapes in them.",
        ) from error
    return message


def _as_python_reads(text: str) -> str:
    """The same configuration without what only C++ reads: `- 1`, and a few escapes in texts."""
    pieces: list[str] = []
    done = 0
    minus_end: int | None = None
    for token in tokens(text):
        start, end = token.start_pos or 0, token.end_pos or 0
        if minus_end is not None:
            pieces.append(text[done:minus_end])
            done = start
        elif token.type == "STRING" and "\\" in token:
            pieces += [text[done:start], re.sub(r"\\([4-7][0-7]{2}|.)", _python_escape, token)]
            done = end
        minus_end = end if token.type == "MINUS" else None
    return "".join([*pieces, text[done:]])


def _python_escape(match: re.Match[str]) -> str:
    escape = match[1]
    if escape == "?":
        return "?"
    if escape == "X":
        return "\\x"
    return f"\\{int(escape, 8) & 0xFF:03o}" if len(escape) == 3 else match[0]  # one byte, as C++ keeps it


def message_of_json(config_json: str) -> Message:
    """The message of a configuration as Triton's config endpoint gives it (or as `json_of` does).

    Raises TrituneError "config-newer-fields" for a field or value this tritune does not know: it would be
    lost in an override, so a server that is newer than our message definitions is never written to.
    """
    from google.protobuf import json_format

    message = new_message()
    if not config_json.lstrip().startswith("{"):  # json_format reads [] as an empty message
        raise TrituneError(
            "the configuration is not a model configuration in JSON: it is no object",
            slug="bad-config-json",
            hint="Is the URL really that of a Triton server?",
        )
    try:
        json_format.Parse(config_json, message)
    except json_format.ParseError as error:
        reason = str(error)
        if unknown := re.search(r'no field named "([^"]+)"(?: at "([^"]+)")?', reason):
            within = (unknown[2] or "").removeprefix("ModelConfig").lstrip(".")
            name = f"{within}.{unknown[1]}" if within else unknown[1]
            raise TrituneError(
                f"the server's configuration has a field that this tritune does not know: {name}",
                slug="config-newer-fields",
                hint="Update tritonclient (pip install -U 'tritonclient[grpc]') and try again.",
            ) from error
        if unknown := re.search(r"Invalid enum value (\S+) for enum type (\S+?)\.?(?:$|\s|,)", reason):
            raise TrituneError(
                "the server's configuration has a value that this tritune does not know: "
                f"{unknown[1]} of {unknown[2]}",
                slug="config-newer-fields",
                hint="Update tritonclient (pip install -U 'tritonclient[grpc]') and try again.",
            ) from error
        raise TrituneError(
            f"the configuration is not a model configuration in JSON: {reason}",
            slug="bad-config-json",
            hint="Is the URL really that of a Triton server?",
        ) from error
    return message


def json_of(message: Message) -> str:
    """The message as JSON with Triton's field names: what a load takes as its config override."""
    from google.protobuf import json_format

    return json_format.MessageToJson(message, preserving_proto_field_name=True, indent=None)


def text_of(message: Message) -> str:
    """The message as a config.pbtxt; maps in the order of their keys."""
    from google.protobuf import text_format

    return text_format.MessageToString(message, use_index_order=True, as_utf8=True)


def same(one: Message, other: Message) -> bool:
    """Whether two configurations are equal: as deterministic serialisation, whatever the order of maps."""
    return bool(one.SerializeToString(deterministic=True) == other.SerializeToString(deterministic=True))


def view_text(text: str, path: str = PATH) -> ServingConfig:
    """What decides how requests wait, merge and run, as the file says it (nothing filled in by Triton)."""
    return view(parse(text, path))


def view_json(config_json: str) -> ServingConfig:
    """What decides how requests wait, merge and run, from the config endpoint's JSON."""
    return view(message_of_json(config_json))


def apply_json(change: Change, config_json: str) -> str:
    """The configuration after `change`, as JSON for a load. Errors as `change.apply`."""
    return json_of(apply(change, message_of_json(config_json)))


def pin_json(config_json: str, versions: Iterable[str | int]) -> str:
    """The same configuration serving exactly `versions`, so that a load brings no other version."""
    return json_of(pin_versions(message_of_json(config_json), versions))


def trial_json(config_json: str, versions: Iterable[str | int]) -> str:
    """The configuration as a trial loads it: pinned, and with a parameter (MARK) that no backend knows.

    The mark makes the way back a full reload. Without it a load that differs in instance_group and
    version_policy alone happens in place, and Triton then goes on showing the old policy (measured on 24.10):
    what is restored could never be shown to be the original.
    """
    message = pin_versions(message_of_json(config_json), versions)
    message.parameters[MARK].string_value = "1"
    return json_of(message)


def same_json(one: str, other: str) -> bool:
    """Whether two configurations in JSON are equal as messages (safety rule 3)."""
    return same(message_of_json(one), message_of_json(other))


def same_text(one: str, other: str) -> bool:
    """Whether two config.pbtxt say the same, whatever their comments, order and formatting."""
    return same(parse(one), parse(other))


def text_of_json(config_json: str) -> str:
    """The effective configuration as a config.pbtxt, for a server whose file is not known."""
    return text_of(message_of_json(config_json))


def json_of_text(text: str, path: str = PATH) -> str:
    """A config.pbtxt as the JSON a load takes."""
    return json_of(parse(text, path))
