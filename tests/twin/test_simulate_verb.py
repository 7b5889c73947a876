"""`simulate` on runs whose truth is known: a closed loop, several rates, and what is kept in a profile."""

from __future__ import annotations

from typing import Any

import msgspec
import numpy as np
import pytest
from observed_run import SERVER_NS, log_of, observe, truth
from twin_play import config

from tritune.errors import ExitCode, TrituneError
from tritune.model.measurement import Sender
from tritune.model.server import BatchStat, ModelCounters, ServerWindow, Tally
from tritune.model.slo import parse_slo
from tritune.pbtxt.message import view_json
from tritune.twin.engine.setting import setting_of
from tritune.twin.engine.simulate import ClosedLoop, simulate
from tritune.twin.fit.calibration_run import CalibrationRun
from tritune.verbs.simulate import Question, answer, from_runs, from_saved
from tritune.verbs.work import Alone

CONFIG = (
    '{"name":"m","backend":"python","max_batch_size":16,"dynamic_batching":{"max_queue_delay_microseconds":"%s"},'
    '"instance_group":[{"kind":"KIND_CPU","count":1}]}'
)
DELAY = "dynamic_batching.max_queue_delay_microseconds"
QUICK = {"requests": 4000, "replications": 3}


def run_of(seen: Any, config_json: str, **more: Any) -> CalibrationRun:
    return CalibrationRun(
        view_json(config_json), config_json, seen.window, seen.log, Sender(), triton_version="2.51.0", **more
    )


def open_run(rate: float = 200, delay_us: int = 500) -> CalibrationRun:
    return run_of(observe(rate, delay_ms=delay_us / 1000), CONFIG % delay_us)


def closed_run(concurrency: int = 6, count: int = 4000) -> CalibrationRun:
    served = config(largest=16)
    play = simulate(setting_of(served), ClosedLoop(concurrency, count), truth(), seed=7)
    ran = {b: (play.batch_done_ns - play.batch_start_ns)[play.batch_items == b] for b in range(1, 17)}
    queue, inside = int(play.queue_ns().sum()), int((play.server_done_ns - play.start_ns).sum())
    counters = ModelCounters(
        success=Tally(count, queue + inside + SERVER_NS * count),
        queue=Tally(count, queue),
        compute_infer=Tally(count, inside),
        inference_count=count,
        execution_count=len(play.batch_items),
        batch_stats={b: BatchStat(len(ns), 0, int(ns.sum()), 0) for b, ns in ran.items() if len(ns)},
    )
    text = CONFIG % 0
    window = ServerWindow("m", "1", "statistics", 0, int(play.done_ns.max()), counters)
    log = log_of(play.planned_ns, play.planned_ns, play)
    return CalibrationRun(
        view_json(text), text, window, log, Sender(), triton_version="2.51.0", concurrency=concurrency
    )


def test_a_closed_loop_is_replayed_and_predicted_as_one() -> None:
    run = closed_run()
    basis = from_runs([run], Question())
    assert basis.saved.validity is not None
    assert abs(basis.saved.validity.p99_error or 1) < 0.05
    assert basis.traffic.concurrency == 6
    found = answer(basis, Question(sets=(f"{DELAY}=0,5000",), **QUICK))
    assert found.traffic == "a closed loop with 6 in flight"
    now, delayed = found.predictions
    assert now.load is None
    assert now.rate_per_s == 0
    measured = len(run.log) / run.window.seconds
    assert now.goodput_per_s == pytest.approx(measured, rel=0.03)
    p99 = float(np.quantile(run.log.latency_ns(), 0.99))
    assert now.latency["p99"].value == pytest.approx(p99, rel=0.05)
    assert (delayed.goodput_per_s or 0) < (now.goodput_per_s or 0)
    assert found.headroom.load is None


def test_a_closed_loop_can_be_asked_for_a_rate_and_kept() -> None:
    basis = from_runs([closed_run()], Question())
    rate = round(0.5 * max(basis.saved.profile.observed.rates_per_s))  # type: ignore[union-attr]
    asked = Question(rates_per_s=(rate,), slo=parse_slo("p99=60ms"), **QUICK)
    found = answer(basis, asked)
    assert found.predictions[0].load is not None
    assert found.headroom.rate_per_s == rate
    saved = msgspec.json.decode(msgspec.json.encode(basis.saved), type=type(basis.saved))
    again = from_saved(saved, asked)
    assert again.traffic == basis.traffic
    assert answer(again, asked) == found


def test_a_closed_loop_over_replicas_is_refused() -> None:
    basis = from_runs([closed_run()], Question())
    with pytest.raises(TrituneError) as caught:
        answer(basis, Question(sets=("replicas=2",), **QUICK))
    assert caught.value.slug == "twin-refused"
    assert "closed loop" in caught.value.message


def test_the_ranks_put_the_slo_first_and_refusals_last() -> None:
    basis = from_runs([open_run()], Question())
    sets = (f"{DELAY}=0,500,10000", "dynamic_batching.preferred_batch_size=none,[64]")
    found = answer(basis, Question(sets=sets, slo=parse_slo("p99=17ms"), **QUICK))
    assert sorted(one.rank for one in found.predictions) == [1, 2, 3, 4, 5, 6]
    order = [(bool(one.refusal), one.meets) for one in found.in_rank]
    assert order == [(False, "yes"), (False, "yes"), (False, "no"), *[(True, None)] * 3]
    assert found.best_knee is not None
    assert "Triton refuses" in found.in_rank[-1].refusal


def test_where_all_the_work_goes_does_not_change_what_is_found() -> None:
    class Backwards(Alone):
        def each(self, function: Any, items: Any, what: str = "") -> Any:
            return list(reversed([function(item) for item in reversed(items)]))

    basis = from_runs([open_run()], Question())
    asked = Question(sets=(f"{DELAY}=0,500",), rates_per_s=(150, 250), slo=parse_slo("p99=30ms"), **QUICK)
    assert answer(basis, asked, work=Backwards()) == answer(basis, asked)


def test_a_run_that_is_doubted_is_not_used() -> None:
    with pytest.raises(TrituneError) as caught:
        from_runs([open_run()], Question(), why_doubted="it was late")
    assert caught.value.slug == "twin-not-valid"
    assert caught.value.exit_code == ExitCode.NOT_TRUSTWORTHY


def test_a_recorded_load_is_kept_in_the_profile() -> None:
    seen = observe(500, delay_ms=0.5)
    gaps = np.diff(seen.log.planned_ns)
    gaps = gaps * np.where(np.arange(len(gaps)) // 100 % 2, 14, 6) // 10
    bursty = np.cumsum(gaps)
    fit = from_runs([open_run(500)], Question()).saved
    profile = msgspec.structs.replace(
        fit.profile,
        arrival=msgspec.structs.replace(fit.profile.arrival, process=None),  # type: ignore[type-var]
    )
    from tritune.arrivals.recorded import recorded
    from tritune.twin.ask.saved import SavedRecord

    record = recorded(bursty, np.ones(len(bursty), np.int64))
    kept = SavedRecord(record.gaps_ns.tolist(), record.items.tolist(), record.block)
    basis = from_saved(msgspec.structs.replace(fit, profile=profile, recorded=kept), Question())
    assert basis.traffic.process == "recorded"
    tails = [
        answer(b, Question(**QUICK)).predictions[0].latency["p99"].value
        for b in (basis, from_saved(fit, Question()))
    ]
    assert (tails[0] or 0) > 1.02 * (tails[1] or 0)
