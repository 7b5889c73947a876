"""`tritune restore` against a server whose loads take time, and against the shared fake."""

from __future__ import annotations

import json

import pytest

from lasting_server import MODEL, URL, LastingServer, ListJournal, VirtualClock, config, pinned
from tritune.errors import TrituneError
from tritune.pbtxt.message import same_json, trial_json
from tritune.testing import FakeServer
from tritune.verbs.restore import Job, restore, restore_all

ORIGINAL = config()
TRIAL = pinned(config(500), 1)


def begun(*more: tuple[str, str]) -> ListJournal:
    journal = ListJournal()
    journal.append("begin", run="r", before=ORIGINAL, after=None, facts={"versions": ["1"]})
    for action, after in more:
        journal.append(action, run="r", before=None, after=after)
    return journal


def fresh() -> tuple[LastingServer, VirtualClock]:
    clock = VirtualClock()
    return LastingServer(ORIGINAL, clock.now, clock.sleep), clock


def test_a_loaded_trial_is_undone_and_proven() -> None:
    server, clock = fresh()
    server.load(MODEL, TRIAL, deadline_s=9)
    journal = begun(("trial", TRIAL), ("loaded", TRIAL))
    done = restore(server, journal, MODEL, clock=clock)
    assert done.action == "restored"
    assert same_json(server.effective_config(MODEL), ORIGINAL)
    assert journal.actions[-2:] == ["restoring", "restored"]
    assert journal.lines[-1]["verified"] is True
    assert restore(server, journal, MODEL, clock=clock).action == "nothing"
    assert len(server.loads) == 2


def test_a_load_under_way_is_undone_although_the_original_is_still_shown() -> None:
    server, clock = fresh()
    server.load_s = 5.0
    server.begin_load(TRIAL)
    assert same_json(server.effective_config(MODEL), ORIGINAL)
    assert restore(server, begun(("trial", TRIAL)), MODEL, clock=clock).action == "restored"
    clock.sleep(60)
    assert same_json(server.effective_config(MODEL), ORIGINAL)


def test_a_restarted_server_has_nothing_to_undo_and_the_session_is_closed() -> None:
    server, clock = fresh()
    journal = begun(("trial", TRIAL), ("loaded", TRIAL))
    assert restore(server, journal, MODEL, clock=clock).action == "nothing"
    assert server.loads == []
    assert journal.actions[-1] == "restored"


def test_somebody_elses_change_is_refused_without_force() -> None:
    server, clock = fresh()
    server.load(MODEL, config(7), deadline_s=9)
    journal = begun(("trial", TRIAL), ("loaded", TRIAL))
    with pytest.raises(TrituneError, match="changed by somebody else") as caught:
        restore(server, journal, MODEL, clock=clock)
    assert caught.value.slug == "restore-refused"
    assert len(server.loads) == 1
    assert restore(server, journal, MODEL, clock=clock, force=True).action == "restored"
    assert same_json(server.effective_config(MODEL), ORIGINAL)


def test_restoring_does_not_deploy_a_version_that_was_added_meanwhile() -> None:
    server, clock = fresh()
    server.load(MODEL, TRIAL, deadline_s=9)
    server.versions_there = [1, 2]
    journal = begun(("trial", TRIAL), ("loaded", TRIAL))
    done = restore(server, journal, MODEL, clock=clock)
    assert [entry.version for entry in server.index()] == ["1"]
    assert "version 2 is new" in done.notes[0]
    assert same_json(server.effective_config(MODEL), trial_json(ORIGINAL, (1,)))
    loads = len(server.loads)
    assert restore(server, journal, MODEL, clock=clock).action == "nothing"
    assert len(server.loads) == loads


def test_a_load_that_changed_nothing_is_not_called_restored() -> None:
    server, clock = fresh()
    server.load(MODEL, TRIAL, deadline_s=9)
    server.begin_load = lambda config_json: clock.now()  # answers, and does nothing
    journal = begun(("trial", TRIAL), ("loaded", TRIAL))
    with pytest.raises(TrituneError, match="still differs") as caught:
        restore(server, journal, MODEL, clock=clock)
    assert caught.value.slug == "restore-incomplete"
    assert journal.actions[-1] == "restoring"


def test_versions_that_do_not_come_back_are_said() -> None:
    server, clock = fresh()
    server.load(MODEL, TRIAL, deadline_s=9)
    journal = begun(("trial", TRIAL), ("loaded", TRIAL))
    shown = server.index()
    server.index = lambda: shown if len(server.loads) == 1 else ()
    with pytest.raises(TrituneError, match="version none is ready instead of 1"):
        restore(server, journal, MODEL, clock=clock)


def test_a_server_that_is_gone_is_one_sentence() -> None:
    server, clock = fresh()
    server.gone_until = clock.now() + 60
    with pytest.raises(TrituneError, match="does not answer"):
        restore(server, begun(("trial", TRIAL)), MODEL, clock=clock)


def test_the_shared_fake_is_restored_too() -> None:
    server = FakeServer(url=URL)
    server.add_model(json.loads(ORIGINAL))
    server.load(MODEL, TRIAL, deadline_s=9)
    journal = begun(("trial", TRIAL), ("loaded", TRIAL))
    assert restore(server, journal, MODEL, clock=VirtualClock()).action == "restored"
    assert same_json(server.effective_config(MODEL), ORIGINAL)


def test_all_are_restored_although_one_fails() -> None:
    (good, clock), (gone, _) = fresh(), fresh()
    good.load(MODEL, TRIAL, deadline_s=9)
    gone.gone_until = 1e9
    journal = begun(("trial", TRIAL), ("loaded", TRIAL))

    def refuse() -> LastingServer:
        raise TrituneError("nobody there", slug="server-unreachable", hint="Start it.")

    done = restore_all(
        [
            Job(URL, MODEL, lambda: gone, begun(("trial", TRIAL))),
            Job(URL, MODEL, refuse, begun()),
            Job(URL, MODEL, lambda: good, journal),
        ],
        clock=clock,
    )
    assert [d.action for d in done] == ["failed", "failed", "restored"]
    assert (done[1].why, done[1].slug, done[1].hint) == ("nobody there", "server-unreachable", "Start it.")
