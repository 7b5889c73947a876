"""Making the private environment: refusals in one sentence, leftovers redone, one maker at a time."""

from __future__ import annotations

import os
import platform
import threading
import time
from pathlib import Path

import pytest

from tritune.embedded import environment as making
from tritune.embedded.environment import ensure_environment, find_environment
from tritune.embedded.interpreters import Interpreter
from tritune.embedded.layout import Environment
from tritune.errors import TrituneError
from tritune.places import cache_folder

GOOD = Interpreter(path="/usr/bin/python3.11", version="3.11", has_venv=True, libdir="")


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("TRITUNE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def refusal() -> TrituneError:
    with pytest.raises(TrituneError) as caught:
        ensure_environment()
    assert caught.value.slug == "no-embedded-triton"
    assert "tritune tune http://HOST:8000" in caught.value.hint
    assert "\n" not in caught.value.message
    return caught.value


class Maker:
    """Stands in for pip and for the proof: lays down the files that a whole environment has."""

    def __init__(self, libdir: Path) -> None:
        self.libdir = libdir
        self.installs = 0
        libdir.mkdir()
        (libdir / "libpython3.11.so.1.0").touch()

    def install(self, _: Interpreter, environment: Environment, __: object) -> None:
        self.installs += 1
        stub = environment.backends / "python" / "triton_python_backend_stub"
        for path in (environment.python, environment.tritonserver, stub):
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch()
        time.sleep(0.05)  # long enough for a second maker to arrive

    def use(self, monkeypatch: pytest.MonkeyPatch) -> Maker:
        interpreter = Interpreter(path="python3.11", version="3.11", has_venv=True, libdir=str(self.libdir))
        monkeypatch.setattr(making, "find_interpreters", lambda: iter([interpreter]))
        monkeypatch.setattr(making, "_install", self.install)
        monkeypatch.setattr(making, "prove", lambda _: "2.51.0")
        return self


@pytest.fixture
def maker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Maker:
    return Maker(tmp_path / "lib").use(monkeypatch)


def test_other_machines_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(platform, "machine", lambda: "aarch64")
    assert "Linux on x86_64, and this is Linux on aarch64" in refusal().message


@pytest.mark.parametrize(
    ("answer", "said"), [("glibc 2.31", "has glibc 2.31"), (None, "has another C library")]
)
def test_an_old_or_other_c_library_is_refused(
    monkeypatch: pytest.MonkeyPatch, answer: str | None, said: str
) -> None:
    monkeypatch.setattr(os, "confstr", lambda _: answer)
    assert said in refusal().message


def test_no_python_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "find_interpreters", lambda: iter([]))
    assert "no CPython 3.11 or 3.12 was found" in refusal().message


def test_what_a_python_lacks_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(making, "find_interpreters", lambda: iter([GOOD]))
    assert "/usr/bin/python3.11 lacks libpython3.11.so.1.0 (Debian: libpython3.11)" in refusal().message


def test_a_failed_proof_leaves_no_environment(maker: Maker, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(_: Environment) -> str:
        raise TrituneError("its first inference failed", slug="proof-failed")

    monkeypatch.setattr(making, "prove", fail)
    assert "its first inference failed" in refusal().message
    assert find_environment() is None


def test_an_unwritable_cache_is_said(maker: Maker, cache: Path) -> None:
    cache.write_text("a file where the folder should be")
    assert "could not be written" in refusal().message


def test_a_leftover_is_cleaned_and_redone(maker: Maker, cache: Path) -> None:
    leftover = cache / "triton-0.7.0-cp311" / "half-installed"
    leftover.parent.mkdir(parents=True)
    leftover.touch()
    told: list[str] = []
    environment = ensure_environment(told.append)
    assert not leftover.exists()
    assert environment == find_environment()
    assert any("interrupted" in line for line in told)


def test_it_is_made_once(maker: Maker) -> None:
    told: list[str] = []
    assert ensure_environment(told.append) == ensure_environment(told.append)
    assert maker.installs == 1
    assert told[-1].startswith("Triton 2.51.0 is ready")


def test_one_whose_python_went_away_is_made_anew(maker: Maker) -> None:
    environment = ensure_environment()
    environment.python.unlink()
    assert find_environment() is None
    assert ensure_environment() == environment
    assert maker.installs == 2


def test_of_two_makers_one_waits_and_uses_the_others(maker: Maker) -> None:
    made: list[Environment] = []
    makers = [threading.Thread(target=lambda: made.append(ensure_environment())) for _ in range(2)]
    for thread in makers:
        thread.start()
    for thread in makers:
        thread.join()
    assert maker.installs == 1
    assert len(made) == 2
    assert made[0] == made[1]


def test_the_cache_is_where_the_user_wants_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("TRITUNE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "/somewhere")
    assert cache_folder() == Path("/somewhere/tritune")


def test_the_servers_environment_is_free_of_ours(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PYTHONPATH", "src")
    monkeypatch.setenv("PYTHONHOME", "/usr")
    variables = Environment(root="/env", python_version="3.11", libdir="/lib3").process_environment()
    assert "PYTHONPATH" not in variables
    assert "PYTHONHOME" not in variables
    assert variables["PYTHONDONTWRITEBYTECODE"] == "1"
    assert variables["PATH"].split(":")[0] == "/env/bin"
    assert variables["LD_LIBRARY_PATH"] == "/env/lib/python3.11/site-packages/nvidia_pytriton.libs:/lib3"
