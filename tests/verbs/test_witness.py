"""Independent views: what they see, and what is said where one cannot be had."""

from __future__ import annotations

import msgspec
from tuning_lab import MODEL, Lab, config

from tritune.errors import TrituneError
from tritune.model.server import ModelKey, Snapshot
from tritune.model.workload import Workload
from tritune.testing import FakeServer
from tritune.units import NS_PER_MS, NS_PER_S
from tritune.verbs import witness  # its `testify` would be taken for a test by its name

LOAD = Workload(MODEL, rate_per_s=200, duration_ns=5 * NS_PER_S)
SUMMARY = {ModelKey(MODEL, "1"): {"nv_inference_request_summary_us": {"0.5": 4_000.0, "0.99": 7_500.0}}}


class WithSummaries(FakeServer):
    def metrics(self) -> Snapshot | None:
        found = super().metrics()
        return None if found is None else msgspec.structs.replace(found, summaries=SUMMARY)


def test_three_witnesses() -> None:
    lab = Lab(config(largest=8), server=WithSummaries())
    before = witness.testify(lab.kit, LOAD, lambda: 9.0 * NS_PER_MS)
    assert before.summary == 7.5 * NS_PER_MS
    assert before.closed_loop == 9.0 * NS_PER_MS
    assert before.fresh is not None
    assert 5 * NS_PER_MS < before.fresh < 12 * NS_PER_MS
    assert before.notes == ()
    rows = witness.views(before, None, 8)
    assert [row.before_p99_ns for row in rows] == [before.fresh, before.summary, before.closed_loop]
    assert [row.after_p99_ns for row in rows] == [None, None, None]


def test_a_witness_that_cannot_be_had_is_said_and_the_others_stay() -> None:
    def no_hey() -> float:
        raise TrituneError("hey is not installed", slug="no-hey", hint="Install it.")

    seen = witness.testify(Lab(config(largest=8)).kit, LOAD, no_hey)
    assert seen.closed_loop is None
    assert seen.summary is None  # this server exports no summaries
    assert seen.fresh is not None
    assert len(seen.notes) == 1
