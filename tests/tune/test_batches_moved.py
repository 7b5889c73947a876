"""What is said of the executed batches beside a p99."""

from tritune.model.server import BatchStat, ModelCounters, ServerWindow
from tritune.tune.verdict import batches_moved


def window(sizes: dict[int, int] | None) -> ServerWindow:
    stats = None if sizes is None else {b: BatchStat(n, infer_ns=n * 1_000_000) for b, n in sizes.items()}
    executions = sum((sizes or {}).values())
    items = sum(b * n for b, n in (sizes or {}).items())
    counters = ModelCounters(inference_count=items, execution_count=executions, batch_stats=stats)
    return ServerWindow("m", "1", "statistics", 0, 10**9, counters)


def test_the_share_of_executions_at_other_sizes_is_said():
    said = batches_moved(window({1: 50, 4: 50}), window({1: 100}))
    assert "2.50 -> 1.00" in said
    assert "50%" in said


def test_nothing_is_said_where_a_side_has_no_batch_statistics():
    assert batches_moved(window(None), window({1: 5})) == ""
    assert batches_moved(None, window({1: 5})) == ""
