"""Ctrl-C, a polite kill and a closed terminal end a verb with a sentence and the exit code of the signal."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import tritune

SCRIPT = Path(__file__).with_name("watching.py")


@pytest.mark.parametrize(
    ("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143), (signal.SIGHUP, 143)]
)
def test_a_signal(number: signal.Signals, code: int) -> None:
    with subprocess.Popen(
        [sys.executable, SCRIPT],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"PYTHONPATH": str(Path(tritune.__file__).parents[1])},
    ) as process:
        assert process.stderr is not None
        assert "watching" in process.stderr.readline()
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
    assert process.returncode == code
    assert out == ""
    [line] = err.splitlines()
    assert line.startswith("error: ")
