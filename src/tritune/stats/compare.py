"""Whether a candidate setting is better than the best so far, beyond what noise can do.

Two sources of noise, both in the interval:
- within a run: block i of every run comes from the same slice of the same arrival plan, so the log ratios
  of paired blocks vary only by what the plan does not explain;
- between runs of one setting: the pooled sd of ln p99 over repeated measurements, shrunk to a prior,
  because two or three repeats say little about it (PRIOR_SD with PRIOR_DF degrees of freedom; research.md 4
  "run-to-run hysteresis > within-run noise").
Degrees of freedom of the sum after Welch-Satterthwaite. In simulated A/A tests at most 5 % of the verdicts
are false while the true run-to-run sd is up to 3.5 %; at 5 % with only two repeats it is one in ten, until
repeats have shown the machine's own noise (tests/stats/test_compare.py).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tritune.model.measurement import Comparison, Measurement, Verdict
from tritune.model.requests import Floats
from tritune.model.server import ServerWindow
from tritune.stats.student import t_quantile
from tritune.units import NEVER_NS

PRIOR_SD = 0.03
PRIOR_DF = 4
# A change smaller than 5 % is not worth a reload; two settings within 5 % are the same.
MARGIN = 0.05


def compare(best: Sequence[Measurement], candidate: Sequence[Measurement]) -> Comparison:
    """Candidate / best on p99 with a 95 % interval and a verdict.

    better: the interval lies below 1 and the ratio is at most 0.95; worse: above 1 and at least 1/0.95;
    equivalent: the interval lies within [0.95, 1.05]; undecided: anything else. Failed requests that
    reach one side's p99 decide alone; on both sides, or in only some runs of the best, nothing is decided.
    Raises ValueError where a side has no measurement.
    """
    if not best or not candidate:
        raise ValueError("a comparison needs at least one measurement of each setting")
    olds, news = [_p99(m) for m in best], [_p99(m) for m in candidate]
    if None in olds or None in news:
        return _nothing_known("a run without a p99: nothing was measured")
    old, new = np.array(olds, np.float64), np.array(news, np.float64)
    failed = _by_failures(old, new)
    if failed is not None:
        return failed

    logs = [np.log(old), np.log(new)]
    ratio_log = float(logs[1].mean() - logs[0].mean())
    run_df = len(old) + len(new) - 2
    squares = sum(float(((x - x.mean()) ** 2).sum()) for x in logs)
    run_var = (PRIOR_DF * PRIOR_SD**2 + squares) / (PRIOR_DF + run_df)
    parts = [(run_var * (1 / len(old) + 1 / len(new)), float(PRIOR_DF + run_df))]

    within = _within(best, candidate)
    if within is not None:
        parts.append(within)
    variance = sum(v for v, _ in parts)
    df = variance**2 / sum(v**2 / d for v, d in parts if v > 0)
    half = t_quantile(df) * math.sqrt(variance)
    ratio, low, high = (math.exp(ratio_log + s * half) for s in (0, -1, 1))
    return Comparison(ratio, low, high, _verdict(ratio, low, high), _basis(best, candidate, run_var, within))


def batch_distance(a: ServerWindow, b: ServerWindow) -> float | None:
    """How differently two windows batched: total variation distance of the batch sizes, by executions.

    0 = the same distribution, 1 = no size in common; None where a side has no batch statistics.
    """
    first, second = ({s: x.count for s, x in (w.counters.batch_stats or {}).items()} for w in (a, b))
    of_first, of_second = sum(first.values()), sum(second.values())
    if not of_first or not of_second:
        return None
    sizes = first.keys() | second.keys()
    return sum(abs(first.get(s, 0) / of_first - second.get(s, 0) / of_second) for s in sizes) / 2


def _p99(measurement: Measurement) -> float | None:
    found = measurement.latency.get("p99")
    return found.value if found is not None else None


def _nothing_known(basis: str) -> Comparison:
    return Comparison(1.0, 0.0, NEVER_NS, "undecided", basis)


def _by_failures(old: Floats, new: Floats) -> Comparison | None:
    """What failed requests alone decide; None where every p99 is a number."""
    old_never, new_never = old >= NEVER_NS, new >= NEVER_NS
    if not old_never.any() and not new_never.any():
        return None
    if not old_never.any():
        text = f"failed requests reach the p99 of {new_never.sum()} of {len(new)} runs of the candidate"
        ratio = NEVER_NS / float(np.exp(np.log(old).mean()))
        return Comparison(ratio, ratio, ratio, "worse", text)
    if old_never.all() and not new_never.any():
        text = "failed requests reach the p99 of every run of the best so far, and of none of the candidate"
        ratio = float(np.exp(np.log(new).mean())) / NEVER_NS
        return Comparison(ratio, ratio, ratio, "better", text)
    return _nothing_known("failed requests reach the p99 on both sides, or in some runs of the best so far")


def _within(best: Sequence[Measurement], candidate: Sequence[Measurement]) -> tuple[float, float] | None:
    """Variance of the mean log ratio of paired blocks and its degrees of freedom; None where none pair."""
    runs = [*best, *candidate]
    lengths = {len(m.block_p99_ns) for m in runs}
    k = lengths.pop()
    # Blocks pair only where they are slices of the same plan: equally many, of equally many requests.
    if lengths or k < 3 or len({m.requests for m in runs}) > 1:
        return None
    old, new = (np.array([m.block_p99_ns for m in side], np.float64) for side in (best, candidate))
    if max(old.max(), new.max()) >= NEVER_NS or min(old.min(), new.min()) <= 0:
        return None
    ratios = np.log(new).mean(axis=0) - np.log(old).mean(axis=0)
    return float(ratios.var(ddof=1)) / k, float(k - 1)


def _verdict(ratio: float, low: float, high: float) -> Verdict:
    if high < 1 and ratio <= 1 - MARGIN:
        return "better"
    if low > 1 and ratio >= 1 / (1 - MARGIN):
        return "worse"
    if low >= 1 - MARGIN and high <= 1 + MARGIN:
        return "equivalent"
    return "undecided"


def _basis(
    best: Sequence[Measurement],
    candidate: Sequence[Measurement],
    run_var: float,
    within: tuple[float, float] | None,
) -> str:
    runs = f"{len(best)} and {len(candidate)} runs"
    between = (
        f"run-to-run sd {math.sqrt(run_var):.1%} (pooled repeats, shrunk to {PRIOR_SD:.0%} "
        f"with {PRIOR_DF} degrees of freedom)"
    )
    if within is None:
        return f"{runs}; {between}; blocks do not pair, so noise within a run only through the repeats"
    blocks = len(best[0].block_p99_ns)
    return f"{runs}; {between}; within-run error {math.sqrt(within[0]):.1%} ({blocks} paired blocks)"
