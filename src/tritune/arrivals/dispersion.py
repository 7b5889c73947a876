"""How the number of arrivals per window scatters: Poisson, and a Poisson process whose rate jumps."""

from __future__ import annotations

import math

from tritune.model.workload import Bursts


def count_variance(rate_per_s: float, bursts: Bursts | None, seconds: float) -> float:
    """Var N(t) of the arrivals in a window of that length; `bursts` None: Poisson.

    lambda t + (2 s^2 t / k) (1 - (1 - e^-kt) / kt), k = the sum of the rates at which the states are left,
    s^2 = duty (1 - duty) (l1 - l2)^2 (research.md 3, after Fischer and Meier-Hellstern 1993).
    """
    poisson = rate_per_s * seconds
    if bursts is None or seconds <= 0:
        return poisson
    dwell = bursts.dwell_ns / 1e9
    leave = 1 / dwell + bursts.duty / (dwell * (1 - bursts.duty))
    calm = rate_per_s / (1 + bursts.duty * (bursts.ratio - 1))
    spread = bursts.duty * (1 - bursts.duty) * (calm * (bursts.ratio - 1)) ** 2
    x = leave * seconds
    return poisson + 2 * spread * seconds / leave * (1 + math.expm1(-x) / x)


def sample_variance(rate_per_s: float, bursts: Bursts | None, seconds: float, windows: int) -> float:
    """What the sample variance of so many neighbouring windows is on average.

    It is less than Var N(t): neighbours are alike, so their mean moves along with them.
    """
    whole = count_variance(rate_per_s, bursts, windows * seconds)
    return windows / (windows - 1) * (count_variance(rate_per_s, bursts, seconds) - whole / windows**2)


def correlation(rate_per_s: float, bursts: Bursts | None, seconds: float, windows: int) -> float:
    """Of the counts of two neighbouring windows, as their sample has it: 0 for Poisson."""
    one = sample_variance(rate_per_s, bursts, seconds, windows)
    two = sample_variance(rate_per_s, bursts, 2 * seconds, windows // 2)
    return (two / 2 - one) / one


def ratio_of(rate_per_s: float, dispersion: float, dwell_ns: int, duty: float, seconds: float) -> float:
    """The ratio at which bursts of this dwell and duty make counts so over-dispersed; 1 where they are not.

    `dispersion`: variance / mean of the counts per window. infinite where no ratio is enough.
    """
    dwell = dwell_ns / 1e9
    x = seconds * (1 / dwell + duty / (dwell * (1 - duty)))
    leave = x / seconds
    wanted = max(0.0, dispersion - 1) * rate_per_s * leave / (2 * (1 + math.expm1(-x) / x))
    # s^2 = duty (1 - duty) (rate (r - 1) / (1 + duty (r - 1)))^2, solved for r - 1.
    jump = math.sqrt(wanted / (duty * (1 - duty))) / rate_per_s
    return 1 + jump / (1 - duty * jump) if duty * jump < 1 else math.inf
