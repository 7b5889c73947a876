"""Real processes: an owner that dies in the middle, and the watchdog that restores after it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from lasting_server import (
    MODEL,
    URL,
    FileServer,
    LastingServer,
    VirtualClock,
    config,
    pinned,
)
from tritune.errors import TrituneError
from tritune.pbtxt.message import same_json
from tritune.store.guard import TuneGuard
from tritune.store.journal import Address, Held, JournalFile, open_journal
from tritune.store.owner import start_ticks
from tritune.tune.undo import Serving
from tritune.verbs.restore import restore
from tritune.watchdog import RealClock, Watch

HERE = Path(__file__).parent
ORIGINAL, TRIAL = config(), pinned(config(500), 1)
Start = Callable[[str], subprocess.Popen[str]]


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    return tmp_path


@pytest.fixture
def owner(state: Path) -> Iterator[Start]:
    started: list[subprocess.Popen[str]] = []

    def start(how: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            [sys.executable, HERE / "owner_process.py", how, state / "server.json"],
            stdout=subprocess.PIPE,
            text=True,
            start_new_session=True,
        )
        started.append(process)
        assert process.stdout is not None
        assert process.stdout.readline() == "there\n"
        return process

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()
    until(lambda: not watchdogs(state))


def until(true: Callable[[], bool], seconds: float = 60) -> None:
    end = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < end
        time.sleep(0.02)


def watchdogs(state: Path) -> list[int]:
    """The living processes that watch a journal under `state`."""
    found = []
    for place in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = place.read_bytes()
        except OSError:
            continue
        if b"--journal=" + bytes(state) in line and start_ticks(int(place.parent.name)):
            found.append(int(place.parent.name))
    return found


def journal() -> JournalFile:
    return open_journal(Address(URL), MODEL)


def actions() -> list[str]:
    return [entry["action"] for entry in journal().entries()]


def words() -> str:
    return journal().path.with_suffix(".watchdog.log").read_text()


@pytest.mark.parametrize("how", ["loaded", "loading"])
def test_after_kill_9_the_original_is_served(state: Path, owner: Start, how: str) -> None:
    process = owner(how)
    assert len(watchdogs(state)) == 1
    process.kill()  # and not waited for: a zombie is dead too
    until(lambda: "restored" in actions())
    time.sleep(0.4)  # longer than a load takes: nothing may come after it
    server = FileServer(state / "server.json")
    assert same_json(server.effective_config(MODEL), ORIGINAL)
    until(lambda: not watchdogs(state))
    assert journal().lock.holder() is None
    assert "did not end in order: restoring" in words()
    assert "ended: restored" in words()


def test_without_a_watchdog_restore_does_it(state: Path, owner: Start) -> None:
    process = owner("alone")
    assert watchdogs(state) == []
    server, clock = FileServer(state / "server.json"), RealClock()
    with pytest.raises(TrituneError) as caught:
        restore(server, Held(journal(), run="x", role="restore"), MODEL, clock=clock)
    assert caught.value.slug == "tune-in-progress"
    process.kill()
    process.wait()
    done = restore(server, Held(journal(), run="x", role="restore"), MODEL, clock=clock)
    assert done.action == "restored"
    assert same_json(server.effective_config(MODEL), ORIGINAL)


def test_what_was_finished_stays(state: Path, owner: Start) -> None:
    process = owner("finished")
    process.kill()
    process.wait()
    until(lambda: not watchdogs(state))
    assert same_json(FileServer(state / "server.json").effective_config(MODEL), TRIAL)
    assert "ended: finished" in words()


def test_a_tuning_left_open_is_restored_although_its_process_lives(state: Path, owner: Start) -> None:
    process = owner("leaves")
    until(lambda: "restored" in actions())
    assert process.poll() is None
    assert same_json(FileServer(state / "server.json").effective_config(MODEL), ORIGINAL)


def test_it_is_detached_and_signals_of_a_terminal_do_not_end_it(state: Path, owner: Start) -> None:
    process = owner("loaded")
    (pid,) = watchdogs(state)
    assert os.getsid(pid) != os.getsid(process.pid)
    assert os.getpgid(pid) != os.getpgid(process.pid)
    ends = {str(Path(f"/proc/{pid}/fd/{fd}").readlink()) for fd in (0, 1, 2)}
    log = str(journal().path.with_suffix(".watchdog.log"))
    assert ends == {os.devnull, log}
    everything = {str(place.readlink()) for place in Path(f"/proc/{pid}/fd").iterdir()}
    assert not any(name.startswith("pipe:") for name in everything)
    assert Path(f"/proc/{pid}/cwd").readlink() == Path("/")
    for number in (signal.SIGHUP, signal.SIGINT):
        os.kill(pid, number)
    os.killpg(process.pid, signal.SIGINT)
    process.wait()
    until(lambda: "restored" in actions())


def test_a_watchdog_that_cannot_start_keeps_the_tuning_from_starting(state: Path) -> None:
    for command, said in (
        ((sys.executable, "-c", "raise SystemExit('no such thing')"), "no such thing"),
        ((str(state / "nothing"),), "No such file"),
    ):
        guard = TuneGuard(Address(URL), MODEL, run="r", serving=Serving(ORIGINAL, ("1",)), command=command)
        with pytest.raises(TrituneError, match=said) as caught:
            guard.__enter__()
        assert caught.value.slug == "watchdog-failed"
        assert journal().lock.holder() is None
        assert actions() == []


def test_the_real_program_starts_and_ends_with_the_tuning(
    state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (state / "json.py").write_text("raise RuntimeError('the working folder must not be imported from')")
    monkeypatch.chdir(state)
    with TuneGuard(Address(URL), MODEL, run="r", serving=Serving(ORIGINAL, ("1",))) as held:
        assert len(watchdogs(state)) == 1
        (begin,) = held.entries()
        assert (begin["versions"], begin["instances"], begin["url"]) == (["1"], 1, URL)
        held.append("finished", run="r", before=None, after=ORIGINAL)
    until(lambda: not watchdogs(state))
    assert "ended: finished" in words()


class TestGuard:
    def guard(self, serving: str = ORIGINAL) -> TuneGuard:
        return TuneGuard(Address(URL), MODEL, run="r2", serving=Serving(serving, ("1",)), watchdog=False)

    def test_a_second_tuning_of_the_model_is_refused(self, state: Path) -> None:
        with self.guard(), pytest.raises(TrituneError) as caught:
            self.guard().__enter__()
        assert caught.value.slug == "tune-in-progress"

    @pytest.mark.parametrize(("served", "refused"), [(TRIAL, True), (ORIGINAL, False), (config(77), False)])
    def test_a_trial_left_behind_never_becomes_the_original(
        self, state: Path, served: str, refused: bool
    ) -> None:
        with self.guard() as held:
            held.append("trial", run="r2", before=ORIGINAL, after=TRIAL)
            held.append("loaded", run="r2", before=None, after=TRIAL)
        if refused:
            with pytest.raises(TrituneError, match="never undone") as caught:
                self.guard(served).__enter__()
            assert caught.value.slug == "unfinished-tune"
            assert journal().lock.holder() is None
        else:
            with self.guard(served):
                assert actions()[-1] == "begin"

    def test_what_was_finished_may_be_tuned_again(self, state: Path) -> None:
        with self.guard() as held:
            held.append("trial", run="r2", before=ORIGINAL, after=TRIAL)
            held.append("loaded", run="r2", before=None, after=TRIAL)
            held.append("finished", run="r2", before=None, after=TRIAL)
        with self.guard(TRIAL):
            assert journal().sessions()[-1].original == TRIAL


class TestWatch:
    """The waiting itself, in virtual time; its owner is a process that never was."""

    def watch(self, server: LastingServer, clock: VirtualClock, **more: object) -> Watch:
        return Watch(journal(), MODEL, 2**22 + 1, 1, 0, lambda address: server, clock, **more)  # type: ignore[arg-type]

    def begin(self) -> tuple[LastingServer, VirtualClock]:
        clock = VirtualClock()
        server = LastingServer(ORIGINAL, clock.now, clock.sleep)
        with TuneGuard(
            Address(URL), MODEL, run="r", serving=Serving(ORIGINAL, ("1",)), watchdog=False
        ) as held:
            held.append("trial", run="r", before=ORIGINAL, after=TRIAL)
            server.load(MODEL, TRIAL, deadline_s=9)
            held.append("loaded", run="r", before=None, after=TRIAL)
        return server, clock

    def test_a_server_that_comes_back_is_restored(self, state: Path) -> None:
        server, clock = self.begin()
        server.gone_until = clock.now() + 300
        assert self.watch(server, clock).run() == "restored"
        assert same_json(server.effective_config(MODEL), ORIGINAL)

    def test_a_server_that_stays_away_is_given_up(self, state: Path) -> None:
        server, clock = self.begin()
        server.gone_until, before = 1e9, clock.now()
        assert self.watch(server, clock, patience_s=120.0).run() == "given up"
        assert 120 <= clock.now() - before < 140
        assert actions()[-1] == "loaded"

    def test_somebody_elses_change_is_left_alone(self, state: Path) -> None:
        server, clock = self.begin()
        server.load(MODEL, config(7), deadline_s=9)
        assert self.watch(server, clock).run() == "refused"
        assert same_json(server.effective_config(MODEL), config(7))

    def test_a_tuning_begun_since_is_not_ours(self, state: Path) -> None:
        server, clock = self.begin()
        journal().append("begin", run="r2", before=TRIAL, after=None, facts={"versions": ["1"]})
        assert self.watch(server, clock).run() == "a later tuning took over"
        assert same_json(server.effective_config(MODEL), TRIAL)

    def test_a_restore_under_way_is_waited_for(self, state: Path) -> None:
        server, clock = self.begin()
        held = Held(journal(), run="r", role="restore")
        held.__enter__()
        waited: list[float] = []

        def sleep(seconds: float) -> None:
            clock.s += seconds
            waited.append(seconds)
            if len(waited) == 5:
                held.__exit__()

        clock.sleep = sleep  # type: ignore[method-assign]
        server.sleep = sleep
        assert self.watch(server, clock).run() == "restored"
        assert waited[:5] == [0.25, 0.5, 1.0, 2.0, 4.0]

    def test_a_journal_that_is_gone_is_the_end(self, state: Path) -> None:
        clock = VirtualClock()
        server = LastingServer(ORIGINAL, clock.now, clock.sleep)
        assert self.watch(server, clock).run() == "nothing begun"
