"""A tuning wired to the real world: run folder, journal, lock, watchdog, report files."""

from __future__ import annotations

from pathlib import Path

from tritune import __version__
from tritune.cli.live import live_progress
from tritune.cli.model_folder import RealModelFolder
from tritune.cli.wiring import instruments
from tritune.model.run import Manifest
from tritune.report.content.tuning import tuning_document
from tritune.report.render.html import html
from tritune.report.render.json import json_text
from tritune.store.guard import TuneGuard
from tritune.store.runs import Runs
from tritune.tune.result import TuneResult
from tritune.verbs.ports import Progress, Server
from tritune.verbs.preflight import Served
from tritune.verbs.request import TuneRequest
from tritune.verbs.tune import Tuning
