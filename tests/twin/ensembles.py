"""Small ensembles, written as `step: taken -> made`, and models to serve them."""

from __future__ import annotations

from typing import Any

import numpy as np
from twin_play import config, even

from tritune.model.config import EnsembleStep, ServingConfig, TensorSpec
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import Requests
from tritune.twin.engine.timing import Timing
from tritune.twin.ensemble.chain import ChainPlay, Served, simulate_chain
from tritune.twin.ensemble.wiring import wiring


def ensemble(*steps: str, takes: str = "in", makes: str = "out", **more: Any) -> ServingConfig:
    """`ensemble("a: in -> mid", "b: mid -> out")`."""
    found = []
    for text in steps:
        model, _, tensors = text.partition(":")
        taken, _, made = tensors.partition("->")
        found.append(EnsembleStep(model.strip(), -1, tuple(taken.split()), tuple(made.split())))
    return ServingConfig(
        name="pipeline",
        platform="ensemble",
        max_batch_size=8,
        input=tuple(TensorSpec(name, "FP32", (1,)) for name in takes.split()),
        output=tuple(TensorSpec(name, "FP32", (1,)) for name in makes.split()),
        ensemble_steps=tuple(step.model for step in found),
        ensemble=tuple(found),
        **more,
    )


def serves(service_ms: float | Timing, **setting: Any) -> Served:
    """A model whose batches all take `service_ms`; `setting` as for `twin_play.config`."""
    served = setting_of(config(**setting))
    timing = service_ms if isinstance(service_ms, Timing) else even(service_ms, served.largest)
    return Served(served, timing)


def chain(what: ServingConfig, models: dict[str, Served], load: Any, **more: Any) -> ChainPlay:
    load = load if isinstance(load, Requests) else Requests(np.asarray(load, np.int64))
    return simulate_chain(what.name, wiring(what), models, load, **more)
