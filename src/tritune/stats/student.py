"""Student's t, from scipy.special: scipy.stats costs half a second of every start."""

from __future__ import annotations

from scipy.special import stdtrit


def t_quantile(df: float, p: float = 0.975) -> float:
    """The p-quantile of Student's t with `df` degrees of freedom (need not be whole); 0.975 = 95 % two-sided.

    Raises ValueError for df <= 0.
    """
    if df <= 0:
        raise ValueError(f"degrees of freedom must be positive, got {df}")
    return float(stdtrit(df, p))
