"""`tritune diagnose` that watches a fake server for a minute of real time; to be sent a signal."""

import sys

import tritune.cli.wiring
from tritune.cli.main import run
from tritune.testing import FakeServer

server = FakeServer()
server.add_model({"name": "ranker", "max_batch_size": 8})
tritune.cli.wiring.connect = lambda *_, **__: server
sys.exit(run(["diagnose", "127.0.0.1:8000", "--watch-for", "60s"]))
