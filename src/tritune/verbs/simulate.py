"""Predict settings from a run, or from figures typed by hand. Reads and thinks; nothing is loaded or sent."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import msgspec

from tritune.errors import ExitCode, TrituneError, UsageError
from tritune.model.config import Change
from tritune.model.profile import TwinProfile
from tritune.model.requests import RequestLog
from tritune.model.run import Manifest
from tritune.model.server import BatchStat
from tritune.model.slo import Slo
from tritune.pbtxt.message import apply_json, json_of_text, view_json
from tritune.stats.trust import doubt
from tritune.twin.calibrate import calibrate, typed_profile, with_contention
from tritune.twin.grid import grid, service_line
from tritune.twin.predict import Headroom, Prediction, headroom, predict
from tritune.twin.traffic import Traffic
from tritune.twin.validate import Validity, validate

AS_IT_IS = "as it is"


class Question(msgspec.Struct, frozen=True):
    """What is asked: `sets` as on the command line; no rates: the observed one; `items` 0: as observed."""

    sets: tuple[str, ...] = ()
    rates_per_s: tuple[float, ...] = ()
    slo: Slo | None = None
    contention: float | None = None
    items: int = 0


class Simulation(msgspec.Struct, frozen=True):
    """The answer. `validity` is None for figures typed by hand: nothing was observed that they could be
    held against.
    """

    profile: TwinProfile
    validity: Validity | None
    predictions: tuple[Prediction, ...]
    headroom: Headroom
    slo: Slo | None = None

    @property
    def refused(self) -> tuple[Prediction, ...]:
        """The predictions that were refused."""
        return tuple(prediction for prediction in self.predictions if prediction.refusal)


def simulate_run(
    manifest: Manifest,
    config_json: str,
    log: RequestLog,
    warm_up: Mapping[int, BatchStat],
    question: Question,
    *,
    source: str,
    progress: Callable[[str], None] = lambda _: None,
) -> Simulation:
    """Calibrate on the run, replay it, and predict.

    Raises TrituneError (exit 4): twin-bad-run, twin-no-batches, twin-not-valid (the replay is too far off),
    twin-refused (every question lies outside what was observed); UsageError: not-a-load, bad-set.
    """
    measurement = manifest.measurement
    if measurement is None or measurement.window is None or not config_json:
        raise UsageError(
            f"{source} does not hold both a measurement and the configuration that was served",
            slug="not-a-load",
            hint="Name a run folder of tritune load.",
        )
    if measurement.workload.rate_per_s is None:
        raise UsageError(
            f"{source} is a closed loop, whose requests follow the answers",
            slug="not-a-load",
            hint="Measure at a rate: tritune load URL --model M --rate R.",
        )
    if why := doubt(measurement):
        raise _not_valid(f"the run itself is not trustworthy: {why}")
    config = view_json(config_json)
    progress("calibrating on the run")
    profile = calibrate(
        config,
        measurement.window,
        log,
        measurement.sender,
        warm_up=warm_up,
        triton_version=manifest.server_version,
        source=source,
    )
    progress("replaying the run")
    validity = validate(config, profile, measurement.window, log)
    if validity.refusal:
        raise _not_valid(validity.refusal)
    fit, seen = profile.arrival, profile.observed
    items = question.items or (seen.request_items[0] if seen and len(seen.request_items) == 1 else 0)
    if fit is None or fit.process is None or not items:
        raise _not_valid("its arrivals are neither Poisson nor constant, or its requests differ in size")
    traffic = Traffic(fit.rate_per_s, fit.process, items)
    return _answer(profile, validity, config_json, question, traffic, progress)


def simulate_typed(
    config_text: str,
    service: str,
    question: Question,
    *,
    path: str,
    progress: Callable[[str], None] = lambda _: None,
) -> Simulation:
    """Predict from a config.pbtxt and service times typed by hand; Poisson arrivals.

    Raises UsageError: bad-service, bad-set, rate-missing; PbtxtError for the file.
    """
    if not question.rates_per_s:
        raise UsageError(
            "figures typed by hand need a rate", slug="rate-missing", hint="Add --rate 200 (requests/s)."
        )
    config_json = json_of_text(config_text, path)
    largest = max(1, *(view_json(text).max_batch_size for text, _ in _settings(config_json, question.sets)))
    profile = typed_profile(view_json(config_json).name, service, service_line(service, largest))
    traffic = Traffic(question.rates_per_s[0], "poisson", question.items or 1)
    return _answer(profile, None, config_json, question, traffic, progress)


def _answer(
    profile: TwinProfile,
    validity: Validity | None,
    config_json: str,
    question: Question,
    traffic: Traffic,
    progress: Callable[[str], None],
) -> Simulation:
    settings = _settings(config_json, question.sets)
    rates = question.rates_per_s or (traffic.rate_per_s,)
    progress(f"simulating {len(settings) * len(rates)} predictions")
    predictions = tuple(
        predict(
            profile,
            view_json(text),
            msgspec.structs.replace(traffic, rate_per_s=rate),
            setting=name,
            contention=question.contention,
        )
        for text, name in settings
        for rate in rates
    )
    if all(prediction.refusal for prediction in predictions):
        raise TrituneError(
            f"this is not predicted: {predictions[0].refusal}",
            slug="twin-refused",
            exit_code=ExitCode.NOT_TRUSTWORTHY,
        )
    progress("looking for the knee" if question.slo else "looking at higher rates")
    room = headroom(
        profile,
        view_json(config_json),
        msgspec.structs.replace(traffic, rate_per_s=rates[0]),
        question.slo,
        contention=question.contention,
    )
    return Simulation(
        with_contention(profile, question.contention), validity, predictions, room, question.slo
    )


def _settings(config_json: str, sets: Sequence[str]) -> list[tuple[str, str]]:
    """Each setting of the grid as (effective configuration, what it is called)."""
    return [
        (apply_json(change, config_json) if change.settings else config_json, _name(change))
        for change in grid(sets)
    ]


def _name(change: Change) -> str:
    return str(change).replace("dynamic_batching.", "") if change.settings else AS_IT_IS


def _not_valid(why: str) -> TrituneError:
    return TrituneError(
        f"nothing is predicted from this run: {why}",
        slug="twin-not-valid",
        exit_code=ExitCode.NOT_TRUSTWORTHY,
    )
