"""Predict an ensemble from one load of it: its models as a chain. Thinks only; nothing is loaded or sent."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from itertools import product

import msgspec

from tritune.errors import ExitCode, TrituneError, UsageError
from tritune.model.config import ServingConfig
from tritune.model.requests import Floats
from tritune.pbtxt.message import apply_json, view_json
from tritune.twin.ask.grid import AS_IT_IS, REPLICAS, Candidate, at_most, grid
from tritune.twin.ask.pareto import by_setting
from tritune.twin.ask.sweep import effort_for
from tritune.twin.ask.traffic import Traffic, traffic_of
from tritune.twin.ask.verified import Verified, verified
from tritune.twin.ensemble.chain import SEPARATE
from tritune.twin.ensemble.chain_answer import EnsembleSimulation, profile_of
from tritune.twin.ensemble.chain_fit import ChainProfile, calibrate_chain
from tritune.twin.ensemble.chain_predict import (
    Case,
    ChainPrediction,
    chain_headroom,
    chain_knee,
    predict_chain,
)
from tritune.twin.ensemble.chain_validate import validate_chain
from tritune.twin.ensemble.ensemble_run import EnsembleRun
from tritune.verbs.simulate import Question, in_words, with_ranks
from tritune.verbs.work import Alone, Work

# One setting of all models: what it is called, and each model's configuration.
_Setting = tuple[str, dict[str, ServingConfig]]


def simulate_ensemble_run(
    run: EnsembleRun, question: Question, *, why_doubted: str = "", work: Work | None = None
) -> EnsembleSimulation:
    """Calibrate each model on its own counters, replay the run, and predict. `why_doubted`: why the run
    cannot be believed. `question.sets` are written MODEL/FIELD=VALUES.

    Raises TrituneError (exit 4): twin-bad-run, twin-no-batches, twin-not-valid (a replay is too far off),
    twin-refused (nothing of what is asked may be predicted); twin-unsupported; UsageError: bad-set,
    ensemble-closed-loop.
    """
    work = work or Alone()
    if why_doubted:
        raise _not_valid(f"the run itself is not trustworthy: {why_doubted}")
    if run.whole.concurrency:
        raise UsageError(
            f"{run.whole.source} is a closed loop through an ensemble, which is not simulated",
            slug="ensemble-closed-loop",
            hint="Measure at a rate: tritune load URL --model ENSEMBLE --rate R.",
        )
    settings = _settings(run, question.sets)
    work.step(f"calibrating {len(run.models)} models of {run.whole.config.name} on the run")
    profile = calibrate_chain(run)
    work.step("replaying the run")
    replay = validate_chain(run, profile)
    if replay.whole.refusal:
        raise _not_valid(replay.whole.refusal)
    traffic = traffic_of(profile.arrival, run.whole.log, items=question.items)
    traffic = msgspec.structs.replace(traffic, client=question.client)
    loads = [msgspec.structs.replace(traffic, rate_per_s=rate) for rate in question.rates_per_s] or [traffic]
    asked = [(name, configs, load) for name, configs in settings for load in loads]
    at_most(len(asked), "settings and rates together")
    effort = effort_for(len(asked), question.requests, question.replications)

    def case(configs: dict[str, ServingConfig], load: Traffic) -> Case:
        return Case(profile, run.whole.config, configs, load, question.contention)

    def one(position: int) -> ChainPrediction:
        name, configs, load = asked[position]
        return predict_chain(case(configs, load), setting=name, slo=question.slo, effort=effort)

    found = work.each(one, range(len(asked)), "predictions")
    predictions = with_ranks([prediction.whole for prediction in found])
    if all(prediction.refusal for prediction in predictions):
        raise TrituneError(
            f"this is not predicted: {predictions[0].refusal}",
            slug="twin-refused",
            exit_code=ExitCode.NOT_TRUSTWORTHY,
        )
    work.step("looking for the knee" if question.slo else "looking at higher rates")
    as_it_is = {model: served.config for model, served in run.models.items()}
    reference = loads[0] if len(loads) == 1 else traffic

    def spread(function: Callable[[int], Floats], items: Iterable[int]) -> list[Floats]:
        return work.each(function, list(items))

    first = by_setting(predictions)[0][0]
    name, configs, load = asked[next(k for k, prediction in enumerate(predictions) if prediction is first)]
    best = None
    if question.slo is not None and name != AS_IT_IS:
        best = chain_knee(case(configs, load), question.slo, effort=effort, spread=spread)
    return EnsembleSimulation(
        profile=profile_of(profile),
        validity=replay.whole,
        predictions=predictions,
        headroom=chain_headroom(case(as_it_is, reference), question.slo, effort=effort, spread=spread),
        slo=question.slo,
        verified=_verified(run, profile),
        effort=effort,
        best_knee=best,
        traffic=in_words(reference),
        client=question.client,
        chain=profile,
        replay=replay,
        shares=tuple(prediction.models for prediction in found),
        notes=(SEPARATE,),
    )


def _settings(run: EnsembleRun, sets: Sequence[str]) -> list[_Setting]:
    """Each combination of the models' settings."""
    by_model: dict[str, list[str]] = {model: [] for model in run.models}
    for text in sets:
        field, _, values = text.partition("=")
        model, slash, path = field.strip().rpartition("/")
        if not slash or model not in by_model or path == REPLICAS:
            raise UsageError(
                f"'{text}' does not set a field of one of the ensemble's models",
                slug="bad-set",
                hint=f"Write --set MODEL/FIELD=VALUES, where MODEL is one of: {', '.join(by_model)}.",
            )
        by_model[model].append(f"{path}={values}")
    grids = [grid(texts) for texts in by_model.values()]
    at_most(math.prod(len(candidates) for candidates in grids), "combinations")
    return [_setting(run, dict(zip(by_model, chosen, strict=True))) for chosen in product(*grids)]


def _setting(run: EnsembleRun, chosen: dict[str, Candidate]) -> _Setting:
    changed = {model: candidate for model, candidate in chosen.items() if candidate.settings}
    name = ", ".join(f"{model} {candidate}" for model, candidate in changed.items()) or AS_IT_IS
    configs = {model: served.config for model, served in run.models.items()}
    for model, candidate in changed.items():
        configs[model] = view_json(apply_json(candidate.change, run.models[model].config_json))
    return name, configs


def _verified(run: EnsembleRun, profile: ChainProfile) -> Verified:
    """What the rules were checked on, and every gap of every model; the chain was checked on one ensemble."""
    found = [verified(served.config, profile.triton_version) for served in run.models.values()]
    gaps = dict.fromkeys(gap for one in found for gap in one.gaps)
    return Verified(found[0].on, tuple(gaps))


def _not_valid(why: str) -> TrituneError:
    return TrituneError(
        f"nothing is predicted from this run: {why}",
        slug="twin-not-valid",
        exit_code=ExitCode.NOT_TRUSTWORTHY,
    )
