"""What a simulation says, and that it never says more than it knows."""

from __future__ import annotations

import io
from typing import Any

import msgspec
import pytest

from tritune.model.client import ClientPolicy
from tritune.model.measurement import Estimate
from tritune.model.slo import parse_slo
from tritune.report.content.document import Chart, Document, Table
from tritune.report.content.simulation import MOST_ROWS, simulation_document
from tritune.report.content.simulation_words import headroom_line, rate, short
from tritune.report.render.html import html
from tritune.report.render.text import print_text
from tritune.twin.ask.answer import Simulation
from tritune.twin.ask.grid import service_line
from tritune.twin.ask.knee import Headroom, Knee
from tritune.twin.ask.predict import Prediction
from tritune.twin.ask.validate import Validity
from tritune.twin.ask.verified import Verified
from tritune.twin.fit.figures import typed_profile
from tritune.units import NEVER_NS

SLO = parse_slo("p99=50ms")
P99 = {"1": Estimate(20e6, 19e6, 21e6), "1.3": Estimate(30e6, 29e6, 31e6), "1.6": Estimate(NEVER_NS)}
LATENCY = {name: Estimate(v * 1e6, v * 0.9e6, v * 1.1e6) for name, v in (("p50", 5), ("p95", 9), ("p99", 12))}
VALID = Validity(5e6, 5.2e6, 0.04, 0.01, 0.02, 48e6, 47.9e6, -0.002, 991)
PROFILE = typed_profile("m", "4ms", service_line("4ms", 8))
ROOM = Headroom(0.48, None, P99, 100)
DELAY = "dynamic_batching.max_queue_delay_microseconds"


def one(delay: int = 500, rank: int = 1, **more: Any) -> Prediction:
    found = Prediction(f"delay {delay}", 100, 1, LATENCY, 0.0, 1.5, {1: 0.5, 2: 0.5}, 0.48, rank=rank)
    return msgspec.structs.replace(found, **({"fields": {DELAY: str(delay)}} | more))


def simulation(*predictions: Prediction, validity: Validity | None = VALID, **more: Any) -> Simulation:
    return Simulation(PROFILE, validity, predictions or (one(),), **({"headroom": ROOM} | more))


def text_of(found: Simulation, *, full: bool = False) -> str:
    stream = io.StringIO()
    print_text(simulation_document(found), stream, full=full)
    return stream.getvalue()


def table(document: Document) -> Table:
    return next(block for block in document.summary if isinstance(block, Table))


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
    line = headroom_line(Headroom(0.48, knee, P99, 200), SLO)
    assert line.startswith("As it is, at 200/s: 48 % of capacity")
    assert words in line
    assert "p99 at 1 / 1.3 / 1.6 x the rate: 20 ms / 30 ms / never settles" in line
    assert "\n" not in line


def test_the_headroom_of_a_closed_loop_has_no_rate() -> None:
    line = headroom_line(Headroom(None, None, {"1": P99["1"]}), SLO)
    assert line == "As it is: p99 20 ms."


def test_every_row_shows_the_error_of_the_replay() -> None:
    found = table(simulation_document(simulation(one(), one(0, 2))))
    assert found.columns[0] == "delay"
    assert found.columns[-1] == "replay"
    assert [row[-1] for row in found.rows] == ["p99 0 %"] * 2
    assert [row[0] for row in found.rows] == ["500 us", "0"]
    assert found.rows[0][3] == "12.0 (10.8–13.2)"
    worse = msgspec.structs.replace(VALID, p99_error=-0.17)
    assert table(simulation_document(simulation(validity=worse))).rows[0][-1] == "p99 -17 %"
    assert table(simulation_document(simulation(validity=None))).columns[-1] != "replay"
    blind = msgspec.structs.replace(VALID, p99_error=None, p99_observed_ns=None, p99_replayed_ns=None)
    assert table(simulation_document(simulation(validity=blind))).rows[0][-1] == "queue +4 %"


def test_what_never_settles_or_is_refused_has_no_percentiles() -> None:
    grows = one(0, 1, settles=False)
    refused = Prediction("instances 2", 100, 2, refusal="nobody knows", rank=2, fields={DELAY: "7"})
    document = simulation_document(simulation(grows, refused))
    for row in table(document).rows:
        assert not any("12.0" in cell for cell in row)
    assert table(document).rows[0][1:3] == ("never", "settles")
    assert document.verdict.label == "Partly refused"
    text = text_of(simulation(one(), refused), full=True)
    assert "Not predicted: nobody knows." in text
    assert "given" in text


def test_a_screen_holds_the_best_and_says_where_the_rest_is() -> None:
    many = simulation(*(one(delay, delay + 1) for delay in range(50)))
    document = simulation_document(many)
    assert len(table(document).rows) == MOST_ROWS
    assert f"The best {MOST_ROWS} of 50; all of them: --full, --json." in table(document).notes
    [everything] = next(section for section in document.sections if section.title == "All predictions").blocks
    assert isinstance(everything, Table)
    assert len(everything.rows) == 50
    assert "The best" not in " ".join(everything.notes)


def test_the_best_and_the_cheapest_are_said_in_a_line_each() -> None:
    now = one(20_000, 3, setting="as it is", fields={}, meets="no", latency={"p99": Estimate(80e6)})
    quick = one(0, 1, setting="a", instances=4, meets="yes", fields={DELAY: "0", "instance_group.count": "4"})
    slower = {"p99": Estimate(40e6, 39e6, 41e6)} | {n: LATENCY[n] for n in ("p50", "p95")}
    cheap = one(0, 2, setting="b", meets="yes", latency=slower)
    text = text_of(simulation(quick, cheap, now, slo=SLO, best_knee=Knee(900, 880, 920, 1000)))
    assert (
        "Best: delay 0, 4 instances, p99 12 ms (as it is: 80 ms), meets the SLO; knee 900/s (880–920)."
        in text
    )
    assert "Cheapest that meets the SLO: delay 0 (cost 1), p99 40 ms." in text


def test_a_best_that_only_chance_makes_is_not_sold_as_one() -> None:
    close = one(0, 2, setting="b", latency=LATENCY | {"p99": Estimate(13e6, 12e6, 14e6)})
    far = one(9, 3, setting="c", latency=LATENCY | {"p99": Estimate(30e6, 29e6, 31e6)})
    text = text_of(simulation(one(setting="a"), close, far))
    assert "The p99 of 1 other cannot be told from it: compare p50, p95 and cost." in text
    assert "cannot be told" not in text_of(simulation(one(setting="a"), far))


def test_a_sweep_of_rates_is_drawn_as_bars() -> None:
    line = [one(500, k, rate_per_s=100.0 * k, setting="as it is", fields={}) for k in (1, 2)]
    line.append(one(500, 3, rate_per_s=1200, setting="as it is", fields={}, settles=False))
    document = simulation_document(simulation(*line))
    [chart] = [block for block in document.summary if isinstance(block, Chart)]
    assert [row[0] for row in chart.fallback.rows] == ["100", "200", "1200"]
    assert chart.fallback.rows[0][-1].startswith("█")
    assert chart.fallback.rows[2][1:] == ("-", "never settles")
    assert len(chart.spec["data"]["values"]) == 2


def test_settings_and_rates_make_a_row_per_setting() -> None:
    lines = [
        one(d, 1, rate_per_s=r, setting=f"d{d}", meets="yes") for d in (0, 500) for r in range(100, 1100, 100)
    ]
    document = simulation_document(simulation(*lines, slo=SLO))
    found = table(document)
    assert found.columns[:3] == ("delay", "100/s", "280/s") or found.columns[1] == "100/s"
    assert found.columns[-2] == "1000/s"
    assert len(found.rows) == 2
    assert found.rows[0][1] == "12.0 +"
    assert any(isinstance(b, Chart) for section in document.sections for b in section.blocks)


def test_lower_confidence_is_seen_at_once() -> None:
    checked = simulation(verified=Verified("Triton 24.10"))
    assert simulation_document(checked).verdict.label == "Predicted"
    assert "Verified on: Triton 24.10." in text_of(checked)
    other = simulation(verified=Verified("Triton 24.10", ("backend onnxruntime not checked",)))
    document = simulation_document(other)
    assert (document.verdict.label, document.verdict.tone) == ("Predicted, lower confidence", "warn")
    assert "Lower confidence: backend onnxruntime not checked." in text_of(other)
    assert simulation_document(simulation(validity=None)).verdict.label == "Predicted, not checked"


def test_clients_show_goodput_and_attempts() -> None:
    policy = ClientPolicy(timeout_ns=50_000_000, retries=2, backoff_ns=10_000_000, retry_budget=0.1)
    text = text_of(
        simulation(one(goodput_per_s=96.2, attempts_per_request=1.4, failed_share=0.02), client=policy)
    )
    for words in (
        "goodput/s",
        "96.2",
        "attempts",
        "1.4",
        "2 %",
        "give up after 50 ms",
        "retry up to 2 times",
    ):
        assert words in text, words


def test_names_are_short_and_figures_plain() -> None:
    fields = {DELAY: "0", "instance_group.count": "1", "replicas": "12", "max_batch_size": "8"}
    assert short(one(fields=fields)) == "delay 0, max batch 8, 1 instance, 12 replicas"
    preferred = {"dynamic_batching.preferred_batch_size": "[ 4, 8 ]", "dynamic_batching": "removed"}
    assert short(one(fields=preferred)) == "batching none, preferred 4, 8"
    assert [rate(r) for r in (0.5, 12.5, 1200, 123456)] == ["0.5", "12.5", "1200", "123456"]


def test_it_can_be_a_page() -> None:
    room = Headroom(0.48, Knee(5, 4, 6, 7), P99, 100)
    costly = one(0, 2, setting="x", instances=3, latency={"p99": Estimate(3e6)}, pareto=True)
    page = html(
        simulation_document(simulation(one(pareto=True), costly, validity=None, headroom=room, slo=SLO))
    )
    assert "Simulation of m" in page
    assert "Not checked against any run" in page
    assert "p99 against cost" in page
