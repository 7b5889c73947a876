"""The CPythons on this machine that could carry Triton's Python backend, each asked what it has."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import msgspec

# The wheel ships stubs for more versions, but resolves (numpy < 2) on these only.
SUPPORTED = ("3.11", "3.12")

# Run by the interpreter in question; one JSON line.
_QUESTION = """
import importlib.util, json, platform, sys, sysconfig
print(json.dumps({
    "version": "%d.%d" % sys.version_info[:2],
    "implementation": platform.python_implementation(),
    "has_venv": all(importlib.util.find_spec(m) is not None for m in ("venv", "ensurepip")),
    "libdirs": [d for d in (sysconfig.get_config_var("LIBDIR"), sys.base_prefix + "/lib") if d],
}))
"""


class Interpreter(msgspec.Struct, frozen=True):
    """One interpreter. `libdir` is the folder of its libpython, empty where there is none."""

    path: str
    version: str
    has_venv: bool
    libdir: str

    @property
    def lacks(self) -> str:
        """What is missing for Triton's Python backend, in words; empty where nothing is."""
        missing = []
        if not self.has_venv:
            missing.append("the venv module (Debian: python3-venv)")
        if not self.libdir:
            missing.append(f"libpython{self.version}.so.1.0 (Debian: libpython{self.version})")
        return " and ".join(missing)


class _Answer(msgspec.Struct):
    version: str
    implementation: str
    has_venv: bool
    libdirs: list[str]


def candidates() -> Iterator[Path]:
    """Paths worth asking, best first: our own Python, PATH, /usr/bin, then pyenv's and uv's folders."""
    yield Path(sys.executable)
    names = [f"python{v}" for v in SUPPORTED]
    for name in (*names, "python3"):
        if found := shutil.which(name):
            yield Path(found)
    for folder in (Path("/usr/bin"), Path("/usr/local/bin")):
        yield from (folder / name for name in names)
    pyenv = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv")
    data = Path(os.environ.get("XDG_DATA_HOME") or Path.home() / ".local" / "share")
    for versions in (pyenv / "versions", data / "uv" / "python"):
        for version in SUPPORTED:
            yield from sorted(versions.glob(f"*{version}*/bin/python{version}"), reverse=True)


def find_interpreters() -> Iterator[Interpreter]:
    """Every distinct CPython 3.11 or 3.12 that runs, best first; asked one by one, as they are needed."""
    seen: set[Path] = set()
    for path in candidates():
        if not path.is_file():
            continue
        # A shim and a link resolve differently; the answer decides, the path only avoids asking twice.
        if (real := path.resolve()) in seen:
            continue
        seen.add(real)
        if (interpreter := probe(path)) is not None:
            yield interpreter


def probe(path: Path) -> Interpreter | None:
    """What this interpreter says about itself; None if it does not run or is not a CPython 3.11/3.12."""
    try:
        asked = subprocess.run(  # noqa: S603 - an interpreter that we found, and our own question
            [path, "-I", "-c", _QUESTION],
            capture_output=True,
            timeout=20,
            check=True,
            stdin=subprocess.DEVNULL,
        )
        answer = msgspec.json.decode(asked.stdout, type=_Answer)
    except (OSError, subprocess.SubprocessError, msgspec.DecodeError):
        return None
    if answer.implementation != "CPython" or answer.version not in SUPPORTED:
        return None
    return Interpreter(
        path=str(path),
        version=answer.version,
        has_venv=answer.has_venv,
        libdir=_library_folder(answer.version, answer.libdirs),
    )


def _library_folder(version: str, libdirs: list[str]) -> str:
    """The folder of libpython: the interpreter's own, else what the loader's cache names, else empty."""
    library = f"libpython{version}.so.1.0"
    for folder in libdirs:
        if Path(folder, library).exists():
            return folder
    ldconfig = shutil.which("ldconfig") or "/sbin/ldconfig"
    try:
        listed = subprocess.run(  # noqa: S603 - the loader's own tool
            [ldconfig, "-p"], capture_output=True, text=True, timeout=20, check=True
        )
    except (OSError, subprocess.SubprocessError):
        return ""
    for line in listed.stdout.splitlines():
        name, _, path = line.strip().partition(" => ")
        if name.startswith(f"{library} ") and "x86-64" in name and Path(path).exists():
            return str(Path(path).parent)
    return ""
