"""`python -m tritune.watchdog`: waits for a tuning to end, and undoes it where its process died.

Started by `tritune.store.guard`, detached: a session of its own, no terminal, no pipe of its parent, its
words in a log file beside the journal. It holds no connection while it waits.
"""

from __future__ import annotations

import argparse
import logging
import os
import signal
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from tritune.clock import RealClock
from tritune.errors import TrituneError
from tritune.store.journal import Address, Held, JournalFile
from tritune.store.owner import start_ticks
from tritune.units import NS_PER_S
from tritune.verbs.ports import Clock, Server
from tritune.verbs.restore import undo

POLL_S = 0.25
# A server that is restarted or overloaded gets this long to answer again.
PATIENCE_S = 600.0
LONGEST_PAUSE_S = 10.0
# Refusals that waiting does not change.
FINAL = ("restore-refused", "load-not-allowed")

log = logging.getLogger("tritune.watchdog")
Connect = Callable[[Address], Server]


@dataclass(frozen=True)
class Watch:
    """One watched tuning: its owner, its journal, and how to undo it."""

    journal: JournalFile
    model: str
    owner_pid: int
    owner_start: int
    sessions_before: int
    connect: Connect
    clock: Clock
    patience_s: float = PATIENCE_S

    def run(self) -> str:
        """Wait for the end of the tuning, undo it if need be; says in a word or two how it came out."""
        while self.is_owned():
            self.clock.sleep(POLL_S)
        end = self.clock.now_ns() + round(self.patience_s * NS_PER_S)
        pause = POLL_S
        last = ""
        while True:
            if settled := self.settled():
                return settled
            try:
                return self._undo()
            except TrituneError as error:
                if error.slug in FINAL:
                    log.error("%s. %s", error.message, error.hint)
                    return "refused"
                if error.message != last:
                    log.warning("%s; trying again", last := error.message)
            if self.clock.now_ns() >= end:
                log.error("given up; run `tritune restore` when the server answers again")
                return "given up"
            self.clock.sleep(pause)
            pause = min(2 * pause, LONGEST_PAUSE_S)

    def is_owned(self) -> bool:
        """Whether the owner lives and still holds the lock."""
        if start_ticks(self.owner_pid) != self.owner_start:
            return False
        holder = self.journal.lock.holder()
        return holder is not None and (holder.pid, holder.start) == (self.owner_pid, self.owner_start)

    def settled(self) -> str:
        """Why nothing is left to do by the journal alone; empty where the session is open."""
        told = self.journal.sessions()
        if len(told) <= self.sessions_before:
            return "nothing begun"
        if len(told) > self.sessions_before + 1:
            return "a later tuning took over"
        return told[-1].closed

    def _undo(self) -> str:
        run = self.journal.sessions()[-1].run
        with Held(self.journal, run=run, role="watchdog") as journal:
            if settled := self.settled():
                return settled
            log.warning("the tuning of %s did not end in order: restoring", self.model)
            address = self.journal.address
            if address is None:
                raise ValueError("a watched journal knows its server")
            done = undo(self.connect(address), journal, self.model, clock=self.clock)
            log.warning("%s: %s", done.action, " ".join((done.why, *done.notes)))
            return done.action


def main(argv: Sequence[str], connect: Connect | None = None) -> int:
    """Detach and watch. The first process returns 0 once the second is ready to act, 1 where it is not."""
    options = _options(argv)
    ready, tell = os.pipe()
    if os.fork():
        os.close(tell)
        with os.fdopen(ready, "rb") as pipe:
            return 0 if pipe.read() else 1
    os.close(ready)
    for number in (signal.SIGHUP, signal.SIGINT):
        signal.signal(number, signal.SIG_IGN)
    # Imported now: what restores after a crash must not depend on what the disk holds then.
    connect = connect or _real_connect()
    journal = JournalFile(options.journal, msgspec.json.decode(options.address, type=Address))
    _to_log(options.journal.with_suffix(".watchdog.log"))
    os.write(tell, b"ready")
    os.close(tell)
    watch = Watch(
        journal,
        options.model,
        options.owner_pid,
        options.owner_start,
        options.sessions_before,
        connect,
        RealClock(),
        options.patience_s,
    )
    try:
        outcome = watch.run()
    except Exception:
        log.exception("a defect of the watchdog; run `tritune restore`")
        return 1
    log.info("ended: %s", outcome)
    return 0


def _real_connect() -> Connect:
    import grpc  # noqa: F401  (with the stubs, what a load needs and would import only then)
    from tritonclient.grpc import model_config_pb2, service_pb2_grpc  # noqa: F401

    from tritune.triton.server import connect

    def reach(address: Address) -> Server:
        return connect(address.url, grpc=address.grpc)  # metrics are not needed to restore

    return reach


def _options(argv: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="tritune.watchdog", description=__doc__)
    parser.add_argument("--journal", type=Path, required=True)
    parser.add_argument("--address", required=True, help="JSON: url, grpc, metrics")
    parser.add_argument("--model", required=True)
    parser.add_argument("--owner-pid", type=int, required=True)
    parser.add_argument("--owner-start", type=int, required=True)
    parser.add_argument("--sessions-before", type=int, required=True)
    parser.add_argument("--patience-s", type=float, default=PATIENCE_S)
    return parser.parse_args(argv)


def _to_log(path: Path) -> None:
    """Let go of the terminal and of the parent's pipes: from here on everything is said in the log file."""
    handler = logging.FileHandler(path, encoding="utf-8")
    handler.setFormatter(logging.Formatter("%(asctime)s %(process)d %(levelname)s %(message)s"))
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    nothing = os.open(os.devnull, os.O_RDWR)
    for fd in (0, 1):
        os.dup2(nothing, fd)
    os.close(nothing)
    said = os.open(path, os.O_WRONLY | os.O_APPEND)
    os.dup2(said, 2)  # what a library may say
    os.close(said)
    os.chdir("/")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
