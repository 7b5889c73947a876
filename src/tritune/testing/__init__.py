"""Fakes that behave as the real things do, for tritune's own tests and for those of its users.

Each satisfies a protocol of `tritune.verbs.ports`. FakeServer passes the same contract suite as the real
Triton; FakeLoadEngine and FakeClock let a whole tuning run in virtual time.
"""

from tritune.testing.load import FakeLoadEngine, Mishap
from tritune.testing.memory import MemoryJournal, MemoryRun, MemoryRuns, RecordingProgress
from tritune.testing.server import FakeServer
from tritune.testing.time import FakeClock

__all__ = [
    "FakeClock",
    "FakeLoadEngine",
    "FakeServer",
    "MemoryJournal",
    "MemoryRun",
    "MemoryRuns",
    "Mishap",
    "RecordingProgress",
]
