"""A cell as a run folder (run folder v1)."""

from __future__ import annotations

import msgspec

from tritune import __version__
from tritune.model.run import Manifest
from tritune.model.slo import Slo
from tritune.verbs.measure import Cell, Instruments
from tritune.verbs.ports import RunFolder


def keep_cell(
    folder: RunFolder, kit: Instruments, server_version: str, slo: Slo | None, cell: Cell
) -> tuple[Manifest, str]:
    """Write a measured cell into `folder` and finish it: its manifest and path; a cut cell says so."""
    folder.add_requests(cell.log)
    folder.add_server((*cell.snapshots, *cell.parts))
    manifest = Manifest(
        kind="load",
        status="cut" if cell.measurement.cut else "complete",
        cut=cell.measurement.cut,
        created=kit.clock.utc(),
        tool_version=__version__,
        server_version=server_version,
        url=kit.server.url,
        model=cell.measurement.workload.model,
        slo=slo,
        measurement=msgspec.structs.replace(cell.measurement, run=folder.path),
    )
    return manifest, folder.finish(manifest)
