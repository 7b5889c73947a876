"""The guard of a tuning: the lock, the first line of its journal, and a watchdog that outlives the owner."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import msgspec

import tritune
from tritune.errors import TrituneError
from tritune.pbtxt.message import same_json, view_json
from tritune.store.journal import Address, JournalFile, open_journal, utc_now
from tritune.store.owner import this_process
from tritune.tune.undo import BEGIN, Serving, decide

START_S = 60.0


class TuneGuard:
    """Satisfies `ports.Guard`: while it is entered the model is ours, and what we load will be undone.

    `serving` is what is served now, the original of this tuning; entering writes it as "begin". Refuses
    (slug tune-in-progress) while a living process holds the model, and (slug unfinished-tune) where an
    earlier tuning was never undone: its trial would otherwise become the original.
    `command` starts another watchdog than `python -m tritune.watchdog`; None of it where `watchdog` is false.
    """

    def __init__(
        self,
        address: Address,
        model: str,
        *,
        run: str,
        serving: Serving,
        watchdog: bool = True,
        home: Path | None = None,
        command: Sequence[str] = (sys.executable, "-P", "-m", "tritune.watchdog"),
    ) -> None:
        self.journal = open_journal(address, model, home)
        self._address = address
        self._model = model
        self._run = run
        self._serving = serving
        self._command = tuple(command) if watchdog else ()
        self._owner = this_process(run, utc_now(), "tune")

    def __enter__(self) -> JournalFile:
        """Take the lock, start the watchdog, write "begin"."""
        journal = self.journal
        journal.prepare()
        journal.lock.take(self._owner)
        try:
            self._refuse_unfinished()
            if self._command:
                self._start_watchdog()
            original = self._serving.config_json
            facts = {
                "model": self._model,
                "versions": self._serving.versions,
                "instances": view_json(original).instances,
            }
            journal.append(BEGIN, run=self._run, before=original, after=None, facts=facts)
        except BaseException:
            journal.lock.give_back(self._owner)
            raise
        return journal

    def __exit__(self, *_: object) -> None:
        """Give the lock back: that is what tells the watchdog to look at the journal, and to end."""
        self.journal.lock.give_back(self._owner)

    def _refuse_unfinished(self) -> None:
        told = self.journal.sessions()
        if not told or told[-1].closed:
            return
        decision = decide(self.journal.entries(), self._serving, same=same_json)
        if decision.action == "restore":
            raise TrituneError(
                f"an earlier tuning of '{self._model}' was never undone: {decision.why}",
                slug="unfinished-tune",
                hint=f"Run `tritune restore {self._address.url} --model {self._model}` first.",
            )

    def _start_watchdog(self) -> None:
        """Start it and return when it says that it watches: it must be able to act before anything is loaded.

        In a session of its own, so that neither a closed terminal nor Ctrl-C reaches it; it lets go of the
        pipes used here before it answers.
        """
        arguments = [
            *self._command,
            f"--journal={self.journal.path}",
            f"--model={self._model}",
            f"--owner-pid={self._owner.pid}",
            f"--owner-start={self._owner.start}",
            f"--sessions-before={len(self.journal.sessions())}",
            f"--address={msgspec.json.encode(self._address).decode()}",
        ]
        try:
            done = subprocess.run(  # noqa: S603  (our own interpreter and module)
                arguments,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                errors="replace",
                timeout=START_S,
                start_new_session=True,
                env=_environment(),
                check=False,
            )
            said = done.stderr.strip().splitlines()
            failed = done.returncode != 0
        except (OSError, subprocess.TimeoutExpired) as error:
            said, failed = [str(error)], True
        if failed:
            raise TrituneError(
                f"the watchdog did not start: {said[-1] if said else 'it gave no reason'}",
                slug="watchdog-failed",
                hint="Nothing was changed. With --no-watchdog, `tritune restore` is what undoes a kill.",
            )


def _environment() -> dict[str, str]:
    """Ours, with this tritune importable whatever way we were started."""
    root = str(Path(tritune.__file__).resolve().parents[1])
    path = os.environ.get("PYTHONPATH", "")
    return os.environ | {"PYTHONPATH": f"{path}{os.pathsep}{root}" if path else root}
