"""Whether a served configuration is ours to undo, and what it is undone to. Decides; never acts.

A tuning is a *session* of the journal: it opens with "begin", which holds the original, and is closed by
"finished" or by "restored". The vocabulary of the journal, all of it:

    begin      before = the original effective config; facts: model, versions, instances, url, grpc, metrics
    trial      about to load `after`; a load may be under way from here on
    loaded     `after` is what the server now serves
    failed     the server refused to load `after` and keeps serving what it had (a deadline that passed is
               no refusal: the load goes on, so nothing is written)
    keep       `after` is accepted as the best so far
    finished   the tuning ended in order and leaves `after` served
    restoring  about to load the original again
    restored   `after` is served and verified to be the original again (where it had to stay pinned to its
               versions its text differs from the original's; the fact verified = true then says so)

Any other action that carries an `after`, and a "restored" that the lines before it cannot explain, are read
as a load that may be under way: too careful, never wrong.

The target is always the original of the session, also where trials had been kept: after a kill nobody has
approved them yet, and after an ordered finish `tritune restore` means "as it was before tritune came".
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal

import msgspec

BEGIN = "begin"
TRIAL = "trial"
LOADED = "loaded"
FAILED = "failed"
KEEP = "keep"
FINISHED = "finished"
RESTORING = "restoring"
RESTORED = "restored"

# Equality of two configurations (JSON) as protobuf messages.
Same = Callable[[str, str], bool]


class Serving(msgspec.Struct, frozen=True):
    """What a server serves of one model now: the effective config (JSON) and the versions that are READY."""

    config_json: str
    versions: tuple[str, ...]


class Session(msgspec.Struct, frozen=True):
    """One tuning as its journal tells it.

    `configs` are all that it may have loaded, in order; `served` is what it last knew to be served.
    `pending` is a load that was announced and whose end was never written, so that it may be under way
    still; empty where there is none. `closed` says how it ended, empty while it is open; `result` is
    what it then left served. `versions` were READY at the start, empty where the journal does not say.
    """

    run: str
    original: str
    versions: tuple[str, ...]
    configs: tuple[str, ...] = ()
    served: str = ""
    pending: str = ""
    closed: Literal["", "finished", "restored"] = ""
    result: str = ""


class Decision(msgspec.Struct, frozen=True):
    """What to do, and why in a sentence. `session` is the one that is undone, None where there is none."""

    action: Literal["nothing", "restore", "refuse"]
    why: str
    session: Session | None = None


def sessions(entries: Iterable[Mapping[str, Any]]) -> tuple[Session, ...]:
    """The tunings in a journal, oldest first; lines before the first "begin" belong to none."""
    found: list[Session] = []
    for entry in entries:
        before = entry.get("before")
        if entry.get("action") == BEGIN and isinstance(before, str):
            versions = entry.get("versions")
            known = tuple(str(v) for v in versions) if isinstance(versions, list | tuple) else ()
            found.append(Session(str(entry.get("run", "")), before, known, served=before))
        elif found:
            found[-1] = _after(found[-1], entry)
    return tuple(found)


def decide(
    entries: Iterable[Mapping[str, Any]],
    now: Serving,
    *,
    same: Same,
    force: bool = False,
    run: str | None = None,
) -> Decision:
    """Nothing to do, restore, or refuse (safety 3), for the last tuning or the one of `run`.

    The original is served: nothing, unless an announced load may still be under way. Then it must be
    restored although it is served: measured on 24.10, the load of a killed client goes on for seconds, and
    the config endpoint shows the old configuration until it is done; the server works off the loads of one
    model one after the other, so the original loaded now is what stays.
    A configuration of this or a later tuning is served: restore. Anything else was put there by somebody
    else: refuse, unless `force`. Other READY versions than at the start mean the same: we pin them.
    """
    known = sessions(entries)
    start = next((i for i in reversed(range(len(known))) if run is None or known[i].run == run), None)
    if start is None:
        which = "" if run is None else f" by {run}"
        return Decision("nothing", f"the journal holds no tuning of this model{which}")
    session = known[start]
    shown = as_served(now.config_json)

    def is_served(config_json: str) -> bool:
        return same(shown, as_served(config_json))

    moved = bool(session.versions) and set(now.versions) != set(session.versions)
    pending = bool(known[-1].pending)
    if is_served(session.original):
        if moved:
            why = f"version {', '.join(now.versions)} is served instead of {', '.join(session.versions)}"
            return (
                Decision("restore", f"forced, although {why}", session)
                if force
                else Decision("refuse", f"the configuration is the original, but {why}", session)
            )
        if pending:
            return Decision("restore", "a load of a trial may still be under way", session)
        return Decision("nothing", "the original configuration is served", session)
    if session.closed == "restored" and not (moved or pending) and is_served(session.result):
        return Decision("nothing", "the original is served, pinned to the versions it had", session)
    if any(is_served(config) for later in known[start:] for config in later.configs):
        return Decision("restore", "a configuration of the tuning is served", session)
    if force:
        return Decision("restore", "forced, although somebody else changed the configuration", session)
    return Decision(
        "refuse", "the served configuration is neither the original nor one of the tuning", session
    )


def as_served(config_json: str) -> str:
    """A configuration as the server would show it: empty preferred sizes become {max_batch_size}.

    That is what NormalizeModelConfig fills in (triton-semantics 1.5); without it a trial that was loaded,
    but whose "loaded" line was never written, would look like somebody else's. Text that is not a JSON
    object comes back unchanged.
    """
    try:
        config = msgspec.json.decode(config_json)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return config_json
    if not isinstance(config, dict) or not isinstance(config.get("dynamic_batching"), dict):
        return config_json
    block, largest = config["dynamic_batching"], config.get("max_batch_size")
    if block.get("preferred_batch_size") or not isinstance(largest, int) or largest <= 0:
        return config_json
    filled = config | {"dynamic_batching": block | {"preferred_batch_size": [largest]}}
    return msgspec.json.encode(filled).decode()


def _after(session: Session, entry: Mapping[str, Any]) -> Session:
    """The session after one more line."""
    action, after = entry.get("action"), entry.get("after")
    if action == FAILED:
        return msgspec.structs.replace(session, pending="")
    if action == FINISHED:
        left = after if isinstance(after, str) else (session.configs or (session.original,))[-1]
        return _with(msgspec.structs.replace(session, closed="finished", result=left), left)
    if not isinstance(after, str):
        return session
    if action == RESTORED and (entry.get("verified") is True or _is_explained(session, after)):
        return msgspec.structs.replace(session, served=after, pending="", closed="restored", result=after)
    if action == LOADED:
        return _with(msgspec.structs.replace(session, served=after, pending=""), after)
    if action == KEEP:
        return _with(session, after)
    # A load that may be under way. Only restoring leaves a closed session closed.
    closed = session.closed if action == RESTORING else ""
    return _with(msgspec.structs.replace(session, pending=after, closed=closed), after)


def _is_explained(session: Session, after: str) -> bool:
    """Whether "restored" can be true: the original was loading, or was all that was served."""
    return after == session.original and (session.pending or session.served) == session.original


def _with(session: Session, config_json: str) -> Session:
    if config_json in session.configs:
        return session
    return msgspec.structs.replace(session, configs=(*session.configs, config_json))
