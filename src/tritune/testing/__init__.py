"""Fakes that behave as the real things do, for tritune's own tests and for those of its users.

Each satisfies a protocol of `tritune.verbs.ports` and passes the same contract suite as the real one.
"""

from tritune.testing.server import FakeServer

__all__ = ["FakeServer"]
