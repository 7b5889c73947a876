"""bigger-batches-slower: beyond some size a batch costs more per item, and the traffic runs such sizes."""

from __future__ import annotations

from tritune.diagnose.context import Context
from tritune.diagnose.moves import batch_cap
from tritune.diagnose.result import Confidence, Finding, Remedy
from tritune.diagnose.slower import MIN_EXECUTIONS, Slower, slower_sizes
from tritune.units import format_duration

SLUG = "bigger-batches-slower"
# Slower sizes that take less of the busy time are not what this traffic suffers from.
MIN_BUSY_SHARE = 0.2


def find(context: Context) -> Finding | None:
    """Fires where b / S(b) falls beyond a size and those sizes take a fifth of the busy time.

    With several instances the same picture comes from contention (large batches form when all are busy), and
    the instance count is to be settled first: `instances-contend` speaks then.
    """
    found = slower_sizes(context)
    if found is None or found.busy_share < MIN_BUSY_SHARE or context.instances > 1:
        return None
    certain = found.loss >= 0.2 and found.executions >= 3 * MIN_EXECUTIONS
    confidence: Confidence = "high" if certain else "medium"
    return Finding(
        slug=SLUG,
        title=f"Batches above {found.best} cost more per item than batches of {found.best}",
        confidence=confidence,
        evidence=_evidence(context, found),
        remedies=(
            Remedy(
                f"Cap max_batch_size at {found.best}, where throughput b / S(b) is highest.",
                batch_cap(context.config, found.best),
            ),
        ),
        check=(
            f"With max_batch_size {found.best} the capacity is "
            f"{found.best / context.curve[found.best].ns * 1e9:.0f} items/s; p99 should fall at this rate."
        ),
    )


def _evidence(context: Context, found: Slower) -> tuple[str, ...]:
    # The largest step and the commonest sizes say it; a screen is short.
    common = sorted(found.slower, key=lambda size: -context.curve[size].executions)[:3]
    shown = {found.best, min(found.slower), *common}
    lines = [
        f"S({size}) = {format_duration(context.curve[size].ns)}: {size / context.curve[size].ns * 1e9:.0f} "
        f"items/s ({context.curve[size].executions} executions)"
        for size in sorted(shown)
    ]
    lines.append(
        f"sizes that are slower took {found.busy_share:.0%} of the busy time and gave {found.loss:.0%} less "
        f"throughput than batches of {found.best}"
    )
    return tuple(lines)
