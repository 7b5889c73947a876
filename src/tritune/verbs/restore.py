"""Undo what a tuning changed: serve the original configuration again, and prove that it is served.

Restored means (safety 3): the effective configuration equals the original as a protobuf message, the same
versions are READY, and so the same number of instances (it is part of the message; a load call that
shrinks a model returns only when the surplus instances are gone).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

import msgspec

from tritune.errors import TrituneError
from tritune.pbtxt.message import same_json, trial_json
from tritune.tune.undo import RESTORED, RESTORING, Serving, Session, as_served, decide
from tritune.units import NS_PER_S
from tritune.verbs.ports import Clock, Guard, Journal, Server
from tritune.verbs.preflight import ready_versions

LOAD_DEADLINE_S = 120.0
READY_S = 30.0
LOOK_AGAIN_S = 0.1


class Restored(msgspec.Struct, frozen=True):
    """What was done for one model. "failed" and its `slug` and `hint` appear only in `restore_all`."""

    url: str
    model: str
    action: Literal["restored", "nothing", "failed"]
    why: str
    run: str = ""
    notes: tuple[str, ...] = ()
    slug: str = ""
    hint: str = ""


@dataclass(frozen=True)
class Job:
    """One model to restore: how to reach its server, and its guard (the lock; no watchdog is needed)."""

    url: str
    model: str
    connect: Callable[[], Server]
    guard: Guard


def restore(
    server: Server,
    guard: Guard,
    model: str,
    *,
    clock: Clock,
    force: bool = False,
    run: str | None = None,
    deadline_s: float = LOAD_DEADLINE_S,
) -> Restored:
    """Undo the last tuning of a model, or the one of `run`. Refuses while a living process tunes it."""
    with guard as journal:
        return undo(server, journal, model, clock=clock, force=force, run=run, deadline_s=deadline_s)


def restore_all(jobs: Iterable[Job], *, clock: Clock, force: bool = False) -> tuple[Restored, ...]:
    """Undo the last tuning of every model; one that fails does not keep the others from being restored."""
    done: list[Restored] = []
    for job in jobs:
        try:
            done.append(restore(job.connect(), job.guard, job.model, clock=clock, force=force))
        except TrituneError as error:
            done.append(
                Restored(job.url, job.model, "failed", error.message, slug=error.slug, hint=error.hint)
            )
    return tuple(done)


def undo(
    server: Server,
    journal: Journal,
    model: str,
    *,
    clock: Clock,
    force: bool = False,
    run: str | None = None,
    deadline_s: float = LOAD_DEADLINE_S,
) -> Restored:
    """The same with the lock already held; the watchdog calls this.

    A load that may still be under way needs no waiting: the server works off the loads of a model in turn,
    so ours takes effect after it, and the call returns when it is done. Where the original policy would now
    deploy a version that was not served before (somebody copied it into the repository), the original is
    loaded again, pinned to its versions, and a note says so. Raises TrituneError: restore-refused,
    restore-incomplete, and whatever the server says when it is gone or does not load.
    """
    entries = journal.entries()
    now = look(server, model)
    decision = decide(entries, now, same=same_json, force=force, run=run)
    session = decision.session
    if decision.action == "refuse":
        raise TrituneError(
            f"'{model}' at {server.url} was changed by somebody else: {decision.why}",
            slug="restore-refused",
            hint="Look at its configuration; --force puts back the one from before the tuning.",
        )
    if session is None:
        return Restored(server.url, model, "nothing", decision.why)
    if decision.action == "nothing":
        if not session.closed:
            _close(journal, session, now, now)
        return Restored(server.url, model, "nothing", decision.why, session.run)
    shown, notes = _put_back(server, journal, model, now, session, clock, deadline_s)
    _close(journal, session, now, shown)
    return Restored(server.url, model, "restored", decision.why, session.run, notes)


def look(server: Server, model: str) -> Serving:
    """What is served of a model now; one sentence where the server or the model is gone."""
    config_json = server.effective_config(model)
    return Serving(config_json, ready_versions(server.index(), model))


def _put_back(
    server: Server,
    journal: Journal,
    model: str,
    now: Serving,
    session: Session,
    clock: Clock,
    deadline_s: float,
) -> tuple[Serving, tuple[str, ...]]:
    """Load the original and verify it; pinned to its versions where it would deploy another one."""
    versions = session.versions or now.versions
    shown = _load(server, journal, model, now, session, session.original, clock, deadline_s)
    notes: tuple[str, ...] = ()
    wanted = session.original
    if not set(shown.versions) <= set(versions):
        others = ", ".join(v for v in shown.versions if v not in versions)
        wanted = trial_json(session.original, versions)
        shown = _load(server, journal, model, shown, session, wanted, clock, deadline_s)
        pins = ", ".join(versions)
        notes = (
            f"version {others} is new in the repository; to keep it out, version_policy is pinned to {pins}",
        )
    if set(shown.versions) != set(versions):
        raise _incomplete(
            model, f"version {', '.join(shown.versions) or 'none'} is ready instead of {', '.join(versions)}"
        )
    if not same_json(as_served(wanted), shown.config_json):
        raise _incomplete(model, "the configuration that is served still differs from the original")
    return shown, notes


def _load(
    server: Server,
    journal: Journal,
    model: str,
    now: Serving,
    session: Session,
    config_json: str,
    clock: Clock,
    deadline_s: float,
) -> Serving:
    """Journal, load, wait until the session's versions are ready (or others are), look."""
    journal.append(RESTORING, run=session.run, before=now.config_json, after=config_json)
    server.load(model, config_json, deadline_s=deadline_s)
    versions = set(session.versions or now.versions)
    end = clock.now_ns() + round(READY_S * NS_PER_S)
    while True:
        ready = set(ready_versions(server.index(), model))
        if ready == versions or ready - versions or clock.now_ns() >= end:
            return look(server, model)
        clock.sleep(LOOK_AGAIN_S)


def _close(journal: Journal, session: Session, before: Serving, shown: Serving) -> None:
    journal.append(
        RESTORED,
        run=session.run,
        before=before.config_json,
        after=shown.config_json,
        facts={"verified": True},
    )


def _incomplete(model: str, what: str) -> TrituneError:
    return TrituneError(
        f"the original of '{model}' was loaded, but {what}",
        slug="restore-incomplete",
        hint="See the server's log; `tritune restore` tries again.",
    )
