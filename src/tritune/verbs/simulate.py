"""Predict settings from runs, a profile, or figures typed by hand. Thinks only; nothing is loaded or sent."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec
import numpy as np

from tritune.arrivals.recorded import Recorded
from tritune.errors import ExitCode, TrituneError, UsageError
from tritune.model.client import ClientPolicy
from tritune.model.slo import Slo
from tritune.pbtxt.message import apply_json, json_of_text, view_json
from tritune.twin.ask.answer import Simulation
from tritune.twin.ask.grid import Candidate, at_most, grid, service_line
from tritune.twin.ask.knee import Headroom, Knee, headroom, knee
from tritune.twin.ask.loadable import MOST_ITEMS
from tritune.twin.ask.pareto import by_setting, front, p99_ns, ranked
from tritune.twin.ask.parts import queue_parts
from tritune.twin.ask.predict import Prediction, predict
from tritune.twin.ask.saved import SavedProfile, SavedRecord
from tritune.twin.ask.sweep import Drawn, Effort, effort_for
from tritune.twin.ask.traffic import Traffic, traffic_of
from tritune.twin.ask.validate import validate
from tritune.twin.ask.verified import verified
from tritune.twin.fit.calibrate import calibrate_runs
from tritune.twin.fit.calibration_run import CalibrationRun
from tritune.twin.fit.figures import typed_profile, with_contention
from tritune.verbs.work import Alone, Work


class Question(msgspec.Struct, frozen=True):
    """What is asked: `sets` as on the command line; no rates: the observed load; `items` 0: as observed;
    `requests` and `replications` 0: as many as are sensible for so many predictions.
    """

    sets: tuple[str, ...] = ()
    rates_per_s: tuple[float, ...] = ()
    slo: Slo | None = None
    contention: float | None = None
    items: int = 0
    client: ClientPolicy | None = None
    requests: int = 0
    replications: int = 0


class Basis(msgspec.Struct, frozen=True):
    """What predictions rest on: a profile with its configuration and validity, and the load as observed."""

    saved: SavedProfile
    traffic: Traffic


def from_runs(
    runs: Sequence[CalibrationRun], question: Question, *, why_doubted: str = "", work: Work | None = None
) -> Basis:
    """Calibrate on the runs, and replay the first. `why_doubted`: why that one cannot be believed.

    Raises TrituneError (exit 4): twin-bad-run, twin-no-batches, twin-not-valid (the replay is too far off).
    """
    work = work or Alone()
    first = runs[0]
    if why_doubted:
        raise _not_valid(f"the run itself is not trustworthy: {why_doubted}")
    work.step("calibrating on the run" if len(runs) == 1 else f"calibrating on {len(runs)} runs")
    profile = calibrate_runs(runs)
    work.step("replaying the run" if len(runs) == 1 else f"replaying {first.source}")
    validity = validate(first.config, profile, first.window, first.log, concurrency=first.concurrency)
    if validity.refusal:
        raise _not_valid(validity.refusal)
    if first.concurrency:
        sizes = np.unique(first.log.last_attempts().items)
        if not question.items and len(sizes) != 1:
            raise _not_valid("it is a closed loop whose requests differ in size; add --items")
        traffic = Traffic(0.0, items=question.items or int(sizes[0]), concurrency=first.concurrency)
    elif profile.arrival is None:
        raise _not_valid("its arrivals are not known")
    else:
        traffic = traffic_of(profile.arrival, first.log, items=question.items)
    record = traffic.recorded
    kept = SavedRecord(record.gaps_ns.tolist(), record.items.tolist(), record.block) if record else None
    saved = SavedProfile(
        profile=profile,
        config_json=first.config_json,
        validity=validity,
        recorded=kept,
        concurrency=first.concurrency,
        # A closed loop is not replayed at the instants at which it sent.
        queue_parts=None
        if first.concurrency
        else queue_parts(first.config, profile, first.window, first.log),
    )
    return Basis(saved, traffic)


def from_saved(saved: SavedProfile, question: Question) -> Basis:
    """Predict again from a profile file. Raises UsageError (rate-missing) where it holds no load and none is
    given.
    """
    seen, fit = saved.profile.observed, saved.profile.arrival
    sizes = seen.request_items if seen else ()
    items = question.items or (sizes[0] if len(sizes) == 1 else 0)
    if saved.concurrency and items:
        return Basis(saved, Traffic(0.0, items=items, concurrency=saved.concurrency))
    if saved.recorded is not None and fit is not None:
        gaps, each = (np.array(x, np.int64) for x in (saved.recorded.gaps_ns, saved.recorded.items))
        if len(gaps) and len(gaps) == len(each) and gaps.min() >= 0 and each.min() >= 1:
            record = Recorded(gaps, each, max(1.0, saved.recorded.block))
            return Basis(saved, Traffic(fit.rate_per_s, "recorded", items, recorded=record))
    if fit is not None and fit.process not in (None, "recorded") and items:
        return Basis(saved, Traffic(fit.rate_per_s, fit.process, items, fit.bursts))
    return Basis(saved, Traffic(_first_rate(question), "poisson", items or 1))


def from_typed(config_text: str, service: str, question: Question, *, path: str) -> Basis:
    """Start from a config.pbtxt and service times typed by hand; Poisson arrivals.

    Raises UsageError: bad-service, bad-set, rate-missing; PbtxtError for the file.
    """
    rate = _first_rate(question)
    config_json = json_of_text(config_text, path)
    largest = max(view_json(text).max_batch_size for text, _ in _settings(config_json, question.sets))
    times = service_line(service, min(max(1, largest), MOST_ITEMS))
    profile = typed_profile(view_json(config_json).name, service, times)
    return Basis(
        SavedProfile(profile=profile, config_json=config_json), Traffic(rate, "poisson", question.items or 1)
    )


def answer(basis: Basis, question: Question, *, work: Work | None = None) -> Simulation:
    """Every setting at every rate, ranked; the headroom of the setting as it is.

    Raises TrituneError (exit 4, twin-refused) where nothing at all may be predicted; UsageError (bad-set).
    """
    work = work or Alone()
    saved, drawn = basis.saved, Drawn()
    settings = _settings(saved.config_json, question.sets)
    observed = msgspec.structs.replace(basis.traffic, client=question.client)
    loads = [_at(observed, rate) for rate in question.rates_per_s] or [observed]
    asked = [(text, candidate, load) for text, candidate in settings for load in loads]
    at_most(len(asked), "settings and rates together")
    effort = effort_for(len(asked), question.requests, question.replications)

    def one(position: int) -> Prediction:
        text, candidate, load = asked[position]
        found = predict(
            saved.profile,
            view_json(text),
            load,
            setting=str(candidate),
            replicas=candidate.replicas,
            contention=question.contention,
            slo=question.slo,
            drawn=drawn,
            requests=effort.requests,
            replications=effort.replications,
        )
        return msgspec.structs.replace(found, fields=candidate.fields)

    # One load after the other, so that what was drawn for it serves all settings.
    order = sorted(range(len(asked)), key=lambda k: asked[k][2].rate_per_s / asked[k][1].replicas)
    found = dict(zip(order, work.each(one, order, "predictions"), strict=True))
    predictions = with_ranks([found[k] for k in range(len(asked))])
    if all(prediction.refusal for prediction in predictions):
        raise TrituneError(
            f"this is not predicted: {predictions[0].refusal}",
            slug="twin-refused",
            exit_code=ExitCode.NOT_TRUSTWORTHY,
        )
    work.step("looking for the knee" if question.slo else "looking at higher rates")
    reference = loads[0] if len(loads) == 1 else observed
    room = _headroom(saved, reference, question, effort, drawn, work)
    first = by_setting(predictions)[0][0]
    best = next(k for k, prediction in enumerate(predictions) if prediction is first)
    return Simulation(
        profile=with_contention(saved.profile, question.contention),
        validity=saved.validity,
        predictions=predictions,
        headroom=room,
        slo=question.slo,
        verified=verified(view_json(saved.config_json), saved.profile.triton_version),
        effort=effort,
        best_knee=_knee_of(saved, asked[best], question, effort, drawn, work),
        traffic=in_words(reference),
        client=question.client,
        queue_parts=saved.queue_parts,
    )


def with_ranks(predictions: Sequence[Prediction]) -> tuple[Prediction, ...]:
    """Rank and Pareto front; with several rates the front is that of the highest one."""
    ranks = {position: rank for rank, position in enumerate(ranked(predictions), 1)}
    top = max(prediction.rate_per_s for prediction in predictions)
    compared = [k for k, prediction in enumerate(predictions) if prediction.rate_per_s == top]
    marks = front([(predictions[k].cost, p99_ns(predictions[k])) for k in compared])
    best = {k for k, mark in zip(compared, marks, strict=True) if mark and len(compared) > 1}
    return tuple(
        msgspec.structs.replace(prediction, rank=ranks[k], pareto=k in best)
        for k, prediction in enumerate(predictions)
    )


def _headroom(
    saved: SavedProfile, load: Traffic, question: Question, effort: Effort, drawn: Drawn, work: Work
) -> Headroom:
    return headroom(
        saved.profile,
        view_json(saved.config_json),
        load,
        question.slo,
        contention=question.contention,
        requests=effort.requests,
        replications=effort.replications,
        drawn=drawn,
        spread=lambda function, items: work.each(function, list(items)),
    )


def _knee_of(
    saved: SavedProfile,
    asked: tuple[str, Candidate, Traffic],
    question: Question,
    effort: Effort,
    drawn: Drawn,
    work: Work,
) -> Knee | None:
    """The knee of the best setting, where that is another one than as it is."""
    text, candidate, load = asked
    if question.slo is None or candidate == Candidate():
        return None
    return knee(
        saved.profile,
        view_json(text),
        load,
        question.slo,
        contention=question.contention,
        replicas=candidate.replicas,
        requests=effort.requests,
        replications=effort.replications,
        drawn=drawn,
        spread=lambda function, items: work.each(function, list(items)),
    )


def _at(traffic: Traffic, rate_per_s: float) -> Traffic:
    """The same load at another rate; a closed loop becomes Poisson arrivals."""
    if traffic.concurrency is None:
        return msgspec.structs.replace(traffic, rate_per_s=rate_per_s)
    return Traffic(rate_per_s, "poisson", traffic.items, client=traffic.client)


def in_words(traffic: Traffic) -> str:
    """What is sent, without its rate."""
    items = f", {traffic.items} items each" if traffic.items > 1 else ""
    if traffic.concurrency is not None:
        return f"a closed loop with {traffic.concurrency} in flight{items}"
    what = {"recorded": "the recorded arrivals, played again in blocks", "poisson": "Poisson arrivals"}
    return what.get(traffic.process, f"{traffic.process} arrivals") + items


def _first_rate(question: Question) -> float:
    if not question.rates_per_s:
        raise UsageError(
            "figures typed by hand need a rate", slug="rate-missing", hint="Add --rate 200 (requests/s)."
        )
    return question.rates_per_s[0]


def _settings(config_json: str, sets: Sequence[str]) -> list[tuple[str, Candidate]]:
    """Each setting of the grid with its effective configuration."""
    return [
        (apply_json(candidate.change, config_json) if candidate.settings else config_json, candidate)
        for candidate in grid(sets)
    ]


def _not_valid(why: str) -> TrituneError:
    return TrituneError(
        f"nothing is predicted from this run: {why}",
        slug="twin-not-valid",
        exit_code=ExitCode.NOT_TRUSTWORTHY,
    )
