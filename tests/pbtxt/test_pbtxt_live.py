"""The real Triton reads what we write and refuses what we refuse, in the same line."""

import json
import re
import shutil
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

import pytest

from tritune.embedded.server import RunningServer
from tritune.model.config import Change, Setting
from tritune.pbtxt import message
from tritune.pbtxt.edit import edit
from tritune.pbtxt.errors import PbtxtError

pytestmark = pytest.mark.live

CHANGE = Change(
    (
        Setting("max_batch_size", 32),
        Setting("dynamic_batching.max_queue_delay_microseconds", 700),
        Setting("dynamic_batching.preferred_batch_size", (4, 8)),
        Setting("instance_group.count", 2),
    )
)
INPUT = 'input { name: "x" data_type: TYPE_FP32 dims: 4 } output { name: "y" data_type: TYPE_FP32 dims: 4 }\n'
STYLES = {
    "bare": INPUT,
    "crlf": INPUT.replace("\n", "\r\n")
    + "dynamic_batching {\r\n\tpreserve_ordering: true,\r\n}\r\ninstance_group []",
    "angles": INPUT
    + "dynamic_batching < preferred_batch_size: 1 preferred_batch_size: 2; >\nmax_batch_size:0x8",
    "comments": "# größe “x”\n"
    + INPUT
    + "instance_group { kind: KIND_CPU # one\n}\ndynamic_batching { }# end",
}
# Refused by Triton's parser: the server's log names the line.
REFUSED = {
    "placeholder": INPUT + "max_batch_size: ${max}\n",
    "brace": INPUT + "dynamic_batching { }\n{ count: 1 }\n",
    "field": INPUT + "dynamic_batching {\n  max_queue_size: 4\n}\n",
    "quote": INPUT + "backend: “python”\n",
    "twice": INPUT + "max_batch_size: 8\n\nmax_batch_size: 8\n",
    "two schedulers": INPUT + "dynamic_batching { }\nsequence_batching { }\n",
    "comma": INPUT + "dynamic_batching { preferred_batch_size: [ 4, ] }\n",
    "byte order mark": "\ufeff" + INPUT,
    "two lines in a text": INPUT + 'parameters { key: "a" value { string_value: "b\nc" } }\n',
    "enum": INPUT + "instance_group [ { kind: GPU count: 1 } ]\n",
    "negative": INPUT + "dynamic_batching { max_queue_delay_microseconds: -1 }\n",
    "open": INPUT + "dynamic_batching {\n",
}


def load(server: RunningServer, model: str) -> str:
    """What the server says to a load; empty where it loaded."""
    request = urllib.request.Request(f"{server.url}/v2/repository/models/{model}/load", data=b"{}")
    try:
        with urllib.request.urlopen(request, timeout=30):
            return ""
    except urllib.error.HTTPError as error:
        return error.read().decode() or str(error)


def served(server: RunningServer, model: str) -> str:
    with urllib.request.urlopen(f"{server.url}/v2/models/{model}/config", timeout=10) as reply:
        return str(reply.read().decode())


def test_triton_reads_our_texts_and_refuses_what_we_refuse(
    start_triton: Callable[..., RunningServer], tmp_path: Path
) -> None:
    server = start_triton("healthy")
    repository = Path(server.repository)
    folder = repository / "ranker"
    original = (folder / "config.pbtxt").read_text(encoding="utf-8")
    device = original[original.index("parameters {") :]

    # The effective configuration, written as a text, loads and is the same configuration again.
    effective = served(server, "ranker")
    (folder / "config.pbtxt").write_text(message.text_of_json(effective), encoding="utf-8")
    assert load(server, "ranker") == ""
    assert message.same_json(served(server, "ranker"), effective)

    # Edited files of several styles load, and what is served has the change.
    for index, text in enumerate(STYLES.values()):
        copy = repository / f"styled{index}"
        shutil.copytree(folder, copy)
        newline = "\r\n" if "\r\n" in text else "\n"
        whole = device.replace("\n", newline) + f"backend: 'python'{newline}" + text
        edited = edit(whole, CHANGE)
        (copy / "config.pbtxt").write_bytes(edited.encode())
        assert load(server, copy.name) == "", edited
        view = message.view_json(served(server, copy.name))
        assert view.max_batch_size == 32
        assert view.dynamic_batching is not None
        assert view.dynamic_batching.preferred_batch_size == (4, 8)
        assert view.dynamic_batching.max_queue_delay_microseconds == 700
        assert [group.count for group in view.instance_group] == [2]
        # What it reads and fills in comes back through JSON and text unharmed.
        assert message.same_json(
            served(server, copy.name), message.json_of_text(message.text_of_json(served(server, copy.name)))
        )

    # Refused here and there, in the same line.
    log = Path(server.log)
    for name, text in REFUSED.items():
        with pytest.raises(PbtxtError) as raised:
            message.parse(text)
        bad = repository / ("bad_" + name.replace(" ", "_"))
        shutil.copytree(folder, bad)
        (bad / "config.pbtxt").write_bytes(text.encode())
        before = len(log.read_bytes())
        assert load(server, bad.name) != "", name
        said = log.read_bytes()[before:].decode(errors="replace")
        lines = re.findall(r"Error parsing text-format inference\.ModelConfig: (\d+):\d+:", said)
        assert lines, (name, said)
        assert int(lines[0]) == raised.value.line, (name, said)
    assert json.loads(served(server, "ranker"))["name"] == "ranker"
