"""Configurations that Triton refuses to load, or that no simulation can hold; none is ever recommended."""

from __future__ import annotations

from tritune.model.config import ServingConfig

# Memory and time of a simulation grow with these.
MOST_INSTANCES, MOST_LEVELS, MOST_ITEMS = 1_000, 1_000, 65_536


def unloadable(config: ServingConfig) -> str:
    """Why this is not simulated, empty where it is (Triton: model_config_utils.cc:ValidateModelConfig)."""
    block = config.dynamic_batching
    for what, number, most in (
        ("instances", config.instances, MOST_INSTANCES),
        ("items in a batch", config.max_batch_size, MOST_ITEMS),
        ("priority levels", block.priority_levels if block else 0, MOST_LEVELS),
    ):
        if number > most:
            return f"{number} {what} are more than the {most} that are simulated"
    if block is None:
        return ""
    largest, levels = config.max_batch_size, block.priority_levels
    if any(size > largest for size in block.preferred_batch_size):
        return (
            f"Triton refuses a preferred batch size of {max(block.preferred_batch_size)} above "
            f"max_batch_size {largest}"
        )
    if levels and not 1 <= block.default_priority_level <= levels:
        return (
            f"Triton refuses {levels} priority levels with default_priority_level "
            f"{block.default_priority_level}; set it to 1 to {levels}"
        )
    if levels and any(not 1 <= level <= levels for level, _ in block.priority_queue_policy):
        return f"Triton refuses a priority_queue_policy for a level above {levels}"
    return ""
