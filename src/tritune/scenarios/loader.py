"""Scenarios by name, and their model repositories written out where a server can read them."""

from __future__ import annotations

import shutil
from importlib.resources import as_file, files
from importlib.resources.abc import Traversable
from pathlib import Path
from typing import Literal

import msgspec

from tritune.errors import TrituneError, UsageError
from tritune.model.config import PATHS
from tritune.model.slo import Slo, parse_slo
from tritune.model.workload import Arrivals, Workload
from tritune.units import parse_duration

Source = Literal["server", "run", "trace", "config"]

_FILE = "scenario.toml"
_DEVICE = "device"


class ScenarioWorkload(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The open-loop load that shows the failure; `other_rates_per_s` must behave alike (healthy only)."""

    model: str
    rate_per_s: float
    duration: str
    arrivals: Arrivals = "poisson"
    seed: int = 1
    items: int = 1
    other_rates_per_s: tuple[float, ...] = ()


class Expect(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a diagnosis must name first ("" = nothing), and what it must not name at all."""

    primary: str
    not_: tuple[str, ...] = msgspec.field(name="not", default=())


class Budget(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a tuning of this scenario may cost: the window per measurement and the most reloads."""

    window: str
    reloads: int


class Hey(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The closed loop that an independent generator plays before and after."""

    concurrency: int = 16
    count: int = 2000


class Scenario(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """One failure. `story` is what the operator sees; each field in `remedy` fixes it alone."""

    title: str
    story: str
    workload: ScenarioWorkload
    slo: str
    sources: tuple[Source, ...]
    expect: Expect
    remedy: tuple[str, ...]
    budget: Budget
    hey: Hey = Hey()
    name: str = ""

    @property
    def objective(self) -> Slo:
        """`slo`, parsed."""
        return parse_slo(self.slo)

    def plan(self, rate_per_s: float | None = None, duration_ns: int | None = None) -> Workload:
        """The workload as the load engine takes it, at another rate or for another time if given."""
        return Workload(
            model=self.workload.model,
            rate_per_s=self.workload.rate_per_s if rate_per_s is None else rate_per_s,
            duration_ns=parse_duration(self.workload.duration) if duration_ns is None else duration_ns,
            arrivals=self.workload.arrivals,
            seed=self.workload.seed,
            items=self.workload.items,
        )


def scenario_names() -> tuple[str, ...]:
    """The scenarios that are shipped, in alphabetical order."""
    return tuple(sorted(entry.name for entry in _shipped().iterdir() if (entry / _FILE).is_file()))


def load_scenario(name: str) -> Scenario:
    """The scenario of this name. Raises UsageError (unknown-scenario) that lists the known ones."""
    known = scenario_names()
    if name not in known:
        raise UsageError(
            f"there is no scenario '{name}'", slug="unknown-scenario", hint=f"There are: {', '.join(known)}."
        )
    text = (_shipped() / name / _FILE).read_bytes()
    scenario = msgspec.toml.decode(text, type=Scenario)
    if unknown := [path for path in scenario.remedy if path not in PATHS]:
        raise ValueError(f"{name}/{_FILE}: remedy names no settings: {unknown}")
    parse_duration(scenario.budget.window)
    return msgspec.structs.replace(scenario, name=name)


def materialise(scenario: Scenario, folder: Path) -> Path:
    """folder/models: the scenario's model repository, each model with the synthetic device as version 1.

    What lies there from an earlier call is replaced. Raises TrituneError where it cannot be written.
    """
    repository = folder / "models"
    try:
        if repository.exists():
            shutil.rmtree(repository)
        with as_file(_shipped() / scenario.name / "models") as models:
            shutil.copytree(models, repository)
        device = (_shipped() / _DEVICE / "model.py").read_bytes()
        for model in sorted(repository.iterdir()):
            version = model / "1"
            version.mkdir()
            (version / "model.py").write_bytes(device)
    except OSError as error:
        raise TrituneError(
            f"the scenario's models could not be written to {repository}: {error}",
            slug="folder-not-writable",
            hint="Name a folder that you may write to.",
        ) from error
    return repository


def _shipped() -> Traversable:
    return files("tritune.scenarios")
