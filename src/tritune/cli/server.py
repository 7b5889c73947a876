"""`tritune server start|stop|status`: the embedded Triton, detached from this process."""

from __future__ import annotations
