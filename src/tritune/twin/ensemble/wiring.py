"""How the steps of an ensemble hang together: who feeds whom, and in which order models can be played."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from tritune.errors import TrituneError
from tritune.model.config import EnsembleStep, ServingConfig


class Wiring(msgspec.Struct, frozen=True):
    """`feeders[i]`: the steps that make what step i takes, none where the request itself brings all of it.

    `last`: the steps whose tensors the answer holds; it leaves when all of them are done, whatever else
    still runs (ensemble_scheduler.cc:CheckAndSetEnsembleOutput). `models`: each model with its steps, a
    model after all those that feed it.
    """

    steps: tuple[EnsembleStep, ...]
    feeders: tuple[tuple[int, ...], ...]
    last: tuple[int, ...]
    models: tuple[tuple[str, tuple[int, ...]], ...]

    @property
    def straight(self) -> bool:
        """One step after the other: no step starts beside another one."""
        return [len(feeders) for feeders in self.feeders].count(0) == 1 and all(
            sum(i in feeders for feeders in self.feeders) <= 1 and len(self.feeders[i]) <= 1
            for i in range(len(self.steps))
        )


def wiring(config: ServingConfig) -> Wiring:
    """The wiring of an ensemble's configuration.

    A step starts when all tensors that it takes are there (ensemble_scheduler.cc:GetNextSteps). Steps of one
    model are requests to one scheduler, so models are what is put in order.

    Raises TrituneError (twin-unsupported) where a model feeds itself, directly or through others: its later
    requests would then wait for its earlier ones; for two versions of one model, a limit of requests in
    flight, and tensors that no step makes.
    """
    steps = config.ensemble
    if not steps:
        raise unplayable(config.name, "its configuration names no steps")
    if config.ensemble_in_flight:
        raise unplayable(config.name, "max_inflight_requests makes earlier steps wait for later ones")
    if len({step.model for step in steps}) < len({(step.model, step.version) for step in steps}):
        raise unplayable(config.name, "its steps use two versions of one model")
    maker = {tensor: i for i, step in enumerate(steps) for tensor in step.outputs}
    given = {tensor.name for tensor in config.input}
    for tensor in [*(t for step in steps for t in step.inputs), *(t.name for t in config.output)]:
        if tensor not in maker and tensor not in given:
            raise unplayable(config.name, f"no step makes the tensor '{tensor}'")
    feeders = tuple(tuple(sorted({maker[t] for t in step.inputs if t in maker})) for step in steps)
    last = tuple(sorted({maker[tensor.name] for tensor in config.output if tensor.name in maker}))
    return Wiring(steps, feeders, last, _ordered(config.name, steps, feeders))


def unplayable(ensemble: str, why: str) -> TrituneError:
    """The refusal of an ensemble, in one sentence."""
    return TrituneError(
        f"the twin cannot play the ensemble {ensemble}: {why}",
        slug="twin-unsupported",
        hint="Measure this one with tritune load.",
    )


def _ordered(
    ensemble: str, steps: Sequence[EnsembleStep], feeders: Sequence[Sequence[int]]
) -> tuple[tuple[str, tuple[int, ...]], ...]:
    of = {model: tuple(i for i, step in enumerate(steps) if step.model == model) for model in _models(steps)}
    waits = {model: {steps[f].model for i in of[model] for f in feeders[i]} for model in of}
    found: list[str] = []
    while len(found) < len(of):
        ready = next((m for m in of if m not in found and waits[m] <= set(found)), None)
        if ready is None:
            circle = next(m for m in of if m not in found and _reaches(m, m, waits))
            raise unplayable(
                ensemble, f"the requests of model {circle} come back to it, so that they wait for each other"
            )
        found.append(ready)
    return tuple((model, of[model]) for model in found)


def _models(steps: Sequence[EnsembleStep]) -> dict[str, None]:
    return dict.fromkeys(step.model for step in steps)


def _reaches(start: str, goal: str, waits: dict[str, set[str]]) -> bool:
    """Whether `goal` feeds `start`, directly or through others."""
    seen: set[str] = set()
    ahead = list(waits[start])
    while ahead:
        model = ahead.pop()
        if model not in seen:
            seen.add(model)
            ahead.extend(waits[model])
    return goal in seen
