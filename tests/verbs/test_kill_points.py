"""A tuning killed at any instant, in virtual time: the server ends with the original, or the undo refuses."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest

from lasting_server import MODEL, LastingServer, ListJournal, VirtualClock, config, pinned
from tritune.errors import TrituneError
from tritune.pbtxt.message import same_json
from tritune.verbs.restore import undo

ORIGINAL = config()
ALIEN = config(1234)
TRIALS = [
    pinned(config(500), 1),
    pinned(config(0, ()), 1),
    pinned(config(500, instance_group=[{"name": f"{MODEL}_0", "kind": "KIND_CPU", "count": 2}]), 1),
    pinned(config(100_000, (8,)), 1),
]


def owner(rng: random.Random, server: LastingServer, journal: ListJournal) -> Iterator[float]:
    """A tuning as it happens: yields how long each step lasts; may be dropped at any yield."""
    journal.append("begin", run="r", before=ORIGINAL, after=None, facts={"versions": ["1"]})
    yield rng.uniform(0, 2)
    best = ORIGINAL
    for trial in TRIALS:
        journal.append("trial", run="r", before=best, after=trial)
        yield 0.0
        yield server.begin_load(trial) - server.now()
        journal.append("loaded", run="r", before=None, after=trial)
        yield rng.uniform(0, 3)  # measuring
        if rng.random() < 0.5:
            journal.append("keep", run="r", before=best, after=trial)
            best = trial
        else:
            journal.append("trial", run="r", before=trial, after=best)
            yield 0.0
            yield server.begin_load(best) - server.now()
            journal.append("loaded", run="r", before=None, after=best)
        yield rng.uniform(0, 0.5)


@pytest.mark.parametrize("seed", range(120))
def test_killed_at_any_instant(seed: int) -> None:
    rng = random.Random(seed)  # noqa: S311  (a seed per case)
    clock, journal = VirtualClock(), ListJournal()
    server = LastingServer(ORIGINAL, clock.now, clock.sleep, load_s=rng.uniform(0.1, 4.0))
    killed_at = clock.now() + rng.uniform(0, 25)
    for lasts in owner(rng, server, journal):
        if clock.now() + lasts >= killed_at:
            break
        clock.sleep(lasts)
    clock.sleep(max(0.0, killed_at - clock.now()))
    clock.sleep(rng.choice([0.0, 0.25, rng.uniform(0, 10)]))  # until somebody notices
    fate = rng.choice(["as it is", "as it is", "restarted", "changed by somebody else"])
    if fate == "restarted":
        server.restart()
    if fate == "changed by somebody else":
        server.load(MODEL, ALIEN, deadline_s=60)
        with pytest.raises(TrituneError) as caught:
            undo(server, journal, MODEL, clock=clock)
        assert caught.value.slug == "restore-refused"
        assert same_json(server.effective_config(MODEL), ALIEN)
        return
    undo(server, journal, MODEL, clock=clock)
    clock.sleep(60)  # nothing may still come
    assert same_json(server.effective_config(MODEL), ORIGINAL)
    assert [entry.version for entry in server.index()] == ["1"]
    assert journal.actions[-1] == "restored"
    assert undo(server, journal, MODEL, clock=clock).action == "nothing"
