"""Where a batch hangs by a thread: an event so near to a decision that a real server may decide otherwise."""

from __future__ import annotations

import numpy as np

from tritune.model.requests import Bools, Int64
from tritune.twin.simulate import Simulated
from tritune.units import NS_PER_MS


def ties(simulated: Simulated, *, within_ns: int = NS_PER_MS) -> Bools:
    """Per batch: an arrival or completion lies within `within_ns` of one of its decisions.

    Decisions are its start and the instants at which its requests were moved into a payload. The one
    event that brought a decision about, at the very same instant, is no tie; a second one there is.
    """
    events = np.sort(np.concatenate([simulated.arrived_ns, simulated.batch_done_ns]))
    tied = _is_tied(events, simulated.batch_start_ns, within_ns)
    executed = simulated.batch >= 0
    moved = _is_tied(events, simulated.joined_ns[executed], within_ns)
    np.logical_or.at(tied, simulated.batch[executed], moved)
    return tied


def _is_tied(events: Int64, decisions: Int64, within_ns: int) -> Bools:
    near = np.searchsorted(events, decisions + within_ns, "right") - np.searchsorted(
        events, decisions - within_ns, "left"
    )
    at_once = np.searchsorted(events, decisions, "right") > np.searchsorted(events, decisions, "left")
    tied: Bools = near > at_once
    return tied
