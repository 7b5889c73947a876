"""The page: one file, nothing fetched, nothing injected, every chart really drawn (in a real browser)."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Iterator
from html.parser import HTMLParser
from importlib.resources import files
from pathlib import Path
from typing import Any

import msgspec
import pytest
import sample
from playwright.sync_api import Browser, Page, sync_playwright

from tritune.model.config import Change
from tritune.report.content.diagnosis import diagnosis_document
from tritune.report.content.document import Chart, Document
from tritune.report.content.load import load_document
from tritune.report.content.tuning import tuning_document
from tritune.report.render.html import LIBRARIES, html, source_hash
from tritune.tune.result import StepResult

CHROMIUM = "/usr/bin/chromium"
QUIET = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
]
EVIL = "</script><script>document.title='owned'</script><img src=x onerror=\"document.title='owned'\">"


def evil_tuning() -> Document:
    """A hostile name in every place that takes text from a server or a file."""
    result = sample.tune_result()
    step = StepResult(EVIL, Change(()), (EVIL,), EVIL, "undone", EVIL, None, sample.STEPS[0].measurements)
    return tuning_document(
        msgspec.structs.replace(
            result,
            model=EVIL,
            url=EVIL,
            diff=EVIL,
            notes=(EVIL,),
            next_commands=(EVIL,),
            steps=(*result.steps, step),
            diagnosis=sample.diagnosis(EVIL),
        )
    )


def documents() -> dict[str, Document]:
    manifest, _, log = sample.load_run()
    return {
        "tune": tuning_document(sample.tune_result()),
        "load": load_document(manifest, log),
        "diagnosis": diagnosis_document([sample.diagnosis()], url=sample.URL),
        "hostile": evil_tuning(),
    }


class Elements(HTMLParser):
    """All start tags with their attributes, and the text of each script."""

    def __init__(self, page: str) -> None:
        super().__init__(convert_charrefs=False)
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[tuple[dict[str, str | None], str]] = []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append((dict(attrs), ""))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script" and self.scripts[-1][1] == "":
            self.scripts[-1] = (self.scripts[-1][0], data)


@pytest.mark.parametrize("name", ["tune", "load", "diagnosis", "hostile"])
def test_nothing_points_outside_the_file(name: str) -> None:
    page = Elements(html(documents()[name]))
    for tag, attributes in page.tags:
        assert tag not in ("iframe", "object", "embed", "form", "base", "audio", "video", "img", "frame")
        for attribute in ("src", "href", "srcset", "action", "data", "poster", "background"):
            link = attributes.get(attribute)
            assert link is None or link.startswith(("#", "data:,")), (tag, attribute, link)
    style = files("tritune.report.render").joinpath("templates", "report.css").read_text(encoding="utf-8")
    assert "url(" not in style
    assert "@import" not in style


def test_the_policy_names_exactly_the_scripts_that_are_there() -> None:
    text = html(documents()["tune"])
    page = Elements(text)
    policy = next(a["content"] for t, a in page.tags if a.get("http-equiv") == "Content-Security-Policy")
    assert policy is not None
    assert policy.startswith("default-src 'none'; script-src 'sha256-")
    run = [body for attributes, body in page.scripts if attributes.get("type") != "application/json"]
    assert len(run) == len(LIBRARIES) + 1
    allowed = re.search(r"script-src ([^;]*);", policy)
    assert allowed is not None
    assert allowed[1].split() == [f"'{source_hash(body)}'" for body in run]
    assert "unsafe-eval" not in policy
    assert "connect-src" not in policy


def test_the_charts_of_the_page_are_those_of_the_document() -> None:
    document = documents()["tune"]
    held = [
        json.loads(body)
        for attributes, body in Elements(html(document)).scripts
        if attributes.get("type") == "application/json"
    ]
    charts = [b for s in document.sections for b in s.blocks if isinstance(b, Chart)]
    assert held == [json.loads(json.dumps(chart.spec)) for chart in charts]


def test_hostile_names_stay_text() -> None:
    text = html(documents()["hostile"])
    assert EVIL not in text
    assert "&lt;/script&gt;" in text
    assert "onerror" not in {key for _, attributes in Elements(text).tags for key in attributes}


def test_tables_stand_in_where_scripts_do_not_run() -> None:
    text = html(documents()["tune"])
    figures = text.split("<figure")[1:]
    assert figures
    for figure in figures:
        noscript = figure.split("<noscript>")[1].split("</noscript>")[0]
        assert "<table" in noscript


def test_vendored_files_are_what_versions_says_and_cannot_end_a_script() -> None:
    assets = files("tritune.report").joinpath("assets")
    lines = assets.joinpath("VERSIONS").read_text(encoding="utf-8").splitlines()
    told = {name: (version, digest) for name, version, digest in (x.split() for x in lines if x[0] != "#")}
    assert tuple(told) == LIBRARIES
    notices = assets.joinpath("LICENSES").read_text(encoding="utf-8")
    for name, (version, digest) in told.items():
        content = assets.joinpath(f"{name}.min.js").read_bytes()
        assert hashlib.sha256(content).hexdigest() == digest
        assert b"</script" not in content.lower()
        assert b"sourceMappingURL" not in content
        assert f"{name} {version} (BSD-3-Clause)" in notices


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=CHROMIUM, args=QUIET)
        yield chromium
        chromium.close()


def opened(browser: Browser, path: Path, document: Document) -> tuple[Page, dict[str, list[str]]]:
    """The document's page from the disk, all charts settled, and everything it did besides."""
    path.write_text(html(document), encoding="utf-8", newline="\n")
    seen: dict[str, list[str]] = {"requests": [], "answers": [], "console": [], "errors": []}
    page = browser.new_page(viewport={"width": 1280, "height": 900})
    page.on("request", lambda request: seen["requests"].append(request.url))
    page.on("response", lambda response: seen["answers"].append(response.url))
    page.on("console", lambda message: seen["console"].append(f"{message.type}: {message.text}"))
    page.on("pageerror", lambda error: seen["errors"].append(str(error)))
    page.goto(path.as_uri())
    page.wait_for_function(
        "[...document.querySelectorAll('.chart')].every(c => c.dataset.drawn || c.hidden)", timeout=30_000
    )
    return page, seen


MEASURE = """() => [...document.querySelectorAll('figure[data-chart]')].map(figure => {
  const drawing = figure.querySelector('.chart svg, .chart canvas');
  const box = drawing ? drawing.getBoundingClientRect() : {width: 0, height: 0};
  const kinds = '.mark-rect path, .mark-symbol path, .mark-line path, .mark-rule line';
  const marks = drawing ? [...drawing.querySelectorAll(kinds)] : [];
  const plot = marks.filter(m => !m.closest('.role-axis, .role-legend'));
  return {width: box.width, height: box.height,
          marks: plot.filter(m => { const b = m.getBBox(); return b.width > 0 || b.height > 0; }).length};
})"""


@pytest.mark.browser
@pytest.mark.parametrize("name", ["tune", "load", "diagnosis", "hostile"])
def test_a_browser_draws_every_chart_and_fetches_nothing(browser: Browser, tmp_path: Path, name: str) -> None:
    document = documents()[name]
    page, seen = opened(browser, tmp_path / "report.html", document)
    figures: list[dict[str, Any]] = page.evaluate(MEASURE)
    charts = [b for s in document.sections for b in s.blocks if isinstance(b, Chart)]
    assert len(figures) == len(charts)
    for figure, chart in zip(figures, charts, strict=True):
        assert figure["width"] > 300, chart.title
        assert figure["height"] > 80, chart.title
        assert figure["marks"] >= 2, chart.title
    assert seen["requests"] == [(tmp_path / "report.html").as_uri()]
    assert seen["console"] == []
    assert seen["errors"] == []
    assert page.title() != "owned"
    page.close()


@pytest.mark.browser
def test_the_policy_stops_what_slips_through(browser: Browser, tmp_path: Path) -> None:
    page, seen = opened(browser, tmp_path / "report.html", documents()["tune"])
    page.evaluate(
        """() => { const s = document.createElement('script'); s.textContent = "document.title='owned'";
        document.body.append(s); const i = new Image(); i.src = 'https://sample.invalid/x.png'; }"""
    )
    page.wait_for_timeout(200)
    assert page.title() != "owned"
    assert seen["answers"] == [(tmp_path / "report.html").as_uri()]
    assert len([line for line in seen["console"] if "Content Security Policy" in line]) == 2
    page.close()


@pytest.mark.browser
@pytest.mark.parametrize("width", [390, 1280])
def test_the_page_never_scrolls_sideways_and_works_by_keyboard(
    browser: Browser, tmp_path: Path, width: int
) -> None:
    page, _ = opened(browser, tmp_path / "report.html", documents()["tune"])
    page.set_viewport_size({"width": width, "height": 800})
    page.wait_for_timeout(200)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.className") == "skip"
    summary = page.locator("figure summary").first
    summary.focus()
    page.keyboard.press("Enter")
    assert page.evaluate("document.querySelector('figure details').open")
    page.close()


@pytest.mark.browser
def test_without_scripts_the_tables_are_there(browser: Browser, tmp_path: Path) -> None:
    path = tmp_path / "report.html"
    path.write_text(html(documents()["tune"]), encoding="utf-8", newline="\n")
    context = browser.new_context(java_script_enabled=False)
    page = context.new_page()
    page.goto(path.as_uri())
    tables = page.locator("figure table:visible")
    assert tables.count() == page.locator("figure").count()
    context.close()
