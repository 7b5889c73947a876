"""The private environment that runs Triton: made once, proved by one inference, offline afterwards.

It lives at a fixed place in the cache and is never moved (a venv cannot be); a marker written last says
that it is whole. Without the marker it is a leftover of an interrupted making and is made anew.
"""

from __future__ import annotations

import fcntl
import os
import platform
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

import msgspec

from tritune.embedded.interpreters import SUPPORTED, Interpreter, find_interpreters
from tritune.embedded.layout import PYTRITON_VERSION, Environment
from tritune.embedded.proof import prove
from tritune.errors import TrituneError
from tritune.places import cache_folder

OnProgress = Callable[[str], None]

_REQUIREMENTS = (f"nvidia-pytriton=={PYTRITON_VERSION}", "numpy<2")
_OLDEST_GLIBC = (2, 35)
_MARKER = ".ready"
_OWN_SERVER = (
    "With a Triton of your own: tritune tune http://HOST:8000 --model MODEL --rate RATE --slo p99=50ms."
)


def ensure_environment(on_progress: OnProgress = lambda _: None) -> Environment:
    """A proved environment; made now (about a minute and 250 MB) where there is none yet.

    Raises TrituneError (no-embedded-triton) where Triton cannot run on this machine, naming what is missing.
    """
    _require_platform()
    if (ready := find_environment()) is not None:
        return ready
    refusals: list[str] = []
    for interpreter in find_interpreters():
        if interpreter.lacks:
            refusals.append(f"{interpreter.path} lacks {interpreter.lacks}")
            continue
        try:
            return _make(interpreter, on_progress)
        except TrituneError as error:
            if error.slug == "no-embedded-triton":
                raise
            refusals.append(f"with {interpreter.path}: {error.message}")
    reason = "; ".join(refusals) if refusals else f"no CPython {' or '.join(SUPPORTED)} was found"
    raise _cannot(reason)


def find_environment() -> Environment | None:
    """The environment that is already there and whole, or None; changes nothing."""
    for version in SUPPORTED:
        root = _root(version)
        try:
            environment = msgspec.json.decode((root / _MARKER).read_bytes(), type=Environment)
        except (OSError, msgspec.DecodeError):
            continue
        if environment.root == str(root) and _is_whole(environment):
            return environment
    return None


def _root(version: str) -> Path:
    return cache_folder() / f"triton-{PYTRITON_VERSION}-cp{version.replace('.', '')}"


def _is_whole(environment: Environment) -> bool:
    """Whether what it was made from is still there: a removed pyenv version takes its libpython along."""
    needed = (
        environment.python,  # exists() follows the link to the interpreter
        environment.tritonserver,
        environment.backends / "python" / "triton_python_backend_stub",
        Path(environment.libdir, f"libpython{environment.python_version}.so.1.0"),
    )
    return all(path.exists() for path in needed)


def _require_platform() -> None:
    if sys.platform != "linux" or platform.machine() not in ("x86_64", "AMD64"):
        raise _cannot(f"it needs Linux on x86_64, and this is {platform.system()} on {platform.machine()}")
    try:
        name, _, version = (os.confstr("CS_GNU_LIBC_VERSION") or "").partition(" ")
        have = tuple(int(part) for part in version.split(".")[:2])
    except (ValueError, OSError):
        name, version, have = "", "", ()
    if name != "glibc" or have < _OLDEST_GLIBC:
        found = f"glibc {version}" if name == "glibc" else "another C library"
        raise _cannot(f"it needs glibc 2.35 or newer, and this machine has {found}")


def _cannot(reason: str) -> TrituneError:
    return TrituneError(
        f"Triton cannot be run on this machine by tritune: {reason}",
        slug="no-embedded-triton",
        hint=_OWN_SERVER,
    )


def _make(interpreter: Interpreter, on_progress: OnProgress) -> Environment:
    root = _root(interpreter.version)
    environment = Environment(root=str(root), python_version=interpreter.version, libdir=interpreter.libdir)
    with _locked(root, on_progress):
        if (ready := find_environment()) is not None:  # someone else made it while we waited
            return ready
        try:
            if root.exists():
                on_progress("Removing what an interrupted set-up left behind")
                shutil.rmtree(root)
            _install(interpreter, environment, on_progress)
            on_progress("Proving it with one inference")
            version = prove(environment)
            _write_marker(root, environment)
        except OSError as error:
            raise _cannot(f"its environment could not be written to {root} ({error})") from error
    on_progress(f"Triton {version} is ready ({root})")
    return environment


def _write_marker(root: Path, environment: Environment) -> None:
    beside = root / f"{_MARKER}.new"
    beside.write_bytes(msgspec.json.encode(environment))
    beside.replace(root / _MARKER)


@contextmanager
def _locked(root: Path, on_progress: OnProgress) -> Iterator[None]:
    """Only one maker at a time; the kernel gives the lock back when its holder dies."""
    lock_file = root.with_name(f"{root.name}.lock")
    try:
        lock_file.parent.mkdir(parents=True, exist_ok=True)
        lock = lock_file.open("w")
    except OSError as error:
        raise _cannot(f"its environment could not be written to {root} ({error})") from error
    with lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            on_progress("Waiting for another tritune that is setting Triton up")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def _install(interpreter: Interpreter, environment: Environment, on_progress: OnProgress) -> None:
    on_progress(f"Making a private environment for Triton with Python {interpreter.version}")
    _run([interpreter.path, "-I", "-m", "venv", environment.root], "its venv could not be made")
    pip = [str(environment.python), "-I", "-m", "pip", "install", "--no-deps", "--no-input"]
    quiet = ["--disable-pip-version-check", "--no-compile", "--progress-bar=off"]
    on_progress(f"Installing {' and '.join(_REQUIREMENTS)} (about 60 MB to download)")
    _run([*pip, *quiet, *_REQUIREMENTS], "pip could not install it from the package index", on_progress)
    _lay_out_backend(environment)


def _lay_out_backend(environment: Environment) -> None:
    """The backend folder as the server wants it, with the stub of this Python; the wheel keeps them apart."""
    shipped = environment.site_packages / "pytriton" / "tritonserver"
    target = environment.backends / "python"
    shutil.copytree(shipped / "backends" / "python", target)
    stubs = shipped / "python_backend_stubs" / environment.python_version
    shutil.copy2(stubs / "triton_python_backend_stub", target)


def _run(command: list[str], failure: str, on_progress: OnProgress | None = None) -> None:
    """Run to the end, telling downloads to `on_progress`. Raises no-embedded-triton with the last error."""
    clean = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
    with subprocess.Popen(  # noqa: S603 - our own words, no shell
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=clean,
        stdin=subprocess.DEVNULL,
    ) as process:
        lines: list[str] = []
        try:
            for line in process.stdout or ():
                lines.append(line.strip())
                if on_progress is not None and line.strip().startswith("Downloading"):
                    on_progress(line.strip())
        except BaseException:
            with suppress(ProcessLookupError):
                process.kill()
            raise
    if process.returncode != 0:
        errors = [line for line in lines if line.startswith("ERROR")] or [line for line in lines if line]
        raise _cannot(f"{failure} ({errors[-1] if errors else 'no reason given'})")
