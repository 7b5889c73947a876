"""Load a model once and keep what was measured."""

from __future__ import annotations

from tritune.model.run import Manifest
from tritune.model.slo import Slo
from tritune.model.workload import Workload
from tritune.pbtxt.message import text_of_json, view_json
from tritune.verbs.keep import keep_cell
from tritune.verbs.measure import Cell, Instruments, measure, warm_up
from tritune.verbs.ports import RunStore
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
    version = workload.version or now.versions[-1]
    if warm:
        warm_up(kit, workload, version, now.config, data)
    kit.progress.step(f"sending to {workload.model}: {workload}")
    cell = measure(kit, workload, version, setting="as served", data=data)
    manifest, path = keep_cell(folder, kit, info.version, slo, cell)
    return cell, manifest, path
