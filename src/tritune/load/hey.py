"""hey as an independent witness: a generator we did not write, in closed loop.

Its figures are never mixed with ours; they are printed beside them.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from pathlib import Path

import msgspec

from tritune.errors import TrituneError
from tritune.units import NS_PER_S

_PERCENTILE = re.compile(r"^\s*(\d+)%\s+in\s+([\d.]+)\s+secs", re.MULTILINE)
_STATUS = re.compile(r"^\s*\[(\d+)\]\s+(\d+) responses", re.MULTILINE)


class HeyResult(msgspec.Struct, frozen=True):
    """hey's own percentiles (ns, keyed 50, 90, 95, 99) and how many answers were not 200."""

    percentiles_ns: dict[int, float]
    answered: int
    failed: int


def installed() -> bool:
    """Whether hey is on PATH."""
    return shutil.which("hey") is not None


def run_hey(url: str, body: bytes, *, concurrency: int, count: int, limit_s: float = 60.0) -> HeyResult:
    """POST `body` to `url` `count` times, `concurrency` at once, and read what hey prints.

    Raises TrituneError where hey is missing, runs past `limit_s`, or prints no percentiles.
    """
    path = shutil.which("hey")
    if path is None:
        raise TrituneError(
            "hey is not installed",
            slug="no-hey",
            hint="Debian: apt-get install hey. It is only a second view.",
        )
    with tempfile.TemporaryDirectory(prefix="tritune-hey-") as folder:
        file = Path(folder) / "request.json"
        file.write_bytes(body)
        command = [path, "-n", str(count), "-c", str(concurrency), "-m", "POST", "-t", "20"]
        command += ["-T", "application/json", "-D", str(file), url]
        try:
            done = subprocess.run(  # noqa: S603 - hey from PATH, our own arguments
                command, capture_output=True, text=True, timeout=limit_s, check=False
            )
        except subprocess.TimeoutExpired as error:
            raise TrituneError(f"hey did not finish within {limit_s:g} s", slug="hey-failed") from error
    return read_hey(done.stdout + done.stderr)


def read_hey(text: str) -> HeyResult:
    """The figures in hey's text. Raises TrituneError where it has none."""
    percentiles = {int(p): float(s) * NS_PER_S for p, s in _PERCENTILE.findall(text)}
    statuses = {int(code): int(n) for code, n in _STATUS.findall(text)}
    if 99 not in percentiles:
        last = text.strip().splitlines()[-1:] or ["nothing"]
        raise TrituneError(f"hey printed no percentiles; its last line: {last[0]}", slug="hey-failed")
    answered = statuses.get(200, 0)
    return HeyResult(percentiles, answered, sum(statuses.values()) - answered)
