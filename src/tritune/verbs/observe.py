"""Watch a server's counters, and predict from them. Reads only: sends no inference, changes nothing."""

from __future__ import annotations

from itertools import pairwise

import msgspec

from tritune.errors import ExitCode, TrituneError, UsageError
from tritune.model.server import ModelKey, ServerWindow, Snapshot, window
from tritune.pbtxt.message import apply_json, view_json
from tritune.twin.ask.answer import Simulation
from tritune.twin.ask.from_counters import CounterProfile, from_counters, variants, widened
from tritune.twin.ask.grid import grid
from tritune.twin.ask.predict import Prediction, predict
from tritune.twin.ask.saved import SavedProfile
from tritune.twin.fit.burst import MIN_WINDOWS
from tritune.units import NS_PER_S, format_duration
from tritune.verbs.ports import Clock, Progress, Server
from tritune.verbs.simulate import Basis, Question, answer
from tritune.verbs.work import Alone, Work

LONGEST_NS = 3_600 * NS_PER_S
# Each prediction with a wider interval costs as much as it did without; a large sweep keeps the narrow ones.
MOST_WIDENED = 40


class Observation(msgspec.Struct, frozen=True):
    """What was watched: one model's counters once a second, under the configuration that was served."""

    model: str
    url: str
    server_version: str
    config_json: str
    windows: tuple[ServerWindow, ...]

    @property
    def source(self) -> str:
        """In words."""
        seconds = round(sum(part.seconds for part in self.windows) * NS_PER_S)
        return f"{format_duration(seconds)} of counters of {self.url}"


def observe(
    server: Server, clock: Clock, progress: Progress, model: str, duration_ns: int, *, version: str = ""
) -> Observation:
    """The statistics of one model, read once a second for `duration_ns` (MIN_WINDOWS seconds to an hour).

    Raises UsageError (out-of-range); TrituneError: several-replicas, unknown-model, several-versions, and
    with exit 4 twin-bad-run where the counters were reset, the configuration changed, or nobody used the
    model; twin-no-batches where the server gives no batch statistics.
    """
    if not MIN_WINDOWS * NS_PER_S <= duration_ns <= LONGEST_NS:
        raise UsageError(
            f"watching for {format_duration(duration_ns)} is out of range",
            slug="out-of-range",
            hint=f"From {MIN_WINDOWS}s to 1h; a minute or more tells how bursty the traffic is.",
        )
    info = server.info()
    if server.several_replicas():
        raise TrituneError(
            f"several servers answer behind {server.url}: their counters cannot be read as one",
            slug="several-replicas",
            hint="Name one replica by its own address.",
        )
    server.metadata(model, version)
    config = server.effective_config(model, version)
    seconds = duration_ns // NS_PER_S
    progress.step(f"watching {model} at {server.url} for {format_duration(duration_ns)}")
    reads = _reads(server, clock, seconds)
    key = _used(reads, model, version)
    windows = tuple(part for part in (window(a, b, key) for a, b in pairwise(reads)) if part is not None)
    if any(part.reset for part in windows):
        raise _bad(
            f"the counters of '{model}' were reset while we watched", "Watch again when it is left alone."
        )
    if not sum(part.counters.success.count for part in windows):
        raise _bad(
            f"nobody used '{model}' in {format_duration(duration_ns)}", "Watch while it serves its traffic."
        )
    if not any(part.counters.batch_stats for part in windows):
        raise TrituneError(
            f"{server.url} gives no batch statistics of '{model}', so the time of a batch is not known",
            slug="twin-no-batches",
            hint="Its statistics endpoint has them; a proxy that serves the metrics page only has not.",
            exit_code=ExitCode.NOT_TRUSTWORTHY,
        )
    if view_json(config) != view_json(server.effective_config(model, version)):
        raise _bad(f"the configuration of '{model}' changed while we watched", "Watch again.")
    return Observation(model, server.url, info.version, config, windows)


class Observed(msgspec.Struct, frozen=True):
    """What predictions rest on, and what the counters leave open about it."""

    basis: Basis
    found: CounterProfile


def from_observation(observation: Observation) -> Observed:
    """Calibrate on what was watched. Raises TrituneError as `from_counters`; twin-not-valid where the twin
    cannot explain the counters.
    """
    found = from_counters(
        view_json(observation.config_json),
        observation.windows,
        triton_version=observation.server_version,
        source=observation.source,
    )
    if found.validity.refusal:
        raise TrituneError(
            f"nothing is predicted from these counters: {found.validity.refusal}",
            slug="twin-not-valid",
            exit_code=ExitCode.NOT_TRUSTWORTHY,
        )
    saved = SavedProfile(profile=found.profile, config_json=observation.config_json, validity=found.validity)
    return Observed(Basis(saved, found.traffic), found)


def answer_observed(observed: Observed, question: Question, *, work: Work | None = None) -> Simulation:
    """As `answer`, with each interval widened by what the counters leave open (MOST_WIDENED at most).

    `items` of the question must be those observed. Raises as `answer`.
    """
    work = work or Alone()
    seen = observed.basis.traffic
    traffic = msgspec.structs.replace(seen, items=question.items or seen.items)
    result = answer(msgspec.structs.replace(observed.basis, traffic=traffic), question, work=work)
    shown = [one for one in result.predictions if not one.refusal]
    if len(shown) > MOST_WIDENED:
        return result
    work.step("asking what else the counters allow")
    wider = iter(work.each(lambda one: _widened(one, observed, question), shown))
    predictions = tuple(one if one.refusal else next(wider) for one in result.predictions)
    return msgspec.structs.replace(result, predictions=predictions)


def simulate_observed(
    observation: Observation, question: Question, *, work: Work | None = None
) -> Simulation:
    """Both of them. Raises as `from_observation` and `answer_observed`."""
    work = work or Alone()
    work.step("finding service times and bursts in the counters")
    return answer_observed(from_observation(observation), question, work=work)


def _widened(one: Prediction, observed: Observed, question: Question) -> Prediction:
    """The same arrivals and noise for all, so that they differ by what the counters leave open alone."""
    candidate = next(asked for asked in grid(question.sets) if str(asked) == one.setting)
    served = observed.basis.saved.config_json
    config = view_json(apply_json(candidate.change, served) if candidate.settings else served)
    others = [
        predict(
            profile,
            config,
            msgspec.structs.replace(
                observed.basis.traffic, rate_per_s=one.rate_per_s, bursts=bursts, client=question.client
            ),
            replicas=one.replicas,
            contention=question.contention,
            replications=1,
        )
        for profile, bursts in variants(observed.found)
    ]
    return widened(one, others)


def _reads(server: Server, clock: Clock, seconds: int) -> list[Snapshot]:
    """One read a second by the clock, however long a read takes."""
    start = clock.now_ns()
    reads = [server.statistics()]
    for k in range(1, seconds + 1):
        clock.sleep(max(0.0, (start + k * NS_PER_S - clock.now_ns()) / NS_PER_S))
        reads.append(server.statistics())
    return reads


def _used(reads: list[Snapshot], model: str, version: str) -> ModelKey:
    """The version that was used. Raises TrituneError: several-versions, server-refused."""
    keys = sorted(key for key in reads[-1].models if key.model == model and version in ("", key.version))
    used = []
    for key in keys:
        seen = window(reads[0], reads[-1], key)
        if seen is not None and seen.counters.success.count:
            used.append(key)
    if len(used) > 1:
        names = ", ".join(key.version for key in used)
        raise TrituneError(
            f"versions {names} of '{model}' are used at once, and one instance group serves each",
            slug="several-versions",
            hint="Name one with --model-version.",
        )
    if not keys:
        raise _bad(
            f"the statistics of the server do not hold '{model}'", "Ask GET /v2/models/stats yourself."
        )
    return used[0] if used else keys[-1]


def _bad(why: str, hint: str) -> TrituneError:
    return TrituneError(
        f"nothing can be predicted: {why}",
        slug="twin-bad-run",
        hint=hint,
        exit_code=ExitCode.NOT_TRUSTWORTHY,
    )
