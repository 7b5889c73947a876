"""The model's folder in its repository, where the operator named it (--config) or we made it ourselves."""

from __future__ import annotations

from pathlib import Path

import psutil

from tritune.errors import UsageError
from tritune.model.config import ServingConfig
from tritune.pbtxt.message import view_text

NETWORK_FILE_SYSTEMS = ("nfs", "cifs", "smb", "ceph", "lustre", "gpfs", "glusterfs", "fuse.", "9p", "afs")
CONFIG = "config.pbtxt"
# The kernel counts a process's start in ticks from the boot, whose own instant is known to about a second.
START_TOLERANCE_S = 2.0


class RealModelFolder:
    """Satisfies `ports.ModelFolder`. `started`: when the server's process began (epoch, s), if known."""

    def __init__(self, config: Path, started: float | None = None) -> None:
        self._config = config / CONFIG if config.is_dir() else config
        self._started = started
        if not self._config.is_file():
            raise UsageError(
                f"there is no file {self._config}",
                slug="no-config-file",
                hint="Name the model's config.pbtxt.",
            )

    @property
    def path(self) -> str:
        """For the diff's header: the file as named; where that is absolute, from its repository on."""
        if not self._config.is_absolute():
            return str(self._config)
        return str(self._config.relative_to(self._config.parents[2]))

    def text(self) -> str:
        """The text of config.pbtxt, byte for byte where it is UTF-8."""
        try:
            return self._config.read_bytes().decode()
        except (OSError, UnicodeDecodeError) as error:
            raise UsageError(
                f"{self._config} cannot be read: {error}",
                slug="no-config-file",
                hint="It must be UTF-8 text.",
            ) from error

    def config(self) -> ServingConfig | None:
        """config.pbtxt as a ServingConfig. Raises UsageError (bad-pbtxt) with line and column."""
        return view_text(self.text(), str(self._config))

    def changed_since_load(self) -> str:
        """A model file newer than the server's process; config.pbtxt itself is compared by content."""
        if self._started is None:
            return ""
        for file in self._files():
            if file.stat().st_mtime > self._started + START_TOLERANCE_S:
                return str(file)
        return ""

    def on_network(self) -> bool:
        """Whether the folder's mount is of a network type."""
        place = self._config.resolve()
        mounts = [p for p in psutil.disk_partitions(all=True) if place.is_relative_to(p.mountpoint)]
        kind = max(mounts, key=lambda p: len(p.mountpoint)).fstype if mounts else ""
        return kind.startswith(NETWORK_FILE_SYSTEMS)

    def size_bytes(self) -> int:
        """All files of the newest version."""
        versions = [p for p in self._config.parent.iterdir() if p.is_dir() and p.name.isdigit()]
        newest = max(versions, key=lambda p: int(p.name), default=None)
        if newest is None:
            return 0
        return sum(f.stat().st_size for f in newest.rglob("*") if f.is_file())

    def _files(self) -> list[Path]:
        return [
            file
            for file in sorted(self._config.parent.rglob("*"))
            if file.is_file() and file != self._config and "__pycache__" not in file.parts
        ]


def started_at(port: int) -> float | None:
    """When the process that listens on this local port began (epoch, s); None where it cannot be seen."""
    try:
        for connection in psutil.net_connections("tcp"):
            if connection.status == "LISTEN" and connection.laddr[1:] == (port,) and connection.pid:
                return float(psutil.Process(connection.pid).create_time())
    except (psutil.AccessDenied, psutil.NoSuchProcess):
        return None
    return None
