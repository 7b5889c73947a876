"""Which interpreters count, and what is said of those that lack something. Interpreters here are scripts."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tritune.embedded import interpreters
from tritune.embedded.interpreters import find_interpreters, probe


def pretend(folder: Path, **answer: object) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    says = {
        "version": "3.11",
        "implementation": "CPython",
        "has_venv": True,
        "libdirs": [str(folder)],
        **answer,
    }
    script = folder / "python3.11"
    script.write_text(f"#!/bin/sh\ncat <<'EOF'\n{json.dumps(says)}\nEOF\n")
    script.chmod(0o755)
    return script


def test_our_own_interpreter_is_understood() -> None:
    found = probe(Path(sys.executable))
    if sys.version_info[:2] in ((3, 11), (3, 12)):
        assert found is not None
        assert found.version == f"3.{sys.version_info.minor}"
    else:
        assert found is None


def test_a_complete_one_lacks_nothing(tmp_path: Path) -> None:
    script = pretend(tmp_path)
    (tmp_path / "libpython3.11.so.1.0").touch()
    found = probe(script)
    assert found is not None
    assert (found.libdir, found.lacks) == (str(tmp_path), "")


def test_what_is_missing_is_named_with_its_package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(interpreters.shutil, "which", lambda _: "/nonexistent/ldconfig")
    found = probe(pretend(tmp_path, has_venv=False))
    assert found is not None
    assert found.lacks == (
        "the venv module (Debian: python3-venv) and libpython3.11.so.1.0 (Debian: libpython3.11)"
    )


def test_the_loader_cache_is_asked_for_a_library_elsewhere(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = tmp_path / "elsewhere" / "libpython3.11.so.1.0"
    library.parent.mkdir()
    library.touch()
    ldconfig = tmp_path / "ldconfig"
    ldconfig.write_text(
        f"#!/bin/sh\necho '\tlibpython3.11.so.1.0 (libc6,x86-64) => {library}'\n"
        "echo '\tlibpython3.12.so.1.0 (libc6,x86-64) => /nonexistent/libpython3.12.so.1.0'\n"
    )
    ldconfig.chmod(0o755)
    monkeypatch.setattr(interpreters.shutil, "which", lambda _: str(ldconfig))
    found = probe(pretend(tmp_path / "bin"))
    assert found is not None
    assert found.libdir == str(library.parent)


@pytest.mark.parametrize(
    "answer", [{"version": "3.13"}, {"version": "3.10"}, {"implementation": "PyPy"}], ids=str
)
def test_others_do_not_count(tmp_path: Path, answer: dict[str, str]) -> None:
    assert probe(pretend(tmp_path, **answer)) is None


def test_one_that_does_not_run_does_not_count(tmp_path: Path) -> None:
    shim = tmp_path / "python3.12"
    shim.write_text("#!/bin/sh\necho 'no such version' >&2\nexit 127\n")
    shim.chmod(0o755)
    assert probe(shim) is None


def test_each_is_asked_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    script = pretend(tmp_path)
    link = tmp_path / "python3"
    link.symlink_to(script)
    monkeypatch.setattr(interpreters, "candidates", lambda: iter([script, link, tmp_path / "absent"]))
    assert [found.path for found in find_interpreters()] == [str(script)]
