"""The diff is one that git and patch apply, and applying it gives the edited text byte for byte."""

import subprocess
from pathlib import Path

import pytest

from tritune.model.config import Change, Setting
from tritune.pbtxt.diff import change_diff, unified_diff
from tritune.pbtxt.edit import edit

TEXTS = {
    "plain": 'name: "m"\nmax_batch_size: 8\n',
    "no line break at the end": 'name: "m"\nmax_batch_size: 8',
    "crlf": 'name: "m"\r\nmax_batch_size: 8\r\nbackend: "b"\r\n',
    "odd separators": 'name: "m\u2028n\x0b"\nmax_batch_size: 8\n',
    "far from the end": 'name: "m"\nmax_batch_size: 8\n' + "# filler\n" * 9 + "dynamic_batching { }",
}
CHANGE = Change((Setting("max_batch_size", 16), Setting("dynamic_batching.max_queue_delay_microseconds", 5)))
TOOLS = {
    "git": ["git", "apply", "--whitespace=nowarn", "-"],
    "patch": ["patch", "-p1", "--silent", "--binary"],
}


@pytest.mark.parametrize("tool", TOOLS)
@pytest.mark.parametrize("name", ["config.pbtxt", "my models/m/config.pbtxt", "/srv/models/m/config.pbtxt"])
@pytest.mark.parametrize("kind", TEXTS)
def test_diff_applies(tmp_path: Path, kind: str, name: str, tool: str) -> None:
    before = TEXTS[kind]
    file = tmp_path / name.lstrip("/")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_bytes(before.encode())
    diff = change_diff(before, CHANGE, name)
    done = subprocess.run(TOOLS[tool], input=diff.encode(), cwd=tmp_path, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr.decode() + diff
    assert file.read_bytes().decode() == edit(before, CHANGE)


def test_diff_looks_like_this() -> None:
    assert unified_diff("a\nb", "a\nc", "./x.pbtxt") == (
        "--- a/x.pbtxt\n+++ b/x.pbtxt\n@@ -1,2 +1,2 @@\n a\n-b\n\\ No newline at end of file\n"
        "+c\n\\ No newline at end of file\n"
    )


def test_no_difference_is_no_text() -> None:
    assert unified_diff("a\n", "a\n", "x") == ""
