"""The real clock."""

from __future__ import annotations

import time
from datetime import UTC, datetime


class RealClock:
    """Satisfies `verbs.ports.Clock`."""

    def now_ns(self) -> int:
        """CLOCK_MONOTONIC, as Triton's traces use."""
        return time.monotonic_ns()

    def sleep(self, seconds: float) -> None:
        """Wait."""
        time.sleep(seconds)

    def utc(self) -> str:
        """Now, for labels."""
        return datetime.now(UTC).isoformat(timespec="seconds")
