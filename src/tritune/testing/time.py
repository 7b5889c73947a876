"""Time that passes only when somebody waits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

from tritune.units import NS_PER_S

_BEGAN = datetime(2026, 1, 1, tzinfo=UTC)


class FakeClock:
    """Satisfies `tritune.verbs.ports.Clock`; `ns` is the time now."""

    def __init__(self) -> None:
        self.ns = 1_000 * NS_PER_S

    def now_ns(self) -> int:
        """Monotonic."""
        return self.ns

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        if seconds < 0:
            raise ValueError("time does not go back")
        self.ns += round(seconds * NS_PER_S)

    def utc(self) -> str:
        """The same time as a label."""
        return (_BEGAN + timedelta(microseconds=self.ns // 1_000)).isoformat(timespec="seconds")
