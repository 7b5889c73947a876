"""A tuning that gets as far as its name says and then sleeps: HOW SERVER_FILE; killed by the test."""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lasting_server import MODEL, URL, FileServer, config, pinned
from tritune.store.guard import TuneGuard
from tritune.store.journal import Address
from tritune.tune.undo import Serving

if __name__ == "__main__":
    how, file = sys.argv[1], Path(sys.argv[2])
    server, trial = FileServer(file), pinned(config(500), 1)
    program = Path(__file__).with_name("watchdog_of_file_server.py")
    guard = TuneGuard(
        Address(URL),
        MODEL,
        run="r1",
        serving=Serving(server.effective_config(MODEL), ("1",)),
        watchdog=how != "alone",
        command=(sys.executable, "-P", str(program), str(file)),
    )
    with guard as journal:
        journal.append("trial", run="r1", before=server.original, after=trial)
        if how == "loading":
            server.begin_load(trial)
        else:
            server.load(MODEL, trial, deadline_s=9)
            journal.append("loaded", run="r1", before=None, after=trial)
        if how == "finished":
            journal.append("finished", run="r1", before=None, after=trial)
        sys.stdout.write("there\n")
        sys.stdout.flush()
        time.sleep(0 if how == "leaves" else 60)
    sys.stdout.write("left\n")
    sys.stdout.flush()
    time.sleep(60)
