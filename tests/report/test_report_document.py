"""The content model: its shape, its JSON, and what each report must say."""

from __future__ import annotations

import json

import msgspec
import pytest
import sample

from tritune.model.config import Change
from tritune.model.measurement import Estimate, Measurement
from tritune.report.content.cells import cells
from tritune.report.content.diagnosis import diagnosis_document
from tritune.report.content.document import Chart, Document, Table
from tritune.report.content.load import load_document
from tritune.report.content.tuning import VERDICTS, tuning_document
from tritune.report.content.wording import duration, milliseconds, sentence
from tritune.report.render.json import json_text, parse
from tritune.units import NEVER_NS, NS_PER_MS


def documents() -> dict[str, Document]:
    manifest, _, log = sample.load_run()
    return {
        "tune": tuning_document(sample.tune_result()),
        "load": load_document(manifest, log),
        "diagnosis": diagnosis_document([sample.diagnosis()], url=sample.URL, notes=("no metrics port",)),
    }


def texts(document: Document) -> str:
    return json_text(document)


def section(document: Document, title: str) -> str:
    return json_text(
        msgspec.structs.replace(
            document, summary=(), sections=tuple(s for s in document.sections if s.title == title)
        )
    )


@pytest.mark.parametrize("name", ["tune", "load", "diagnosis"])
def test_json_reads_back_as_the_same_document(name: str) -> None:
    document = documents()[name]
    text = json_text(document)
    assert json.loads(text)["schema_version"] == 1
    assert parse(text) == document


def test_a_table_whose_rows_do_not_fit_its_columns_is_refused() -> None:
    with pytest.raises(ValueError, match="2 columns"):
        Table(columns=("a", "b"), rows=(("1",),))
    with pytest.raises(ValueError, match="alignment"):
        Table(columns=("a", "b"), rows=(), alignment=("left",))


def test_the_headline_gives_both_figures_with_intervals_the_load_and_the_slo() -> None:
    assert tuning_document(sample.tune_result()).headline == (
        "p99 112 ms (108–117) -> 14.3 ms (13.7–14.9) at 200 requests/s; SLO p99 <= 30 ms met."
    )


def test_where_nothing_changed_there_is_one_figure() -> None:
    result = sample.tune_result()
    same = msgspec.structs.replace(
        result,
        status="not met",
        change=Change(()),
        after=(),
        after_whole=None,
        config_after=result.config_before,
    )
    assert tuning_document(same).headline == (
        "p99 112 ms (108–117) at 200 requests/s; SLO p99 <= 30 ms not met."
    )


@pytest.mark.parametrize("status", list(VERDICTS))
def test_every_status_has_a_verdict_and_a_headline(status: str) -> None:
    result = msgspec.structs.replace(sample.tune_result(), status=status)
    assert tuning_document(result).verdict.label
    if status in ("already met", "advice", "cut"):
        result = msgspec.structs.replace(
            result,
            change=Change(()),
            after=(),
            after_whole=None,
            config_after=result.config_before,
            diff="",
            steps=(),
        )
        document = tuning_document(result)
        assert "->" not in document.headline
        assert "Changed: nothing" in texts(document)


def test_a_sceptic_finds_every_answer() -> None:
    document = tuning_document(sample.tune_result())
    assert "better: p99 -85%" in section(document, "What changed, and why")
    assert "10 paired slices" in section(document, "What changed, and why")
    assert "worse: p99 +31%" in section(document, "What did not help")
    assert "64 of 2100 requests failed" in section(document, "What did not help")
    assert "no cap is called for" in section(document, "What was not tried")
    assert "64 of 2100 (61 timeout, 3 connection)" in section(document, "Every measurement")
    assert "hey 0.1.4" in section(document, "Independent views")
    assert "-  max_queue_delay_microseconds: 100000" in section(document, "The change as a diff")
    assert "tritune restore" in section(document, "Apply it, or undo it")
    method = section(document, "How this was measured")
    for word in ("Poisson", "seed 7", "200 requests", "same plan", "95 %", "infinitely late", "312 us"):
        assert word in method
    limits = section(document, "Limits")
    assert "never measured" in limits
    assert "nv_gpu_utilization" in limits


def test_every_measured_cell_is_listed_once() -> None:
    listed = cells(sample.tune_result())
    measured = [*sample.BASELINE, *(m for step in sample.STEPS for m in step.measurements), sample.FINAL[1]]
    assert [cell.measurement for cell in listed] == measured
    assert [cell.number for cell in listed] == list(range(1, len(measured) + 1))
    instances = {cell.measurement.setting: cell.config.instances for cell in listed}
    assert instances["2 instances"] == 2
    assert instances["4 instances"] == 4
    assert instances["delay 100 us"] == 1


def test_a_result_that_went_through_json_gives_the_same_document() -> None:
    result = sample.tune_result()
    again = msgspec.json.decode(msgspec.json.encode(result), type=type(result))
    assert tuning_document(again) == tuning_document(result)


def test_charts_always_have_words_and_a_table() -> None:
    for document in documents().values():
        charts = [b for s in document.sections for b in s.blocks if isinstance(b, Chart)]
        assert charts
        for chart in charts:
            assert chart.alt.endswith(".")
            assert chart.fallback.rows
            assert chart.spec["$schema"].endswith("/vega-lite/v6.json")


def without_figures(cell: Measurement) -> Measurement:
    return msgspec.structs.replace(cell, latency={}, window=None, requests=0, errors={}, block_p99_ns=())


def test_nothing_measured_gives_dashes_and_no_charts() -> None:
    empty = tuple(without_figures(m) for m in sample.BASELINE)
    result = msgspec.structs.replace(
        sample.tune_result(),
        status="cut",
        before=empty,
        after=(),
        before_whole=empty[0],
        after_whole=None,
        steps=(),
        diagnosis=None,
        change=Change(()),
    )
    document = tuning_document(result)
    assert document.headline.startswith("p99 - at 200 requests/s")
    assert "nan" not in texts(document).lower()


def test_a_percentile_that_failed_requests_reach_is_never() -> None:
    never = {**sample.BASELINE[0].latency, "p99": Estimate(NEVER_NS, 9e8, NEVER_NS)}
    bad = msgspec.structs.replace(sample.BASELINE[0], latency=never)
    document = tuning_document(msgspec.structs.replace(sample.tune_result(), before=(bad,), before_whole=bad))
    assert document.headline.startswith("p99 never (failed requests reach it) ->")
    assert "failed requests reach p99" in texts(document)


def test_load_is_judged_by_intervals() -> None:
    manifest, cell, log = sample.load_run()
    document = load_document(manifest, log)
    assert document.verdict.label == "SLO not met"
    assert "25 of 6000 requests failed (25 timeout)" in document.headline
    near = {**cell.latency, "p99": Estimate(29 * NS_PER_MS, 27 * NS_PER_MS, 33 * NS_PER_MS)}
    undecided = msgspec.structs.replace(cell, latency=near, errors={})
    document = load_document(msgspec.structs.replace(manifest, measurement=undecided), log)
    assert document.verdict.label == "Undecided"
    assert load_document(msgspec.structs.replace(manifest, slo=None), log).verdict.label == "Measured"


def test_a_cut_load_says_so_and_one_without_figures_too() -> None:
    manifest, cell, _ = sample.load_run()
    cut = msgspec.structs.replace(cell, cut="interrupted")
    document = load_document(msgspec.structs.replace(manifest, measurement=cut))
    assert document.verdict.label == "Cut short"
    assert "interrupted" in texts(document)
    nothing = msgspec.structs.replace(manifest, measurement=None, cut="the server went away")
    assert load_document(nothing).headline == "The server went away."


def test_a_late_sender_is_doubted_aloud() -> None:
    manifest, cell, log = sample.load_run()
    late = msgspec.structs.replace(
        cell, sender=msgspec.structs.replace(cell.sender, lateness_p99_ns=20.0 * NS_PER_MS)
    )
    assert "Careful" not in texts(load_document(manifest, log))
    document = load_document(msgspec.structs.replace(manifest, measurement=late), log)
    assert document.verdict.label == "Not trustworthy"
    assert "Careful" in texts(document)
    result = sample.tune_result()
    assert "Careful" not in texts(tuning_document(result))
    document = tuning_document(msgspec.structs.replace(result, before=(late, result.before[1])))
    assert "Careful: in 1 of 8 measurements" in json_text(msgspec.structs.replace(document, sections=()))
    assert "(too late)" in section(document, "Every measurement")


def test_diagnoses_put_the_sick_first_and_say_what_was_not_seen() -> None:
    healthy = msgspec.structs.replace(sample.diagnosis("a_healthy_one"), findings=())
    document = diagnosis_document([healthy, sample.diagnosis()], url=sample.URL, notes=("no metrics",))
    assert document.verdict.label == "1 finding"
    assert document.sections[0].title.startswith(sample.MODEL)
    assert "No metrics." in texts(document)
    assert diagnosis_document([healthy], url=sample.URL).verdict.label == "Nothing found"
    idle = msgspec.structs.replace(healthy, no_verdict="nobody used it", breakdown=None, batches=())
    document = diagnosis_document([idle], url=sample.URL)
    assert document.verdict.label == "No verdict"
    assert "Nobody used it" in document.headline


def test_figures_are_never_without_doubt() -> None:
    assert duration(Estimate(14.3e6, 13.8e6, 14.9e6)) == "14.3 ms (13.8–14.9)"
    assert duration(Estimate(14.3e6)) == "14.3 ms (no interval)"
    assert duration(Estimate(900e6, 880e6, NEVER_NS)) == "900 ms (880–never)"
    assert duration(None) == "-"
    assert milliseconds(Estimate(14.3e6)) == "14.3 (?)"
    assert milliseconds(Estimate(NEVER_NS, 1e6, NEVER_NS)) == "never"


def test_sentences_keep_the_case_of_field_names() -> None:
    assert sentence("max_queue_delay_microseconds is 0") == "max_queue_delay_microseconds is 0."
    assert sentence("worse") == "Worse."
    assert sentence("") == ""
