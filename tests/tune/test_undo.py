"""The decision of an undo: every line of the table in tritune.tune.undo, and what may not confuse it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from tritune.pbtxt.message import pin_json, same_json
from tritune.tune.undo import Decision, Serving, as_served, decide, sessions


def config(delay_us: int, preferred: list[int] | None = None, latest: bool = True) -> str:
    policy: dict[str, Any] = {"latest": {"num_versions": 1}} if latest else {"specific": {"versions": [1]}}
    block = {"max_queue_delay_microseconds": delay_us, "preferred_batch_size": preferred or [4, 8]}
    return json.dumps({"name": "m", "version_policy": policy, "max_batch_size": 8, "dynamic_batching": block})


ORIGINAL, FIRST, SECOND, ALIEN = (
    config(100_000),
    config(500, latest=False),
    config(0, latest=False),
    config(7),
)


def line(action: str, after: str | None = None, **more: Any) -> dict[str, Any]:
    return {"time": "t", "run": "r1", "action": action, "before": None, "after": after} | more


BEGIN = line("begin", before=ORIGINAL, versions=["1"])


def judge(now: str, *entries: dict[str, Any], versions: tuple[str, ...] = ("1",), **options: Any) -> Decision:
    return decide(entries, Serving(now, versions), same=same_json, **options)


@pytest.mark.parametrize(
    ("now", "entries", "action"),
    [
        (ORIGINAL, [BEGIN], "nothing"),
        (ALIEN, [BEGIN], "refuse"),
        (ORIGINAL, [BEGIN, line("trial", FIRST)], "restore"),  # it may still be loading
        (FIRST, [BEGIN, line("trial", FIRST)], "restore"),
        (ALIEN, [BEGIN, line("trial", FIRST)], "refuse"),
        (FIRST, [BEGIN, line("trial", FIRST), line("loaded", FIRST)], "restore"),
        (ORIGINAL, [BEGIN, line("trial", FIRST), line("loaded", FIRST)], "nothing"),  # server restarted
        (ORIGINAL, [BEGIN, line("trial", FIRST), line("failed", FIRST)], "nothing"),
        (FIRST, [BEGIN, line("trial", FIRST), line("loaded", FIRST), line("keep", FIRST)], "restore"),
        (FIRST, [BEGIN, line("trial", FIRST), line("loaded", FIRST), line("trial", SECOND)], "restore"),
        (FIRST, [BEGIN, line("trial", FIRST), line("loaded", FIRST), line("finished", FIRST)], "restore"),
        (ORIGINAL, [BEGIN, line("finished", ORIGINAL)], "nothing"),
        (FIRST, [BEGIN, line("trial", FIRST), line("restoring", ORIGINAL)], "restore"),
        (ORIGINAL, [BEGIN, line("trial", FIRST), line("restoring", ORIGINAL)], "restore"),
        (
            ORIGINAL,
            [BEGIN, line("trial", FIRST), line("restoring", ORIGINAL), line("restored", ORIGINAL)],
            "nothing",
        ),
        (FIRST, [line("trial", FIRST)], "nothing"),  # nothing was ever begun
        (FIRST, [], "nothing"),
    ],
)
def test_what_is_done(now: str, entries: list[dict[str, Any]], action: str) -> None:
    assert judge(now, *entries).action == action


def test_restored_is_not_believed_while_another_load_may_be_under_way() -> None:
    """A load that missed its deadline goes on; "restored" without a load of the original is no proof."""
    entries = [BEGIN, line("trial", FIRST), line("restored", ORIGINAL)]
    (session,) = sessions(entries)
    assert not session.closed
    assert judge(ORIGINAL, *entries).action == "restore"


def test_restored_is_not_believed_while_a_trial_is_what_was_loaded_last() -> None:
    entries = [BEGIN, line("trial", FIRST), line("loaded", FIRST), line("restored", ORIGINAL)]
    assert not sessions(entries)[0].closed
    closed = sessions([*entries, line("loaded", ORIGINAL), line("restored", ORIGINAL)])
    assert closed[0].closed == "restored"


def test_force_takes_what_somebody_else_loaded() -> None:
    assert judge(ALIEN, BEGIN, force=True).action == "restore"


def test_other_versions_under_the_original_are_somebody_elses() -> None:
    assert judge(ORIGINAL, BEGIN, versions=("2",)).action == "refuse"
    assert judge(ORIGINAL, BEGIN, line("trial", FIRST), versions=("2",)).action == "refuse"
    assert judge(ORIGINAL, BEGIN, versions=("2",), force=True).action == "restore"


def test_a_trial_is_known_by_what_the_server_fills_in() -> None:
    """Killed between the load and its "loaded" line, after an empty block was sent."""
    sent = json.dumps({"name": "m", "max_batch_size": 8, "dynamic_batching": {}})
    shown = json.dumps({"dynamic_batching": {"preferred_batch_size": [8]}, "max_batch_size": 8, "name": "m"})
    assert judge(shown, BEGIN, line("trial", sent)).action == "restore"
    assert judge(shown.replace("[8]", "[4]"), BEGIN, line("trial", sent)).action == "refuse"


def test_the_last_tuning_is_undone_unless_an_earlier_one_is_named() -> None:
    later = {"before": FIRST, "run": "r2"}
    entries = [
        BEGIN,
        line("trial", FIRST),
        line("loaded", FIRST),
        line("finished", FIRST),
        line("begin", **later, versions=["1"]),
        line("trial", SECOND, run="r2"),
        line("loaded", SECOND, run="r2"),
    ]
    last, named = judge(SECOND, *entries), judge(SECOND, *entries, run="r1")
    assert last.session is not None
    assert named.session is not None
    assert (last.action, last.session.original) == ("restore", FIRST)
    assert (named.action, named.session.original) == ("restore", ORIGINAL)
    assert judge(FIRST, *entries[:-2]).action == "nothing"
    assert judge(FIRST, *entries[:-2], run="r1").action == "restore"
    assert judge(SECOND, *entries, run="r3").session is None


def test_a_restore_that_had_to_stay_pinned_is_done() -> None:
    kept_out = pin_json(ORIGINAL, ["1"])
    entries = [
        BEGIN,
        line("trial", FIRST),
        line("loaded", FIRST),
        line("restoring", kept_out),
        line("restored", kept_out, verified=True),
    ]
    assert judge(kept_out, *entries).action == "nothing"
    assert judge(kept_out, *entries, versions=("1", "2")).action == "restore"
    assert judge(FIRST, *entries).action == "restore"


def test_lines_that_are_not_ours_change_nothing() -> None:
    odd = [{"action": "trial"}, {"action": 7, "after": 7}, {}, line("begin"), line("keep")]
    assert sessions([*odd, BEGIN, *odd]) == sessions([BEGIN])


@pytest.mark.parametrize("text", ["", "[]", "nonsense", '{"max_batch_size": 8}', '{"dynamic_batching": 3}'])
def test_what_is_no_configuration_stays_as_it_is(text: str) -> None:
    assert as_served(text) == text
