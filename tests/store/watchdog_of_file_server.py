"""The watchdog's program over a server in a file: FILE, then what `tritune.watchdog` takes."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lasting_server import FileServer
from tritune import watchdog

if __name__ == "__main__":
    sys.exit(watchdog.main(sys.argv[2:], connect=lambda address: FileServer(Path(sys.argv[1]))))
