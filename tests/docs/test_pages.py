"""What the pages say exists: every rule and verb has its place, every link leads somewhere."""

import re
from pathlib import Path

import pytest

from tritune.diagnose.rules import LAST, RULES
from tritune.scenarios import scenario_names

ROOT = Path(__file__).parents[2]
PAGES = sorted([*ROOT.glob("*.md"), *ROOT.glob("docs/*.md")])
VERBS = ("demo", "diagnose", "load", "simulate", "tune", "restore", "report", "server")


def test_every_rule_has_an_entry_and_every_entry_a_rule() -> None:
    modules = {rule.__module__.rpartition(".")[2].replace("_", "-") for rule in (*RULES, LAST)}
    entries = set(re.findall(r"^## (\S+)$", (ROOT / "docs/rules.md").read_text(), re.MULTILINE))
    assert entries == modules


@pytest.mark.parametrize("page", ["README.md", "README.ko.md"])
def test_the_readme_names_every_verb_scenario_and_requirement(page: str) -> None:
    text = (ROOT / page).read_text()
    assert [verb for verb in VERBS if f"tritune {verb}" not in text] == []
    assert [name for name in scenario_names() if name not in text] == []
    assert [f"S{n}" for n in range(1, 24) if f"| S{n} |" not in text] == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+?)(?:#[^)]*)?\)", page.read_text()):
        assert (page.parent / target).exists(), f"{page.name}: {target}"


def test_the_version_in_the_change_log_is_coming() -> None:
    assert "## Unreleased" in (ROOT / "CHANGELOG.md").read_text()
