"""What a verb is doing, while it does it: a live line on a terminal, a plain line now and then elsewhere."""

from __future__ import annotations

import sys
import time

from rich.console import Console
from rich.live import Live
from rich.text import Text

from tritune.model.load import Tick
from tritune.units import format_duration

PLAIN_EVERY_S = 5.0


def live_progress() -> PlainProgress:
    """The progress that fits stderr: live on a terminal, plain lines otherwise."""
    return LiveProgress() if sys.stderr.isatty() else PlainProgress()


def describe(tick: Tick) -> str:
    """One line: how far, how many in flight, what the last half second looked like."""
    done = f"{tick.done}/{tick.planned}" if tick.planned else str(tick.done)
    errors = f", {tick.errors} failed" if tick.errors else ""
    return (
        f"{tick.elapsed_ns / 1e9:5.1f} s  {done} answered, {tick.in_flight} in flight{errors}  "
        f"p50 {format_duration(tick.recent_p50_ns)}, p99 {format_duration(tick.recent_p99_ns)} just now"
    )


class PlainProgress:
    """Lines on stderr, each with the seconds since the start; ticks every five seconds."""

    def __init__(self) -> None:
        self.console = Console(stderr=True, highlight=False)
        self._start = time.monotonic()
        self._last = self._start

    def step(self, text: str) -> None:
        """A new phase."""
        self._line("· ", text)

    def note(self, text: str) -> None:
        """Something worth keeping."""
        self._line("→ ", text)

    def tick(self, tick: Tick) -> None:
        """A load is running."""
        now = time.monotonic()
        if now - self._last >= PLAIN_EVERY_S:
            self._last = now
            self._line("  ", describe(tick))

    def _line(self, mark: str, text: str) -> None:
        self.console.print(Text(f"{time.monotonic() - self._start:6.1f} s {mark}{text}"), soft_wrap=True)


class LiveProgress(PlainProgress):
    """The same lines, with the running load as one line that refreshes in place."""

    def __init__(self) -> None:
        super().__init__()
        self._live: Live | None = None

    def tick(self, tick: Tick) -> None:
        """Refresh the line."""
        if self._live is None:
            self._live = Live(console=self.console, transient=True, auto_refresh=False)
            self._live.start()
        self._live.update(Text("         " + describe(tick), style="dim"), refresh=True)

    def _line(self, mark: str, text: str) -> None:
        if self._live is not None:
            self._live.stop()
            self._live = None
        super()._line(mark, text)
