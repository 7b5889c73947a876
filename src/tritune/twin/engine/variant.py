"""The interpreted rules with some of them replaced: to ask "what if" of them, or to watch them at work."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import FunctionType
from typing import Any

from tritune.twin.engine import driver, rules

Namespace = dict[str, Any]


def variant(replaced: Callable[[Namespace], Mapping[str, Callable[..., Any]]]) -> Callable[..., None]:
    """`driver.run` in which every call of a rule goes to its replacement.

    `replaced` is given the rules by name, as they were, to call them; what it returns takes their place.
    """
    space: Namespace = {**vars(rules), **vars(driver)}
    for name, function in list(space.items()):
        if isinstance(function, FunctionType):
            space[name] = FunctionType(function.__code__, space, name)
    space.update(replaced(dict(space)))
    run: Callable[..., None] = space["run"]
    return run
