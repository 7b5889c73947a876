"""From one load of an ensemble to the figures of all its models, and of what lies between them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import msgspec
import numpy as np

from tritune.errors import ExitCode, TrituneError
from tritune.model.config import ServingConfig
from tritune.model.profile import ArrivalFit, Figure, ObservedRanges, TwinProfile
from tritune.model.requests import Kind
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import Requests
from tritune.twin.ensemble.chain import ChainPlay, HandOver, Served, simulate_chain
from tritune.twin.ensemble.ensemble_run import EnsembleRun
from tritune.twin.ensemble.wiring import Wiring, wiring
from tritune.twin.fit.agreement import distance, observed_sizes
from tritune.twin.fit.calibrate import calibrate_runs, rate_of, timing_of
from tritune.twin.fit.calibration_run import CalibrationRun
from tritune.twin.fit.replay import REPLAYS, by_sending, sent_ns

# From a request's arrival at an idle model to its execution: the batcher and the instance wake up. Median of
# 373 such requests, traced; python backend, Triton 2.51.0 on two shared cores.
PRIOR_WAKE_NS = 125_000
# How the spacing of a batch's answers varies from batch to batch: with it the replays of six loads of one
# ensemble, on the same server, came within 0.045 of the batch sizes executed behind; without it 0.03 to 0.2.
PRIOR_SPREAD = 0.5
# The median spacing, as a share of the wake-up of the models behind. Their batch sizes tell which one fits.
SPACINGS = (0.0, 0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.75, 1.0, 1.5, 2.5, 5.0)
# Requests of others at a model, as a share of the ensemble's own.
MAX_FOREIGN = 0.01


class ChainProfile(msgspec.Struct, frozen=True, kw_only=True):
    """The figures of an ensemble on one machine: those of its models, and of what lies between them.

    `hand_over_ns`: from an execution's end to the next queue, or to the answer, one for all steps; a prior
    of 0 where steps run beside each other, because counters do not say which one the answer waited for.
    `spacing_ns` and `spread` as in `HandOver`; None where no batch of several requests left a model for
    another one. The models' wake_ns hold all that passes between a request's arrival at an idle model and
    its execution, a prior.
    """

    ensemble: str
    source: str
    triton_version: str
    models: dict[str, TwinProfile]
    client_overhead_ns: Figure
    hand_over_ns: Figure
    spacing_ns: Figure | None
    spread: Figure | None
    arrival: ArrivalFit
    observed: ObservedRanges

    @property
    def hand_over(self) -> HandOver:
        """As the chain is played."""
        return HandOver(
            round(self.hand_over_ns.value),
            round(self.spacing_ns.value) if self.spacing_ns else 0,
            self.spread.value if self.spread else 0.0,
        )


def calibrate_chain(run: EnsembleRun) -> ChainProfile:
    """The profile that this run shows. Each model's S(b) and variation come from its own counters.

    The spacing of a batch's answers is the one whose replay comes nearest to the batch sizes that the models
    behind executed.

    Raises TrituneError (exit 4): twin-bad-run (also where a model got requests that were not the ensemble's,
    or of another size), twin-no-batches; twin-unsupported.
    """
    whole, plan = run.whole, wiring(run.whole.config)
    models = {model: _model_profile(run, model, calls=len(of)) for model, of in plan.models}
    last = whole.log.last_attempts()
    rate = rate_of(np.sort(last.planned_ns))
    arrival = models[plan.models[0][0]].arrival
    if arrival is None:
        raise ValueError("a calibration from a run tells its arrivals")
    counters = whole.window.counters
    requests = counters.success.count
    ok = last.kind == Kind.OK
    late = (last.sent_ns - last.planned_ns)[last.sent_ns >= 0]
    outside = float((last.done_ns - last.planned_ns)[ok].mean()) - counters.success.ns / requests
    profile = ChainProfile(
        ensemble=whole.config.name,
        source=whole.source,
        triton_version=whole.triton_version,
        models=models,
        client_overhead_ns=Figure(max(0.0, outside - (float(late.mean()) if len(late) else 0.0))),
        hand_over_ns=_hand_over(run, plan),
        spacing_ns=None,
        spread=None,
        arrival=arrival,
        observed=ObservedRanges(
            rates_per_s=(rate,),
            batch_sizes=(),
            request_items=tuple(sorted({int(n) for n in np.unique(last.items)})),
            instances=(),
            delays_us=(),
        ),
    )
    if not _several(run, plan):
        return profile
    behind = [model for model, of in plan.models if any(plan.feeders[i] for i in of)]
    wake = float(np.mean([one.wake_ns.value for m in behind if (one := models[m]).wake_ns is not None]))
    spread = Figure(PRIOR_SPREAD, source="prior")
    tried = [
        msgspec.structs.replace(profile, spacing_ns=Figure(share * wake), spread=spread) for share in SPACINGS
    ]
    return _late_as_measured(run, min(tried, key=lambda one: _apart(run, one, behind)))


def served_of(
    profile: ChainProfile, configs: Mapping[str, ServingConfig], contention: float | None = None
) -> dict[str, Served]:
    """How each model is played. Raises TrituneError (twin-unsupported), naming the model."""
    served = {}
    for model, config in configs.items():
        setting = setting_of(config, profile.triton_version)
        served[model] = Served(
            setting, timing_of(profile.models[model], setting.largest, contention=contention)
        )
    return served


def replay_chain(run: EnsembleRun, profile: ChainProfile, replays: int = REPLAYS) -> list[ChainPlay]:
    """The observed requests at the instants at which they were sent, each time with other noise."""
    last = by_sending(run.whole.log)
    configs = {model: one.config for model, one in run.models.items()}
    load = Requests(sent_ns(last), items=last.items)
    return [
        play_chain(profile, run.whole.config, served_of(profile, configs), load, seed)
        for seed in range(1, replays + 1)
    ]


def play_chain(
    profile: ChainProfile, ensemble: ServingConfig, served: Mapping[str, Served], load: Requests, seed: int
) -> ChainPlay:
    """One play with this profile's overheads; the counters do not say on which way the client's time goes."""
    client = profile.client_overhead_ns.value
    return simulate_chain(
        ensemble.name,
        wiring(ensemble),
        served,
        load,
        hand_over=profile.hand_over,
        send_ns=round(client / 2),
        reply_ns=round(client - client / 2),
        seed=seed,
    )


def executed(plays: Sequence[ChainPlay], model: str) -> dict[int, int]:
    """Executions of one model in all plays together, by batch size."""
    counts = np.bincount(np.concatenate([play.models[model].batch_items for play in plays]))
    return {size: int(count) for size, count in enumerate(counts.tolist()) if count}


def _model_profile(run: EnsembleRun, model: str, *, calls: int) -> TwinProfile:
    """A model's own figures. What lies outside of queue and execution is the hand-over's."""
    one, ours = run.models[model], run.whole.window.counters
    _only_ours(model, one, ours.success.count * calls, ours.inference_count * calls)
    found = calibrate_runs((one,))
    # How long waking up takes is not to be told from one mean queue time, which batches move as well.
    wake = Figure(PRIOR_WAKE_NS, source="prior")
    return msgspec.structs.replace(found, client_overhead_ns=None, server_overhead_ns=None, wake_ns=wake)


def _only_ours(model: str, one: CalibrationRun, requests: int, items: int) -> None:
    """Refuse where a model's counters hold what the chain cannot explain."""
    counters = one.window.counters
    if abs(counters.success.count - requests) > MAX_FOREIGN * requests:
        raise _bad_run(
            f"{model} answered {counters.success.count} requests where the ensemble's were {requests}",
            "Measure while nobody else uses the ensemble's models.",
        )
    whole = items if one.config.max_batch_size else requests
    if abs(counters.inference_count - whole) > MAX_FOREIGN * whole:
        raise _bad_run(
            f"{model} got {counters.inference_count} items where the ensemble's requests hold {whole}",
            "A step that makes more or fewer items of a request is not played.",
        )


def _bad_run(why: str, hint: str) -> TrituneError:
    return TrituneError(
        f"nothing can be predicted from this run: {why}",
        slug="twin-bad-run",
        hint=hint,
        exit_code=ExitCode.NOT_TRUSTWORTHY,
    )


def _hand_over(run: EnsembleRun, plan: Wiring) -> Figure:
    if not plan.straight:
        return Figure(0.0, source="prior")
    whole = run.whole.window.counters.success
    inside = 0.0
    for one in run.models.values():
        counters = one.window.counters
        stages = (counters.queue, counters.compute_input, counters.compute_infer, counters.compute_output)
        inside += sum(stage.ns for stage in stages) / counters.success.count
    return Figure((whole.mean_ns - inside) / len(plan.steps))


def _late_as_measured(run: EnsembleRun, profile: ChainProfile) -> ChainProfile:
    """The measured hand-over is less by what answers leave before their batch ends: put that back."""
    if profile.hand_over_ns.source != "measured":
        return profile
    steps = [step for play in replay_chain(run, profile) for step in play.steps]
    early = np.mean([(step.done_ns - step.answered_ns).mean() for step in steps]) + profile.hand_over.ns
    return msgspec.structs.replace(profile, hand_over_ns=Figure(profile.hand_over_ns.value + float(early)))


def _several(run: EnsembleRun, plan: Wiring) -> bool:
    """Whether several requests ever left a model together, on the way to another one."""
    feeding = {plan.steps[i].model for feeders in plan.feeders for i in feeders}
    return any(run.models[m].window.counters.execution_count * 1.001 < _requests(run, m) for m in feeding)


def _requests(run: EnsembleRun, model: str) -> int:
    return run.models[model].window.counters.success.count


def _apart(run: EnsembleRun, profile: ChainProfile, behind: Sequence[str]) -> float:
    """How far the replayed batch sizes of the later models are from the executed ones, in all."""
    plays = replay_chain(run, profile)
    return sum(distance(observed_sizes(run.models[m].window), executed(plays, m)) for m in behind)
