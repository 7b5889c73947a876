"""The journal file: whole lines only, on disk, one per model and server, found again."""

from __future__ import annotations

import json
import os
import stat
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tritune.errors import TrituneError
from tritune.places import state_folder
from tritune.store.journal import Address, Held, JournalFile, known_models, open_journal
from tritune.store.owner import Owner, start_ticks, this_process
from tritune.store.state import file_name, journal_path, server_name

ADDRESS = Address("http://127.0.0.1:8000", grpc="127.0.0.1:8001")


def begin(journal: JournalFile, run: str = "r1", **facts: object) -> None:
    journal.append("begin", run=run, before='{"name":"m"}', after=None, facts={"versions": ("1",)} | facts)


def test_lines_come_back_as_written(tmp_path: Path) -> None:
    journal = JournalFile(tmp_path / "a" / "b" / "m.jsonl", ADDRESS, now=lambda: "noon")
    assert journal.entries() == ()
    begin(journal)
    journal.append("trial", run="r1", before=None, after="{}")
    first, second = journal.entries()
    assert first == {
        "versions": ["1"],
        "url": ADDRESS.url,
        "grpc": ADDRESS.grpc,
        "metrics": None,
        "time": "noon",
        "run": "r1",
        "action": "begin",
        "before": '{"name":"m"}',
        "after": None,
    }
    assert second == {"time": "noon", "run": "r1", "action": "trial", "before": None, "after": "{}"}
    assert stat.S_IMODE(journal.path.stat().st_mode) == 0o600
    assert stat.S_IMODE(journal.path.parent.stat().st_mode) == 0o700


def test_every_line_and_every_new_folder_is_synced(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    synced: list[str] = []
    real = os.fsync

    def note(fd: int) -> None:
        synced.append(str(Path(f"/proc/self/fd/{fd}").readlink()))
        real(fd)

    monkeypatch.setattr(os, "fsync", note)
    journal = JournalFile(tmp_path / "a" / "b" / "m.jsonl")
    begin(journal)
    assert synced == [str(p) for p in (journal.path, tmp_path / "a" / "b", tmp_path / "a", tmp_path)]
    synced.clear()
    begin(journal)
    assert synced == [str(journal.path)]


def test_a_line_torn_at_any_byte_is_ignored_and_the_next_one_is_whole(tmp_path: Path) -> None:
    whole = JournalFile(tmp_path / "whole.jsonl")
    begin(whole)
    one = whole.path.read_bytes()
    for cut in range(len(one)):
        torn = JournalFile(tmp_path / "torn.jsonl")
        torn.path.write_bytes(one + one[:cut])
        kept = len(torn.entries())
        assert kept == (2 if cut == len(one) - 1 else 1)  # only the line's end is missing: it says all
        torn.append("trial", run="r2", before=None, after="{}")
        assert torn.entries()[-1]["action"] == "trial"
        assert len(torn.entries()) == kept + 1


def test_a_full_disk_is_one_sentence(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    journal = JournalFile(tmp_path / "m.jsonl")
    monkeypatch.setattr(os, "write", lambda fd, line: len(line) - 1)
    with pytest.raises(TrituneError, match="cannot be written: no space left") as caught:
        begin(journal)
    assert caught.value.slug == "state-not-writable"


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(TrituneError, match="cannot be written"):
        begin(JournalFile(tmp_path / "file" / "m.jsonl"))


def test_a_journal_that_cannot_be_read_is_one_sentence(tmp_path: Path) -> None:
    (tmp_path / "m.jsonl").mkdir()
    with pytest.raises(TrituneError, match="cannot be read") as caught:
        JournalFile(tmp_path / "m.jsonl").entries()
    assert caught.value.slug == "journal-unreadable"


def test_what_was_tuned_is_found_again(tmp_path: Path) -> None:
    journal = open_journal(ADDRESS, "team/ranker", tmp_path)
    begin(journal, model="team/ranker")
    begin(open_journal(Address("http://far:9000"), "other", tmp_path), "r9", model="other")
    open_journal(ADDRESS, "never", tmp_path).append("trial", run="r", before=None, after="{}")
    known = {k.model: k for k in known_models(tmp_path)}
    assert set(known) == {"team/ranker", "other"}
    assert known["team/ranker"].address == ADDRESS
    assert known["other"].session.run == "r9"
    assert known_models(tmp_path / "nothing") == ()


def test_the_state_folder_follows_xdg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))
    assert journal_path("http://h:1", "m") == tmp_path / "tritune" / "journal" / "h_1" / "m.jsonl"
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    for unusable in ("", "relative/folder"):
        monkeypatch.setenv("XDG_STATE_HOME", unusable)
        assert state_folder() == tmp_path / "home" / ".local" / "state" / "tritune"


def test_one_server_has_one_name() -> None:
    names = {server_name(f"http://{host}:8000") for host in ("localhost", "127.0.0.1", "[::1]", "LOCALHOST")}
    assert names == {"localhost_8000"}
    assert server_name("gpu7:8000") == "gpu7_8000"
    assert server_name("https://gpu7/triton/") == "gpu7_443%2Ftriton"
    for bad in ("http://", "http://h:port", "http://[::1"):
        with pytest.raises(TrituneError):
            server_name(bad)


@given(st.text(min_size=1), st.text(min_size=1))
def test_a_model_name_is_a_safe_and_distinct_file_name(one: str, other: str) -> None:
    safe = file_name(one)
    assert "/" not in safe
    assert not safe.startswith(".")
    assert "\0" not in safe
    assert len(safe.encode()) <= 200
    assert (safe == file_name(other)) == (one == other)


class TestLock:
    def test_a_living_owner_is_refused(self, tmp_path: Path) -> None:
        journal = open_journal(ADDRESS, "m", tmp_path)
        with Held(journal, run="r1", role="tune"):
            with pytest.raises(TrituneError, match=f"is being tuned by process {os.getpid()}") as caught:
                Held(journal, run="r2", role="restore").__enter__()
            assert caught.value.slug == "tune-in-progress"
            holder = journal.lock.holder()
            assert holder is not None
            assert holder.run == "r1"
        assert journal.lock.holder() is None
        with Held(journal, run="r2", role="restore"):
            pass

    @pytest.mark.parametrize(
        "dead",
        [
            Owner(os.getpid(), 1, "old", "then"),  # the id was used again since
            Owner(2**22 + 1, 1, "old", "then"),  # gone
        ],
    )
    def test_a_dead_owner_is_taken_over(self, tmp_path: Path, dead: Owner) -> None:
        journal = open_journal(ADDRESS, "m", tmp_path)
        journal.prepare()
        journal.lock.take(dead)
        assert not dead.is_alive
        with Held(journal, run="new", role="tune"):
            journal.lock.give_back(dead)  # the old owner cannot free what is not its own
            holder = journal.lock.holder()
            assert holder is not None
            assert holder.run == "new"

    @pytest.mark.parametrize("torn", [b"", b'{"pid": 1', b"[]", b'{"pid": "x"}'])
    def test_a_torn_lock_is_nobodys(self, tmp_path: Path, torn: bytes) -> None:
        journal = open_journal(ADDRESS, "m", tmp_path)
        journal.prepare()
        journal.lock.path.write_bytes(torn)
        with Held(journal, run="new", role="tune"):
            pass

    def test_another_machines_owner_counts_as_alive(self, tmp_path: Path) -> None:
        journal = open_journal(ADDRESS, "m", tmp_path)
        journal.prepare()
        journal.lock.take(Owner(1, 1, "r", "then", host="another-machine"))
        with pytest.raises(TrituneError, match="on another-machine since then") as caught:
            Held(journal, run="new", role="tune").__enter__()
        assert str(journal.lock.path) in caught.value.hint

    def test_the_file_names_the_owner(self, tmp_path: Path) -> None:
        journal = open_journal(ADDRESS, "m", tmp_path)
        with Held(journal, run="r1", role="tune"):
            content = json.loads(journal.lock.path.read_text())
        me = this_process("r1", "now", "tune")
        assert (content["pid"], content["start"], content["run"]) == (me.pid, me.start, "r1")
        assert content["started"]


def test_a_zombie_is_dead() -> None:
    pid = os.fork()
    if pid == 0:
        os._exit(0)
    os.waitid(os.P_PID, pid, os.WEXITED | os.WNOWAIT)
    assert start_ticks(pid) is None
    os.waitpid(pid, 0)
    assert start_ticks(os.getpid())
