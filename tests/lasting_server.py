"""A server whose loads take time, as the real one's do (measured on 24.10): a load goes on when its client
dies, the old configuration is shown until it is done, and the loads of a model are worked off in turn."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tritune.errors import TrituneError
from tritune.model.facts import IndexEntry

MODEL = "ranker"
URL = "http://127.0.0.1:8000"


def config(delay_us: int = 100_000, preferred: tuple[int, ...] = (4, 8), **more: Any) -> str:
    """A complete configuration; its policy is Triton's default, one latest version."""
    whole = {
        "name": MODEL,
        "backend": "python",
        "version_policy": {"latest": {"num_versions": 1}},
        "max_batch_size": 8,
        "dynamic_batching": {
            "preferred_batch_size": list(preferred),
            "max_queue_delay_microseconds": delay_us,
        },
        "instance_group": [{"name": f"{MODEL}_0", "kind": "KIND_CPU", "count": 1}],
    }
    return json.dumps(whole | more)


def pinned(config_json: str, *versions: int) -> str:
    return json.dumps(
        json.loads(config_json) | {"version_policy": {"specific": {"versions": list(versions)}}}
    )


class LastingServer:
    """What restore needs of `ports.Server`. `loads` are [when it takes effect, config], also future ones."""

    url = URL

    def __init__(
        self, original: str, now: Callable[[], float], sleep: Callable[[float], None], load_s: float = 1.0
    ) -> None:
        self.original = original
        self.now = now
        self.sleep = sleep
        self.load_s = load_s
        self.versions_there = [1]
        self.loads: list[list[Any]] = []
        self.gone_until = -1.0

    # What restore asks ---------------------------------------------------------------------------

    def effective_config(self, model: str, version: str = "") -> str:
        self.answer()
        done = [text for ends, text in self.history() if ends <= self.now()]
        whole = json.loads(done[-1] if done else self.original)
        block = whole.get("dynamic_batching")
        if block is not None and not block.get("preferred_batch_size"):
            block["preferred_batch_size"] = [whole["max_batch_size"]]  # as NormalizeModelConfig does
        return json.dumps(dict(reversed(whole.items())))

    def index(self) -> tuple[IndexEntry, ...]:
        policy = json.loads(self.effective_config(MODEL)).get("version_policy", {})
        ready = policy["specific"]["versions"] if "specific" in policy else [max(self.versions_there)]
        return tuple(IndexEntry(MODEL, str(v), "READY") for v in ready)

    def load(self, model: str, config_json: str | None, *, deadline_s: float) -> None:
        self.sleep(self.begin_load(str(config_json)) - self.now())

    # What tests do with it -------------------------------------------------------------------------

    def begin_load(self, config_json: str) -> float:
        """Ask for a load without waiting for it; returns when it takes effect."""
        self.answer()
        history = self.history()
        ends = max([self.now(), *(e for e, _ in history)]) + self.load_s
        self.keep([*history, [ends, config_json]])
        return ends

    def restart(self) -> None:
        """Forget every override, as a restarted server does."""
        self.keep([])

    def answer(self) -> None:
        if self.now() < self.gone_until:
            raise TrituneError(f"{self.url} does not answer", slug="server-unreachable")

    def history(self) -> list[list[Any]]:
        return self.loads

    def keep(self, history: list[list[Any]]) -> None:
        self.loads = history


class FileServer(LastingServer):
    """The same, shared by processes through a file, in real time."""

    def __init__(self, path: Path, load_s: float = 0.3) -> None:
        import time

        super().__init__(config(), time.time, time.sleep, load_s)
        self.path = path

    def history(self) -> list[list[Any]]:
        return json.loads(self.path.read_text()) if self.path.exists() else []

    def keep(self, history: list[list[Any]]) -> None:
        beside = self.path.with_suffix(".new")
        beside.write_text(json.dumps(history))
        beside.replace(self.path)


class VirtualClock:
    def __init__(self) -> None:
        self.s = 1000.0

    def now(self) -> float:
        return self.s

    def now_ns(self) -> int:
        return round(self.s * 1e9)

    def sleep(self, seconds: float) -> None:
        assert seconds >= 0
        self.s += seconds

    def utc(self) -> str:
        return "2026-11-30T14:26:00+00:00"


class ListJournal:
    """A journal in memory."""

    def __init__(self, *entries: dict[str, Any]) -> None:
        self.lines = list(entries)

    def append(self, action: str, *, run: str, before: str | None, after: str | None, facts=None) -> None:
        self.lines.append(
            {"time": "t", "run": run, "action": action, "before": before, "after": after} | (facts or {})
        )

    def entries(self) -> tuple[dict[str, Any], ...]:
        return tuple(self.lines)

    @property
    def actions(self) -> list[str]:
        return [line["action"] for line in self.lines]

    def __enter__(self):  # so that it is its own guard
        return self

    def __exit__(self, *_: object) -> None:
        pass
