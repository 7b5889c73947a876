"""Would a timeline notice if a rule were missing? That is what its agreement with the server is worth."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import msgspec
import numpy as np

from tritune.testing.timelines.compare import Replay
from tritune.twin.engine.setting import Policy, Setting
from tritune.twin.engine.state import EXECUTING, PHASE, READY_FIRST, SATURATED, Rules, State
from tritune.twin.engine.variant import Namespace, variant
from tritune.units import NS_PER_MS


def _policies(**changes: Any) -> Callable[[Setting], Setting]:
    def changed(setting: Setting) -> Setting:
        policies: tuple[Policy, ...] = tuple(
            msgspec.structs.replace(policy, **changes) for policy in setting.policies
        )
        return msgspec.structs.replace(setting, policies=policies)

    return changed


def _setting(**changes: Any) -> Callable[[Setting], Setting]:
    return lambda setting: msgspec.structs.replace(setting, **changes)


_TICK = "the tick of timeouts"
_SETTINGS: Mapping[str, Callable[[Setting], Setting]] = {
    "the delay": _setting(delay_ns=0),
    # {max_batch_size} is what Triton fills in.
    "preferred sizes": lambda setting: msgspec.structs.replace(
        setting, preferred=(setting.max_batch_size,) if setting.max_batch_size else ()
    ),
    "the wake filter": _setting(shapes_enforced=True),
    "lazy dispatch": _setting(eager=True),
    "shape classes": _setting(inputs_compared=False),
    "priority levels": lambda setting: msgspec.structs.replace(
        setting, priority_levels=0, policies=setting.policies[-1:]
    ),
    "max_queue_size": _policies(max_queue_size=0),
    "timeouts": _policies(default_timeout_ns=0),
    "timeouts of a request's own": _policies(allow_timeout_override=False),
    _TICK: _setting(ticks=False),
}


def _no_merge(rules: Namespace) -> Mapping[str, Callable[..., Any]]:
    def dequeue(_: Rules, st: State, __: int) -> int:
        p = int(st.s[READY_FIRST])
        rules["pop_ready"](st)
        st.payload[p, PHASE] = EXECUTING
        return p

    return {"dequeue": dequeue}


def _no_growth(rules: Namespace) -> Mapping[str, Callable[..., Any]]:
    def enqueue_payload(st: State, p: int) -> None:
        rules["enqueue_payload"](st, p)
        st.s[SATURATED] = 1

    return {"enqueue_payload": enqueue_payload}


_VARIANTS: Mapping[str, Callable[[Namespace], Mapping[str, Callable[..., Any]]]] = {
    "merging and freezing at dequeue": _no_merge,
    "payloads that grow": _no_growth,
}
RULES = (*_SETTINGS, *_VARIANTS)


def notices(replay: Replay, rule: str) -> bool:
    """Whether the twin without this one of RULES would batch or refuse otherwise in this timeline.

    The tick is noticed by when refused requests are answered: who is refused stays the same.
    """
    if not replay.setting.dynamic:
        return False
    if rule in _SETTINGS:
        other = msgspec.structs.replace(replay, setting=_SETTINGS[rule](replay.setting))
        if rule == _TICK:
            answered = other.simulated().server_done_ns - replay.simulated().server_done_ns
            return bool((np.abs(answered) > NS_PER_MS).any())
        return other.outcome() != replay.outcome()
    return replay.outcome(variant(_VARIANTS[rule])) != replay.outcome()
