"""Configuration edits that remedies share, as declared moves with Triton's field names."""

from __future__ import annotations

from tritune.model.config import Change, DynamicBatching, ServingConfig, Setting

DELAY = "dynamic_batching.max_queue_delay_microseconds"
PREFERRED = "dynamic_batching.preferred_batch_size"
COUNT = "instance_group.count"
# The article's start and range for a delay (S7).
DELAY_US, LEAST_DELAY_US, MOST_DELAY_US = 500, 100, 1000


def short_delay(microseconds: int = DELAY_US) -> Change:
    """max_queue_delay_microseconds: 500 unless said otherwise, the article's first step."""
    return Change((Setting(DELAY, microseconds),))


def plain_batching(config: ServingConfig) -> Change | None:
    """Preferred sizes and delay removed together; None where neither is set or nothing batches.

    One declared move, never in two steps: delay 0 while the largest preferred size is below max_batch_size
    makes that size a hard cap (semantics 1.5). A lone preferred size of max_batch_size stays: Triton fills it
    in itself where the block names none.
    """
    batching = config.dynamic_batching
    if batching is None:
        return None
    settings = []
    if set(batching.preferred_batch_size) - {config.max_batch_size}:
        settings.append(Setting(PREFERRED, None))
    if batching.max_queue_delay_microseconds:
        settings.append(Setting(DELAY, None))
    return Change(tuple(settings)) if settings else None


def instance_count(config: ServingConfig, count: int) -> Change | None:
    """Another count for the only instance group; None where several groups leave it open which."""
    if len(config.instance_group) > 1:
        return None
    return Change((Setting(COUNT, count),))


def batch_cap(config: ServingConfig, most: int) -> Change:
    """max_batch_size: `most`, with the preferred sizes that Triton would then refuse taken out.

    All of them go where the delay is 0: the largest must not stay below max_batch_size. The size that Triton
    fills in by itself, [max_batch_size], is none of the file's.
    """
    settings = [Setting("max_batch_size", most)]
    batching = config.dynamic_batching or DynamicBatching()
    chosen = batching.preferred_batch_size
    if chosen != (config.max_batch_size,) and any(size > most for size in chosen):
        legal = tuple(size for size in chosen if size <= most)
        settings.append(Setting(PREFERRED, (legal if batching.max_queue_delay_microseconds else ()) or None))
    return Change(tuple(settings))
