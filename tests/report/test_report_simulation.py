"""What a simulation says, and that it never says more than it knows."""

from __future__ import annotations

import io

import msgspec
import pytest

from tritune.model.measurement import Estimate
from tritune.model.slo import parse_slo
from tritune.report.content.document import Table
from tritune.report.content.simulation import headroom_line, simulation_document
from tritune.report.render.html import html
from tritune.report.render.text import print_text
from tritune.twin.calibrate import typed_profile
from tritune.twin.grid import service_line
from tritune.twin.predict import Headroom, Knee, Prediction
from tritune.twin.validate import Validity
from tritune.units import NEVER_NS

SLO = parse_slo("p99=50ms")
P99 = {"1": Estimate(20e6, 19e6, 21e6), "1.3": Estimate(30e6, 29e6, 31e6), "1.6": Estimate(NEVER_NS)}
LATENCY = {name: Estimate(v * 1e6, v * 0.9e6, v * 1.1e6) for name, v in (("p50", 5), ("p95", 9), ("p99", 12))}
VALID = Validity(5e6, 5.2e6, 0.04, 0.01, 0.02, 48e6, 47.9e6, -0.002, 991)
PROFILE = typed_profile("m", "4ms", service_line("4ms", 8))
ONE = Prediction("max_queue_delay_microseconds: 500", 100, 1, LATENCY, 0.0, 1.5, {1: 0.5, 2: 0.5}, 0.48)


@pytest.mark.parametrize(
    ("knee", "words"),
    [
        (Knee(1246, 1230, 1262, 1300), "knee 1246/s (1230–1262) for p99 <= 50 ms"),
        (Knee(320, 320, 320, 320, beyond=True), "knee above 320/s, the highest rate that may be asked about"),
        (Knee(0, 0, 0, 320), "no rate up to 320/s holds for p99 <= 50 ms"),
        (None, "knee not predicted for p99 <= 50 ms"),
    ],
)
def test_the_headroom_is_one_line(knee: Knee | None, words: str) -> None:
    line = headroom_line(Headroom(0.48, knee, P99), SLO)
    assert "48 % of capacity" in line
    assert words in line
    assert "p99 at 1 / 1.3 / 1.6 x the rate: 20 ms / 30 ms / never settles" in line
    assert "\n" not in line


def table(*predictions: Prediction, validity: Validity | None = VALID) -> Table:
    document = simulation_document(PROFILE, validity, predictions, Headroom(0.48, None, P99))
    [first, *_] = document.summary
    assert isinstance(first, Table)
    return first


def test_every_row_shows_the_error_of_the_replay() -> None:
    found = table(ONE, ONE)
    assert found.columns[-1] == "replay"
    assert [row[-1] for row in found.rows] == ["p99 0 %"] * 2
    assert found.rows[0][0] == "delay 500 us"
    assert found.rows[0][4] == "12.0 (10.8–13.2)"
    worse = msgspec.structs.replace(VALID, p99_error=-0.17)
    assert table(ONE, validity=worse).rows[0][-1] == "p99 -17 %"
    assert table(ONE, validity=None).rows[0][-1] == "none"


def test_what_never_settles_or_is_refused_has_no_percentiles() -> None:
    grows = msgspec.structs.replace(ONE, settles=False)
    refused = Prediction("instance_group.count: 2", 100, 2, refusal="nobody knows")
    found = table(grows, refused)
    for row in found.rows:
        assert not any("12.0" in cell for cell in row)
    assert found.rows[0][2:4] == ("never", "settles")
    document = simulation_document(PROFILE, VALID, [ONE, refused], Headroom(0.48, None, P99))
    assert document.verdict.label == "Partly refused"
    text = io.StringIO()
    print_text(document, text, full=True)
    assert "Not predicted: nobody knows." in text.getvalue()
    assert "given" in text.getvalue()


def test_it_can_be_a_page() -> None:
    document = simulation_document(PROFILE, None, [ONE], Headroom(0.48, Knee(5, 4, 6, 7), P99), SLO)
    page = html(document)
    assert "Simulation of m" in page
    assert "Not checked against any run" in page
