"""What parses and what does not, against C++'s own parser: the manifest and recorded protoc runs."""

import json
from pathlib import Path

import pytest

from tritune.pbtxt import message
from tritune.pbtxt.errors import PbtxtError

DATA = Path(__file__).parents[1] / "data"
MANIFEST = json.loads((DATA / "cases" / "MANIFEST.json").read_text())["files"]
PROTOC = json.loads((DATA / "pbtxt" / "protoc.json").read_text())["cases"]
# The offending name or value as it stands in the file; C++ points one token further for some of them.
OFFENDING = {
    "c105.pbtxt": "${triton_max_batch_size}",
    "c106.pbtxt": '{\n        key: "c"',
    "c107.pbtxt": "max_queue_size",
    "c34_smartquote.pbtxt": "“",
    "syn_duplicate_block.pbtxt": "dynamic_batching { max",
    "syn_duplicate_scalar.pbtxt": "max_batch_size: 16",
    "syn_two_schedulers.pbtxt": "sequence_batching",
}
# C++ has read the token after the name or value when it reports these, which may be a line further.
READ_AHEAD = (
    "has no field named",
    "specified",
    "Unknown enumeration",
    "boolean field",
    "Extension",
    'Expected "]"',
)


def case(name: str) -> str:
    with (DATA / "cases" / name).open(encoding="utf-8", newline="") as file:
        return file.read()


def test_every_case_file_is_in_the_manifest_and_every_failure_has_its_place() -> None:
    assert {path.name for path in (DATA / "cases").glob("*.pbtxt")} == set(MANIFEST)
    assert {name for name, entry in MANIFEST.items() if not entry["parses"]} == set(OFFENDING)


@pytest.mark.parametrize("name", [name for name, entry in MANIFEST.items() if entry["parses"]])
def test_case_file_parses(name: str) -> None:
    parsed = message.parse(case(name), name)
    assert parsed.ByteSize() > 0
    assert message.same(parsed, message.parse(message.text_of(parsed)))


@pytest.mark.parametrize("name", sorted(OFFENDING))
def test_case_file_fails_in_the_line_of_the_manifest_at_the_offending_name(name: str) -> None:
    text = case(name)
    with pytest.raises(PbtxtError) as raised:
        message.parse(text, name)
    before = text[: text.index(OFFENDING[name])]
    assert raised.value.line == int(MANIFEST[name]["parser_error"].split(":")[0])
    assert raised.value.line == before.count("\n") + 1
    assert raised.value.column == len(before) - before.rfind("\n")
    assert raised.value.message.startswith(f"{name}:{raised.value.line}:{raised.value.column}: ")
    assert raised.value.slug == "bad-pbtxt"
    assert raised.value.hint


def test_recorded_protoc_runs_agree() -> None:
    """Accepted or refused, the same message, the same line: 348 texts, most of them mutated case files."""
    wrong = []
    for entry in PROTOC:
        text = entry["text"]
        try:
            parsed = message.parse(text)
        except PbtxtError as error:
            if "error" not in entry:
                wrong.append((text, "accepted", str(error)))
                continue
            line = int(entry["error"].split(":")[0])
            if not (
                error.line == line or (error.line < line and any(w in entry["error"] for w in READ_AHEAD))
            ):
                wrong.append((text, entry["error"], str(error)))
            continue
        expected = message.new_message()
        expected.ParseFromString(bytes.fromhex(entry.get("message", "")))
        if "error" in entry or not message.same(parsed, expected):
            wrong.append((text, entry, "accepted"))
    assert wrong == []


def test_an_empty_file_is_an_empty_configuration() -> None:
    assert message.parse("").ByteSize() == 0
    assert message.parse("# nothing\n\n").ByteSize() == 0


def test_reading_is_fast_once_the_grammar_is_built() -> None:
    import time

    text = case("c03.pbtxt")
    message.parse(text)
    best = min(_seconds(lambda: message.parse(text), time.perf_counter) for _ in range(5))
    assert best < 0.02


def _seconds(call, clock) -> float:  # type: ignore[no-untyped-def]
    start = clock()
    call()
    return clock() - start
