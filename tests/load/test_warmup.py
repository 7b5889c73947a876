"""Every batch size on every instance, and enough requests in all."""

from array import array
from collections import Counter
from functools import partial
from types import SimpleNamespace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tritune.load import warmup
from tritune.load.columns import Columns
from tritune.load.warmup import batch_sizes, warm_up, waves
from tritune.model.load import LoadOutcome, Shot, Target
from tritune.model.measurement import Sender
from tritune.model.requests import Kind
from tritune.units import NS_PER_S
from tritune.verbs.ports import WarmUp

TARGET = Target("127.0.0.1", 1)


class Recorder:
    """An engine that notes what it was asked for and answers as told, in virtual time."""

    def __init__(self, kind=Kind.OK, cut_at=None, takes_s=0.0):
        self.asked = []
        self.now_ns = 0
        self.kind, self.cut_at, self.takes_s = kind, cut_at, takes_s

    def closed_loop(self, target, concurrency, shots, *, timeout_ns, count=None, duration_ns=None):
        self.asked.append((shots[0].items, concurrency, count, duration_ns))
        self.now_ns += round(self.takes_s * NS_PER_S)
        columns = Columns(array("q", [0] * count), count)
        columns.kind[:] = array("q", [self.kind] * count)
        cut = "interrupted" if len(self.asked) == self.cut_at else ""
        return LoadOutcome(columns.log(shots), Sender(), self.takes_s, cut)


def shots(items):
    return (Shot(b"x", items),)


def warm(engine, **changed):
    settings = {"max_batch_size": 16, "instances": 2, "budget_s": 10.0, "timeout_ns": NS_PER_S} | changed
    return warm_up(engine, TARGET, shots, **settings)


@given(st.integers(0, 1024))
def test_sizes_are_every_small_one_powers_of_two_and_the_largest(largest):
    sizes = batch_sizes(largest)
    assert list(sizes) == sorted(set(sizes))
    assert sizes[0] == 1
    assert sizes[-1] == max(largest, 1)
    assert set(range(1, min(max(largest, 1), 32) + 1)) <= set(sizes)
    assert all(size & (size - 1) == 0 or size == largest for size in sizes if size > 32)
    assert all(2**k in sizes for k in range(11) if 2**k <= largest)


@given(st.integers(1, 256), st.integers(1, 8), st.integers(1, 500))
def test_every_size_goes_out_twice_to_each_instance_and_the_minimum_is_sent(largest, instances, minimum):
    plan = waves(largest, instances, minimum)
    assert sum(wave.count for wave in plan) >= minimum
    rounds = Counter(wave.items for wave in plan if wave.concurrency == wave.count == instances)
    assert set(rounds) == set(batch_sizes(largest))
    assert min(rounds.values()) >= 2
    assert all(0 < wave.until <= 1 for wave in plan)
    singles = max(plan, key=lambda wave: wave.count)
    assert singles.items == 1
    assert singles.concurrency >= 2  # so that they merge, and do not wait for a delay one after the other


@given(st.integers(1, 8), st.integers(1, 500))
def test_a_model_that_does_not_batch_gets_single_requests(instances, minimum):
    assert {wave.items for wave in waves(0, instances, minimum)} == {1}
    assert sum(wave.count for wave in waves(0, instances, minimum)) >= minimum


def test_what_was_sent_is_counted():
    engine = Recorder()
    done = warm(engine)
    assert done.requests == sum(count for _, _, count, _ in engine.asked) >= 200
    assert done.errors == 0
    assert done.sizes == tuple(range(1, 17))
    assert done.cut == ""


def test_failures_are_counted_and_reach_no_size():
    done = warm(Recorder(kind=Kind.SERVER_ERROR))
    assert done.errors == done.requests
    assert done.sizes == ()


def test_a_wave_that_was_cut_is_the_last():
    engine = Recorder(cut_at=3)
    done = warm(engine)
    assert done.cut == "interrupted"
    assert len(engine.asked) == 3


def test_a_short_budget_keeps_the_singles_and_ends_in_time(monkeypatch):
    engine = Recorder(takes_s=0.02)
    monkeypatch.setattr(warmup, "time", SimpleNamespace(monotonic_ns=lambda: engine.now_ns))
    done = warm(engine, budget_s=0.2)
    assert 0.16 < done.seconds <= 0.22
    assert all(0 < duration <= 0.2 * NS_PER_S for *_, duration in engine.asked)
    assert any(items == 1 and concurrency > 2 for items, concurrency, *_ in engine.asked)
    assert len(engine.asked) < len(waves(16, 2, 200))


def test_it_warms_a_real_server(engine, responder):
    def delayed(items):
        return (responder.shot("delay/2", items=items),)

    done = warm_up(
        engine,
        responder.target,
        delayed,
        max_batch_size=8,
        instances=2,
        budget_s=20,
        timeout_ns=5 * NS_PER_S,
    )
    assert done.requests >= 200
    assert done.errors == 0
    assert done.sizes == tuple(range(1, 9))


def test_with_an_engine_it_is_what_the_verbs_ask_for(engine, responder):
    port: WarmUp = partial(warm_up, engine)
    done = port(
        responder.target,
        lambda _: (responder.shot("status/503"),),
        max_batch_size=0,
        instances=1,
        minimum=10,
        budget_s=5,
        timeout_ns=NS_PER_S,
    )
    assert (done.requests, done.errors) == (10, 10)


@pytest.mark.parametrize("largest", [0, 1])
def test_no_batching_is_one_size(largest):
    assert batch_sizes(largest) == (1,)
