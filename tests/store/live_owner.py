"""A tuning of a real server that is killed by the test: URL GRPC MODEL DELAY_US [alone]."""

import json
import sys
import time

from tritune.pbtxt.message import pin_json
from tritune.store.guard import TuneGuard
from tritune.store.journal import Address
from tritune.triton.server import connect
from tritune.verbs.restore import look

if __name__ == "__main__":
    url, grpc, model, delay_us = sys.argv[1:5]
    server = connect(url, grpc=grpc)
    serving = look(server, model)
    config = json.loads(serving.config_json)
    config["dynamic_batching"] = {"max_queue_delay_microseconds": int(delay_us)}
    trial = pin_json(json.dumps(config), serving.versions)
    alone = sys.argv[5:] == ["alone"]
    with TuneGuard(Address(url, grpc), model, run="live", serving=serving, watchdog=not alone) as journal:
        journal.append("trial", run="live", before=serving.config_json, after=trial)
        sys.stdout.write("loading\n")
        sys.stdout.flush()
        server.load(model, trial, deadline_s=60)
        journal.append("loaded", run="live", before=None, after=trial)
        sys.stdout.write("loaded\n")
        sys.stdout.flush()
        time.sleep(120)
