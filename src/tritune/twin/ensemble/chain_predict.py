"""What other settings of an ensemble's models would do to the whole, and how far it is to the edge."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import msgspec
import numpy as np

from tritune.errors import TrituneError
from tritune.model.config import ServingConfig
from tritune.model.measurement import Estimate
from tritune.model.requests import Floats
from tritune.model.slo import Slo
from tritune.twin.ask.grid import AS_IT_IS
from tritune.twin.ask.knee import FACTORS, STEPS, Headroom, Knee, Spread, find_knee
from tritune.twin.ask.loadable import unloadable
from tritune.twin.ask.predict import Prediction, capacity, counted, with_latencies
from tritune.twin.ask.sweep import Effort
from tritune.twin.ask.traffic import Traffic, requests_of
from tritune.twin.ask.validate import MAX_RATE_FACTOR, outside, unknown_sizes
from tritune.twin.engine.simulate import Outcome, Requests
from tritune.twin.ensemble.chain import ChainPlay, Served
from tritune.twin.ensemble.chain_fit import ChainProfile, executed, play_chain, served_of
from tritune.twin.ensemble.wiring import wiring
from tritune.units import NEVER_NS


@dataclass(frozen=True)
class Case:
    """One setting of an ensemble's models (`configs`, by model) under one load."""

    profile: ChainProfile
    ensemble: ServingConfig
    configs: Mapping[str, ServingConfig]
    traffic: Traffic
    contention: float | None = None

    def at(self, rate_per_s: float) -> Case:
        """The same at another rate."""
        return replace(self, traffic=msgspec.structs.replace(self.traffic, rate_per_s=rate_per_s))

    def served(self) -> dict[str, Served]:
        """How each model is played. Raises TrituneError (twin-unsupported)."""
        return served_of(self.profile, self.configs, self.contention)


class ModelShare(msgspec.Struct, frozen=True):
    """One model within a prediction: mean queue time of its requests, executed batches, share of capacity."""

    model: str
    queue_ns: float
    mean_batch: float
    load: float


class ChainPrediction(msgspec.Struct, frozen=True):
    """The ensemble as a whole (its load is that of the fullest model), and each of its models."""

    whole: Prediction
    models: tuple[ModelShare, ...] = ()


def predict_chain(
    case: Case,
    *,
    setting: str = AS_IT_IS,
    slo: Slo | None = None,
    effort: Effort = Effort(),  # noqa: B008 - frozen
) -> ChainPrediction:
    """As `predict.predict` for a chain: what lies outside for one model is refused, and names it."""
    instances = sum(config.instances for config in case.configs.values())
    asked = Prediction(setting, case.traffic.rate_per_s, instances)
    try:
        if why := chain_outside(case):
            return ChainPrediction(msgspec.structs.replace(asked, refusal=why))
        served = case.served()
        plays = [_play(case, served, effort.requests, seed) for seed in range(1, effort.replications + 1)]
    except TrituneError as error:
        return ChainPrediction(msgspec.structs.replace(asked, refusal=error.message))
    if why := _unknown(case, plays):
        return ChainPrediction(msgspec.structs.replace(asked, refusal=why))
    loads = _loads(case, served)
    shares = tuple(_share(plays, model, load) for model, load in loads.items())
    whole = with_latencies(asked, [counted(play) for play in plays], max(loads.values()), slo)
    goodput = float(np.mean([_goodput(play) for play in plays]))
    return ChainPrediction(msgspec.structs.replace(whole, goodput_per_s=goodput), shares)


def chain_headroom(
    case: Case,
    slo: Slo | None = None,
    *,
    effort: Effort = Effort(),  # noqa: B008 - frozen
    spread: Spread = map,
) -> Headroom:
    """As `knee.headroom`."""
    load, meets, p99 = None, None, {}
    for factor in FACTORS:
        found = predict_chain(case.at(case.traffic.rate_per_s * factor), slo=slo, effort=effort).whole
        if factor == 1.0:
            load, meets = found.load, found.meets
        p99[f"{factor:g}"] = found.latency.get("p99", Estimate()) if found.settles else Estimate(NEVER_NS)
    limit = chain_knee(case, slo, effort=effort, spread=spread) if slo is not None else None
    return Headroom(load, limit, p99, case.traffic.rate_per_s, meets)


def chain_knee(
    case: Case,
    slo: Slo,
    *,
    effort: Effort = Effort(),  # noqa: B008 - frozen
    spread: Spread = map,
) -> Knee | None:
    """As `knee.knee`: up to the capacity of the fullest model, and to 1.6 times the observed rate."""
    try:
        served = case.served()
        top = case.traffic.rate_per_s / max(_loads(case, served).values())
        top = min(top, MAX_RATE_FACTOR * max(case.profile.observed.rates_per_s))
        if chain_outside(case.at(top)):
            return None

        def latencies_at(rate_per_s: float) -> list[Floats]:
            one = partial(_latencies, case.at(rate_per_s), served, effort.requests)
            return list(spread(one, range(1, effort.replications + 1)))

        found = find_knee(slo, top, latencies_at)
        if _unknown(case, [_play(case.at(max(found.rate_per_s, top / STEPS)), served, effort.requests, 1)]):
            return None
    except TrituneError:
        return None
    return found


def chain_outside(case: Case) -> str:
    """Why this is not predicted, empty where it is."""
    return next(_reasons(case), "")


def _reasons(case: Case) -> Iterator[str]:
    for model, config in case.configs.items():
        if why := unloadable(config):
            yield f"{model}: {why}"
        # ensemble_utils.cc:ValidateEnsembleConfig.
        if 0 < config.max_batch_size < case.ensemble.max_batch_size:
            yield (
                f"Triton does not load {case.ensemble.name}, whose max_batch_size is "
                f"{case.ensemble.max_batch_size}, where its step {model} takes {config.max_batch_size}"
            )
        seen, rate = case.profile.models[model], case.traffic.rate_per_s
        for items in case.traffic.request_items:
            if why := outside(seen, config, rate, items, case.contention):
                yield f"{model}: {why}"


def _unknown(case: Case, plays: Sequence[ChainPlay]) -> str:
    """Why the batches of a model are not covered by its service times; empty where they are."""
    for model in case.configs:
        if why := unknown_sizes(case.profile.models[model], [play.models[model] for play in plays]):
            return f"{model}: {why}"
    return ""


def _latencies(case: Case, served: Mapping[str, Served], requests: int, seed: int) -> Floats:
    return counted(_play(case, served, requests, seed))


def _play(case: Case, served: Mapping[str, Served], requests: int, seed: int) -> ChainPlay:
    load = requests_of(case.traffic, seed, requests)
    if not isinstance(load, Requests):
        raise TypeError("an ensemble's traffic is an open loop")
    return play_chain(case.profile, case.ensemble, served, load, seed)


def _loads(case: Case, served: Mapping[str, Served]) -> dict[str, float]:
    """By model: what comes as a share of its capacity, in the order in which they are played."""
    loads = {}
    for model, of in wiring(case.ensemble).models:
        setting, timing = served[model].setting, served[model].timing
        items = case.traffic.mean_items if setting.max_batch_size else 1.0
        loads[model] = len(of) * case.traffic.rate_per_s * items / capacity(setting, timing, items)
    return loads


def _share(plays: list[ChainPlay], model: str, load: float) -> ModelShare:
    sizes = executed(plays, model)
    queue = float(np.mean([play.models[model].queue_ns().mean() for play in plays]))
    items = sum(size * count for size, count in sizes.items())
    return ModelShare(model, queue, items / max(1, sum(sizes.values())), load)


def _goodput(play: ChainPlay) -> float:
    """Answered requests per second of the time in which they came."""
    answered, span = int((play.outcome == Outcome.OK).sum()), int(np.ptp(play.planned_ns))
    return answered / span * 1e9 if span else 0.0
