"""Every kind of mistake: where it is, and which field or value was meant."""

# ruff: noqa: E501 - a table of whole files reads best with one file in a line.

import pytest

from tritune.errors import ExitCode
from tritune.pbtxt import message
from tritune.pbtxt.errors import PbtxtError

# Text with » before the offending place, and words that message and hint must hold.
MISTAKES = [
    # placeholders
    ("max_batch_size: »${max}\n", ["${max}", "never filled in", "max_batch_size"]),
    ("name: \"m\"\ninstance_group [ { count: »$COUNT } ]\n", ["$COUNT", "count"]),
    ("name: \"m\"\n»{{ scheduler }}\n", ["{{ scheduler }}", "never filled in"]),
    ("input [ { name: \"x\" data_type: »${type} } ]\n", ["${type}", "data_type"]),
    # braces
    ("name: \"m\"\n»{ kind: KIND_CPU }\n", ["no field name", "instance_group"]),
    ("ensemble_scheduling { step [ { input_map { key: \"a\" value: \"b\" }\n»{ key: \"c\" } } ] }", ["input_map"]),
    ("»{\n  \"name\": \"m\"\n}\n", ["no field name", "JSON"]),
    ("name: \"m\"\ndynamic_batching {\n  max_queue_delay_microseconds: 5\n»", ["dynamic_batching", "line 2", "}"]),
    ("name: \"m\"\n»}\n", ["never opened"]),
    ("dynamic_batching {\n  max_queue_delay_microseconds: 5\n\n»instance_group [ { count: 1 } ]\n",
     ["instance_group", "top level", "dynamic_batching", "line 1", "missing"]),
    ("input [\n  { name: \"x\" »]\n", ["']'", "input"]),
    ("dynamic_batching { preferred_batch_size: [ 4, 8 »}\n", ["preferred_batch_size", "]"]),
    ("dynamic_batching < »}\n", ["'<'", "'}'"]),
    # unknown fields
    ("dynamic_batching {\n\t»max_queue_size: 4\n}", ["dynamic_batching.default_queue_policy: default_queue_policy { max_queue_size: ..."]),
    ("»max_queue_delay_microseconds: 100\n", ["dynamic_batching { max_queue_delay_microseconds: ... }"]),
    ("»max_batchsize: 8\n", ["max_batch_size"]),
    ("»maxBatchSize: 8\n", ["max_batch_size"]),
    ("dynamic_batching {\n  »max_queue_delay_us: 8\n}", ["max_queue_delay_microseconds"]),
    ("dynamic_batching {\n  »max_queue_delay_ms: 8\n}", ["max_queue_delay_microseconds"]),
    ("dynamic_batching {\n  »preferred_batch_sizes: [ 8 ]\n}", ["preferred_batch_size"]),
    ("dynamic_batching {\n  default_queue_policy {\n    »max_queue_sizes: 3\n  }\n}", ["max_queue_size"]),
    ("input [ { name: \"x\" »datatype: TYPE_FP32 } ]", ["data_type"]),
    ("input [ { name: \"x\" data_type: TYPE_FP32 »shape: [ 3 ] } ]", ["dims"]),
    ("»count: 2\n", ["instance_group"]),
    ("»dynamic_batch { }\n", ["dynamic_batching"]),
    ("instance_group [ { count: 1 »gpu: [ 0 ] } ]", ["gpus"]),
    ("parameters { key: \"a\" »string_value: \"b\" }", ["value { string_value: ... }"]),
    ("»zzzzzz: 1\n", ["zzzzzz", "model_config.proto"]),
    # enums
    ("input [ { name: \"x\"\n  data_type: »FP32\n} ]", ["TYPE_FP32"]),
    ("input [ { data_type: »TYPE_FLOAT32 } ]", ["TYPE_FP32"]),
    ("input [ { data_type: »BYTES } ]", ["TYPE_STRING"]),
    ("input [ { data_type: »TYPE_INT46 } ]", ["TYPE_INT64"]),
    ("input [ { data_type: »\"TYPE_FP16\" } ]", ["TYPE_FP16", "without quotes"]),
    ("instance_group [ { kind: »GPU } ]", ["KIND_GPU"]),
    ("instance_group [ { kind: »kind_cpu } ]", ["KIND_CPU"]),
    ("instance_group [ { kind: »BANANA } ]", ["KIND_AUTO", "KIND_MODEL"]),
    # quotes and characters
    ("name: »“m”\n", ["typographic quote"]),
    ("backend: »‘python’\n", ["typographic quote"]),
    ("name:»\u00a0\"m\"\n", ["no-break space"]),
    ("»\ufeffname: \"m\"\n", ["byte order mark"]),
    ("»é: 1\n", ["U+00E9"]),
    ("name: \"é\" »é\n", ["U+00E9"]),
    ("»```pbtxt\nname: \"m\"\n```\n", ["Markdown"]),
    ("name: »\"m\nbackend: \"x\"\n", ["closing quote"]),
    ("name: »\"C:\\models\"\n", ["escape \\m", "\\\\"]),
    ("name: \"m\" »// comment\n", ["#"]),
    # given twice, or beside another
    ("max_batch_size: 8\nname: \"m\"\n»max_batch_size: 16\n", ["twice", "line 1"]),
    ("dynamic_batching { }\n»dynamic_batching { }\n", ["twice", "line 1"]),
    ("dynamic_batching { }\n»ensemble_scheduling { }\n", ["dynamic_batching", "line 1", "only one"]),
    ("version_policy { latest { num_versions: 1 } »all { } }\n", ["latest", "only one"]),
    # values
    ("name: \"m\"\nmax_batch_size »8\n", ["':'"]),
    ("max_batch_size »= 8\n", ["':'", "'='"]),
    ("max_batch_size »{ }\n", ["not a block"]),
    ("max_batch_size: »\"8\"\n", ["max_batch_size: 8"]),
    ("max_batch_size: »8.5\n", ["integer"]),
    ("max_batch_size: »1e3\n", ["1000"]),
    ("max_batch_size: »08\n", ["octal", "8"]),
    ("max_batch_size: »1_000\n", ["1000"]),
    ("max_batch_size: »[ 8 ]\n", ["not a list"]),
    ("max_batch_size: »99999999999\n", ["too large", "2147483647"]),
    ("max_batch_size: 1,»000\n", ["000"]),
    ("max_batch_size: »\n", ["missing"]),
    ("max_batch_size:\n»name: \"m\"\n", ["missing", "max_batch_size"]),
    ("dynamic_batching { max_queue_delay_microseconds: »-1 }", ["negative"]),
    ("dynamic_batching { max_queue_delay_microseconds: »5ms }", ["5"]),
    ("dynamic_batching { max_queue_delay_microseconds: »18446744073709551616 }", ["too large"]),
    ("dynamic_batching { preferred_batch_size: [ 4 »8 ] }", ["','"]),
    ("dynamic_batching { preferred_batch_size: [ 4, 8, »] }", ["comma"]),
    ("dynamic_batching { preferred_batch_size: 4, »8 }", ["[ 4, 8 ]"]),
    ("dynamic_batching »[ { } ]", ["one block"]),
    ("dynamic_batching: »true\n", ["block"]),
    ("name: »m\n", ["name: \"m\""]),
    ("name: »7\n", ["name: \"7\""]),
    ("input [ { optional: »yes } ]", ["optional: true"]),
    ("input [ { optional: »\"false\" } ]", ["optional: false"]),
    ("name: \"m\",»,\n", ["','"]),
    ("name: \"m\"\n\"backend\"»: \"python\"\n", ["quotes", "JSON"]),
    ("name: \"m\"\r\n\r\ndynamic_batching {\r\n  »max_queue_size: 5\r\n}\r\n", ["default_queue_policy"]),
    ("\t\t»foo_bar_baz: 5\n", ["foo_bar_baz"]),
    ("# Kommentar: Größe “x”\nname: \"é“\" »nam: 1", ["'name'"]),
]  # fmt: skip


@pytest.mark.parametrize(("marked", "words"), MISTAKES, ids=[repr(text) for text, _ in MISTAKES])
def test_mistake_is_placed_and_explained(marked: str, words: list[str]) -> None:
    place = marked.index("»")
    # The mark may stand on the end of a line for something missing: then the end of the text is meant.
    text = marked.replace("»", "")
    if text[place:].strip() == "" and text[place:]:
        place = len(text)
    with pytest.raises(PbtxtError) as raised:
        message.parse(text, "models/m/config.pbtxt")
    error = raised.value
    line, column = text.count("\n", 0, place) + 1, place - text.rfind("\n", 0, place)
    assert (error.line, error.column) == (line, column), str(error)
    assert error.message.startswith(f"models/m/config.pbtxt:{line}:{column}: ")
    assert error.exit_code is ExitCode.USAGE
    said = f"{error.message} {error.hint}"
    assert [word for word in words if word not in said] == [], said
    assert "\n" not in said


LEGAL = [
    "dynamic_batching{}",
    "dynamic_batching { }",
    "dynamic_batching: { }",
    "dynamic_batching <>",
    "dynamic_batching\n{\n}\n",
    "name: 'it''s'",
    "name: \"a\" 'b'\n \"c\"",
    "name: \"m\", backend: \"python\"; max_batch_size: 0x10",
    "max_batch_size: 010",
    "# Größe “x” ${y} {{\nname: \"größe ${y} “\"\n",
    "name: \"m\"\r\nmax_batch_size: 8\r\n",
    "\tname:\t\"m\"\t",
    "input [ { dims: [ -1, - 2 ] }, <dims: 3> ]",
    "max_batch_size: 0 max_batch_size: 8",
]  # fmt: skip


@pytest.mark.parametrize("text", LEGAL)
def test_odd_but_legal(text: str) -> None:
    assert message.parse(text).IsInitialized()
