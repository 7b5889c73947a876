"""Load a model once and keep what was measured."""

from __future__ import annotations

from urllib.parse import quote

import msgspec

from tritune.model.config import InstanceGroup, ServingConfig
from tritune.model.run import Manifest
from tritune.model.slo import Slo
from tritune.model.workload import Workload
from tritune.pbtxt.message import text_of_json, view_json
from tritune.verbs.keep import keep_cell
from tritune.verbs.measure import Cell, Instruments, measure, warm_up
from tritune.verbs.ports import RunStore, Server
from tritune.verbs.preflight import served


def load(
    kit: Instruments,
    store: RunStore,
    workload: Workload,
    *,
    data: bytes | None,
    slo: Slo | None,
    warm: bool = True,
) -> tuple[Cell, Manifest, str]:
    """The cell, its manifest, and the run folder it was kept in (also when cut short)."""
    info = kit.server.info()
    now = served(kit.server, workload.model, view_json, workload.version)
    folder = store.create(workload.model)
    folder.add_file("config/effective.json", now.config_json)
    folder.add_file("config/original.pbtxt", text_of_json(now.config_json))
    steps = step_configs(kit.server, now.config)
    for model, config_json in steps.items():
        folder.add_file(step_file(model), config_json)
    version = workload.version or now.versions[-1]
    if warm:
        warm_up(kit, workload, version, _warmed(now.config, steps), data)
    kit.progress.step(f"sending to {workload.model}: {workload}")
    cell = measure(kit, workload, version, setting="as served", data=data, also=steps)
    manifest, path = keep_cell(folder, kit, info.version, slo, cell)
    return cell, manifest, path


def step_configs(server: Server, config: ServingConfig) -> dict[str, str]:
    """By model: the served configuration of each step of an ensemble; none for other models."""
    return {model: server.effective_config(model) for model in dict.fromkeys(config.ensemble_steps)}


def step_file(model: str) -> str:
    """Where a run folder keeps the configuration of a step's model."""
    return f"config/steps/{quote(model, safe='')}.json"


def _warmed(config: ServingConfig, steps: dict[str, str]) -> ServingConfig:
    """What the warm-up goes by: an ensemble has no instances of its own, so the most of any of its models."""
    most = max((view_json(step).instances for step in steps.values()), default=config.instances)
    return msgspec.structs.replace(config, instance_group=(InstanceGroup(count=most),)) if steps else config
