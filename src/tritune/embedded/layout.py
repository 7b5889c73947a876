"""Where the private environment keeps what, as one value."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec

PYTRITON_VERSION = "0.7.0"


class Environment(msgspec.Struct, frozen=True):
    """A private environment that can run Triton: `root` is a venv, `libdir` holds its libpython."""

    root: str
    python_version: str
    libdir: str

    @property
    def bin(self) -> Path:
        """The venv's bin folder; it must be first on PATH, so that the stub finds its own Python."""
        return Path(self.root, "bin")

    @property
    def python(self) -> Path:
        """The venv's interpreter."""
        return self.bin / "python"

    @property
    def site_packages(self) -> Path:
        """Where the wheel lies."""
        return Path(self.root, "lib", f"python{self.python_version}", "site-packages")

    @property
    def tritonserver(self) -> Path:
        """The server's executable."""
        return self.site_packages / "pytriton" / "tritonserver" / "bin" / "tritonserver"

    @property
    def backends(self) -> Path:
        """The backend directory: python today, onnxruntime may come beside it."""
        return Path(self.root, "backends")

    def process_environment(self) -> dict[str, str]:
        """The variables that the server and its stubs need.

        The caller's PYTHONPATH and PYTHONHOME are taken out, so that the stub imports nothing of ours;
        no bytecode is written, because a `__pycache__` in a version folder makes the next load of any
        kind a full reload (semantics 4.2).
        """
        kept = {k: v for k, v in os.environ.items() if k not in ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")}
        libraries = (str(self.site_packages / "nvidia_pytriton.libs"), self.libdir)
        return {
            **kept,
            "PATH": f"{self.bin}{os.pathsep}{kept.get('PATH', os.defpath)}",
            "LD_LIBRARY_PATH": os.pathsep.join(libraries),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PYTHONNOUSERSITE": "1",
        }
