"""The synthetic device: a Triton Python model that takes exactly as long as its configuration says.

A batch of b items costs, in milliseconds,

    S(b) = base_ms + per_item_ms * b                                          for b <= knee
    S(b) = base_ms + per_item_ms * b + spill_ms + per_item2_ms * (b - knee)**2  for b > knee

times a random factor (lognormal, mean 1, coefficient of variation noise_cv), times

    1 + contention * (executions of the same device that are running when this one starts).

The output is y = x + 1, so that an answer can be checked. One execute() is one execution, whatever the number
of requests in it. The time runs from the start of execute() to an absolute instant, so errors do not add up.

Configuration, all in `parameters`, all optional: base_ms, per_item_ms, knee (default: none), spill_ms (what
leaving the fast memory costs, once per batch), per_item2_ms, contention, noise_cv, seed, device, and
engine_max_batch_size (loading fails where max_batch_size is larger, as with a compiled engine).

All models of one repository share one device, and two servers side by side do not disturb each other. Where
models give a name in `device`, all that give the same name on this host (and user) share one device instead.

Runs inside Triton's own Python environment: numpy and the standard library only.
"""

from __future__ import annotations

import ctypes
import fcntl
import json
import math
import mmap
import os
import random
import struct
import tempfile
import threading
import time
import zlib
from pathlib import Path
from typing import Any

import numpy as np
import triton_python_backend_utils as pb_utils  # type: ignore[import-not-found]

_PR_SET_TIMERSLACK = 29
_SLOTS = 256
_SLOT = struct.Struct("<q")


class Device:
    """What all processes know of one device: the planned end of each execution, CLOCK_MONOTONIC ns.

    A slot whose end has passed is free, so that a process that was killed leaves nothing to clean up.
    """

    def __init__(self, name: str) -> None:
        path = Path(tempfile.gettempdir(), f"tritune-device-{os.getuid()}-{name}")
        self._file = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        os.ftruncate(self._file, _SLOTS * _SLOT.size)
        self._slots = mmap.mmap(self._file, _SLOTS * _SLOT.size)

    def begin(self, start_ns: int, alone_ns: float, contention: float) -> int:
        """The instant at which an execution that starts now ends: later, the more others are running."""
        fcntl.flock(self._file, fcntl.LOCK_EX)
        try:
            ends = struct.unpack(f"<{_SLOTS}q", self._slots[:])
            others = sum(end > start_ns for end in ends)
            end_ns = start_ns + int(alone_ns * (1 + contention * others))
            free = next((i for i, end in enumerate(ends) if end <= start_ns), None)
            if free is not None:
                _SLOT.pack_into(self._slots, free * _SLOT.size, end_ns)
        finally:
            fcntl.flock(self._file, fcntl.LOCK_UN)
        return end_ns


class TritonPythonModel:
    """One instance."""

    def initialize(self, args: dict[str, str]) -> None:
        """Read the parameters; refuse a max_batch_size above the engine's."""
        config = json.loads(args["model_config"])
        given = {name: value["string_value"] for name, value in config.get("parameters", {}).items()}
        self.base_ms = float(given.get("base_ms", 1))
        self.per_item_ms = float(given.get("per_item_ms", 0))
        self.per_item2_ms = float(given.get("per_item2_ms", 0))
        self.knee = int(given.get("knee", 2**31))
        self.spill_ms = float(given.get("spill_ms", 0))
        self.contention = float(given.get("contention", 0))
        self.noise_cv = float(given.get("noise_cv", 0))
        limit = int(given.get("engine_max_batch_size", 0))
        if limit and config["max_batch_size"] > limit:
            raise pb_utils.TritonModelException(
                f"max_batch_size {config['max_batch_size']} is more than the engine was built for ({limit})"
            )
        repository = str(Path(args["model_repository"]).parent)
        self.device = Device(given.get("device") or f"{zlib.crc32(repository.encode()):08x}")
        self.random = random.Random(f"{given.get('seed', 1)}/{args['model_instance_name']}")  # noqa: S311
        self.thread: int | None = None

    def alone_ns(self, items: int) -> float:
        """How long this execution takes on a device of its own, ns."""
        ms = self.base_ms + self.per_item_ms * items
        if items > self.knee:
            ms += self.spill_ms + self.per_item2_ms * (items - self.knee) ** 2
        if self.noise_cv > 0:
            variance = math.log1p(self.noise_cv**2)
            ms *= math.exp(self.random.gauss(0, math.sqrt(variance)) - variance / 2)
        return ms * 1e6

    def execute(self, requests: list[Any]) -> list[Any]:
        """Answer all requests at the instant that the batch as a whole is done."""
        start_ns = time.monotonic_ns()
        if self.thread != threading.get_ident():  # the kernel's default slack is 50 us, and it is per thread
            self.thread = threading.get_ident()
            ctypes.CDLL(None).prctl(_PR_SET_TIMERSLACK, 1, 0, 0, 0)
        inputs = [pb_utils.get_input_tensor_by_name(request, "x").as_numpy() for request in requests]
        items = sum(x.shape[0] if x.ndim > 1 else 1 for x in inputs)
        end_ns = self.device.begin(start_ns, self.alone_ns(items), self.contention)
        replies = [
            pb_utils.InferenceResponse(output_tensors=[pb_utils.Tensor("y", x + np.float32(1))])
            for x in inputs
        ]
        while (left_ns := end_ns - time.monotonic_ns()) > 0:
            time.sleep(left_ns / 1e9)
        return replies
