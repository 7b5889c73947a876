"""How far an ensemble's chain may be trusted: the observed load is replayed, model by model and in all."""

from __future__ import annotations

import msgspec
import numpy as np

from tritune.stats.quantiles import quantile
from tritune.twin.ask.validate import Validity, p99_refusal
from tritune.twin.ensemble.chain import ChainPlay
from tritune.twin.ensemble.chain_fit import ChainProfile, executed, replay_chain
from tritune.twin.ensemble.ensemble_run import EnsembleRun
from tritune.twin.ensemble.wiring import wiring
from tritune.twin.fit.agreement import chance, distance, distance_allowed, observed_sizes, queue_off, relative
from tritune.twin.fit.replay import by_sending, sent_ns
from tritune.units import format_duration


class ModelValidity(msgspec.Struct, frozen=True):
    """One model of the ensemble against its replay; the figures as in `Validity`."""

    model: str
    queue_observed_ns: float
    queue_replayed_ns: float
    queue_error: float
    batch_observed: float
    batch_replayed: float
    batch_distance: float
    batch_noise: float


class ChainValidity(msgspec.Struct, frozen=True):
    """`whole`: queue of all steps together, client's p99, and the model whose batch sizes are furthest off.

    Its `refusal` is the first that applies. `mean_error`: of the mean latency, which the hand-over has
    largely been fitted to.
    """

    whole: Validity
    mean_error: float
    models: tuple[ModelValidity, ...]


def validate_chain(run: EnsembleRun, profile: ChainProfile) -> ChainValidity:
    """Replay the run; thresholds are those of a single model, the queue's for each of them."""
    plays = replay_chain(run, profile)
    last = by_sending(run.whole.log)
    late = (sent_ns(last) - last.planned_ns).astype(np.float64)
    measured = run.whole.log.latency_ns()
    replayed = [play.latency_ns() + late for play in plays]
    observed_p99 = quantile(measured, 0.99)
    replayed_p99 = float(np.median([quantile(one, 0.99) for one in replayed]))
    models = tuple(_model(run, plays, model) for model, _ in wiring(run.whole.config).models)
    worst = max(models, key=lambda one: one.batch_distance - one.batch_noise)
    observed, played = (
        sum(getattr(one, name) for one in models) for name in ("queue_observed_ns", "queue_replayed_ns")
    )
    whole = Validity(
        queue_observed_ns=observed,
        queue_replayed_ns=played,
        queue_error=relative(played, observed),
        batch_distance=worst.batch_distance,
        batch_noise=worst.batch_noise,
        p99_observed_ns=observed_p99,
        p99_replayed_ns=replayed_p99,
        p99_error=relative(replayed_p99, observed_p99),
        requests=len(last),
    )
    mean = float(np.mean([one[np.isfinite(one)].mean() for one in replayed]))
    error = relative(mean, float(measured[np.isfinite(measured)].mean()))
    refusal = _refusal(whole, models, run.whole.window.counters.success.mean_ns)
    return ChainValidity(msgspec.structs.replace(whole, refusal=refusal), error, models)


def _model(run: EnsembleRun, plays: list[ChainPlay], model: str) -> ModelValidity:
    window = run.models[model].window
    sizes, replayed = observed_sizes(window), executed(plays, model)
    observed_queue = window.counters.queue.ns / window.counters.success.count
    replayed_queue = float(np.mean([play.models[model].queue_ns().mean() for play in plays]))
    return ModelValidity(
        model=model,
        queue_observed_ns=observed_queue,
        queue_replayed_ns=replayed_queue,
        queue_error=relative(replayed_queue, observed_queue),
        batch_observed=_mean(sizes),
        batch_replayed=_mean(replayed),
        batch_distance=distance(sizes, replayed),
        batch_noise=chance([executed([play], model) for play in plays], replayed),
    )


def _refusal(whole: Validity, models: tuple[ModelValidity, ...], request_ns: float) -> str:
    for one in models:
        if queue_off(one.queue_observed_ns, one.queue_replayed_ns, request_ns):
            return (
                f"replaying the run gives a mean queue time at {one.model} of "
                f"{format_duration(one.queue_replayed_ns)} where {format_duration(one.queue_observed_ns)} "
                f"was measured; measure the settings themselves with tritune load, or calibrate again on a "
                f"quiet machine"
            )
    for one in models:
        allowed = distance_allowed(one.batch_noise)
        if one.batch_distance > allowed:
            return (
                f"replaying the run gives other batch sizes at {one.model} (distance "
                f"{one.batch_distance:.3f}, at most {allowed:.3f} would do); measure for longer, so that "
                f"batches are counted more exactly"
            )
    return p99_refusal(whole)


def _mean(sizes: dict[int, int]) -> float:
    executions = sum(sizes.values())
    return sum(size * count for size, count in sizes.items()) / executions if executions else 0.0
