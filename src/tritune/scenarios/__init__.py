"""Failures that one can start: a model repository, a workload, what must be found. Data, and its loader."""

from tritune.scenarios.loader import (
    Budget,
    Expect,
    Scenario,
    ScenarioWorkload,
    load_scenario,
    materialise,
    scenario_names,
)

__all__ = [
    "Budget",
    "Expect",
    "Scenario",
    "ScenarioWorkload",
    "load_scenario",
    "materialise",
    "scenario_names",
]
