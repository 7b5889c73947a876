"""What the rules were checked on, and what that leaves open for a model that is served in another way.

The rules are Triton's own and were read for many releases, but they ran beside a real server in one place
only. A prediction for anything else rests on the reading alone, and says so.
"""

from __future__ import annotations

import msgspec

from tritune.errors import TrituneError
from tritune.model.config import ServingConfig
from tritune.twin.engine.setting import READ_UP_TO, TICKS, release_of


class Check(msgspec.Struct, frozen=True):
    """One comparison of the rules with a real server. `share`: timelines identical in every batch;
    `share_without_ties`: the same without those in which a tie decides.
    """

    file: str
    server: str
    release: tuple[int, int]
    backends: tuple[str, ...]
    kinds: tuple[str, ...]
    device: str
    timelines: int
    share: float
    share_without_ties: float


class Foretold(msgspec.Struct, frozen=True):
    """Predictions measured afterwards; `median`, `ninetieth`: of |ln(predicted / measured)| of p99."""

    file: str
    points: int
    median: float
    ninetieth: float


class Verified(msgspec.Struct, frozen=True):
    """`on`: what was checked, in one sentence. `gaps`: what of this model was not; empty: nothing."""

    on: str
    gaps: tuple[str, ...] = ()

    @property
    def lower(self) -> bool:
        """Whether predictions deserve less confidence than on the checked server."""
        return bool(self.gaps)


# benchmarks/results/timelines.json; a test compares the figures.
TIMELINES = Check(
    file="timelines.json",
    server="2.51.0",
    release=(24, 10),
    backends=("python",),
    kinds=("KIND_CPU",),
    device="a synthetic device",
    timelines=264,
    share=0.9848,
    share_without_ties=1.0,
)

# benchmarks/results/fidelity.json; the same test.
FIDELITY = Foretold("fidelity.json", points=36, median=0.019, ninetieth=0.047)


def verified(config: ServingConfig, version: str) -> Verified:
    """How near this model is to what was checked; `version` as the server says it, empty where unknown."""
    found = [*_release(version), *_backend(config), *_kinds(config)]
    return Verified(_told(TIMELINES), tuple(found))


def _told(check: Check) -> str:
    backends = ", ".join(check.backends)
    return (
        f"Triton {check.server} ({_year_month(check.release)}), {backends} backend, "
        f"{', '.join(check.kinds)}, {check.device}: {check.timelines} timelines, {check.share:.0%} identical "
        f"in every batch ({check.share_without_ties:.0%} without ties); p99 of {FIDELITY.points} settings "
        f"unseen before off by {FIDELITY.median:.0%} (median), {FIDELITY.ninetieth:.0%} (90th percentile)"
    ).replace("%", " %")


def _release(version: str) -> list[str]:
    try:
        release = release_of(version) if version else None
    except TrituneError:
        release = None
    ran = TIMELINES.release
    if release is None:
        return ["the version of Triton is not known"]
    # Server versions above 2.51 are told apart from 24.10 by their number alone (see release_of).
    if version.strip() == TIMELINES.server or release == ran:
        return []
    read = f"{_year_month(TICKS)}–{_year_month(READ_UP_TO)}"
    if release < TICKS:
        return [f"Triton {version} has other rules, read in its source and never run"]
    if release > READ_UP_TO:
        return [f"Triton {version} is newer than the source read ({read}), run on {_year_month(ran)} only"]
    return [f"rules read in the source of {read}, run on {_year_month(ran)} only (here {version})"]


def _backend(config: ServingConfig) -> list[str]:
    backend = config.backend or config.platform
    if not backend:
        return ["the backend is not known"]
    return [] if backend in TIMELINES.backends else [f"backend {backend} not checked"]


def _kinds(config: ServingConfig) -> list[str]:
    kinds = {group.kind for group in config.instance_group} or {"KIND_AUTO"}
    return [f"{kind} not checked" for kind in sorted(kinds - set(TIMELINES.kinds))]


def _year_month(release: tuple[int, int]) -> str:
    return f"{release[0]}.{release[1]:02d}"
