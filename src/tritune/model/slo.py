"""What must hold: percentiles of the latency over all planned requests, and the share of errors."""

from __future__ import annotations

import re

import msgspec

from tritune.errors import UsageError
from tritune.units import format_duration, parse_duration, parse_share

DEFAULT_ERRORS = 0.001
_CLAUSE = re.compile(r"^\s*(p\d{2}(?:\.\d+)?|errors)\s*(?:<=|<|=)\s*(\S.*?)\s*$")


class Clause(msgspec.Struct, frozen=True):
    """One condition. `limit` is ns for a percentile, a share from 0 to 1 for `errors`."""

    metric: str
    limit: float

    @property
    def quantile(self) -> float | None:
        """0.99 for p99; None for errors."""
        return None if self.metric == "errors" else float(self.metric[1:]) / 100

    def __str__(self) -> str:
        limit = f"{self.limit * 100:g}%" if self.quantile is None else format_duration(self.limit)
        return f"{self.metric} <= {limit}"


class Slo(msgspec.Struct, frozen=True):
    """All clauses must hold. A failed request counts as infinitely late."""

    clauses: tuple[Clause, ...]

    @property
    def main(self) -> Clause:
        """The latency clause with the highest percentile: the one a tuning works on."""
        return max((c for c in self.clauses if c.quantile is not None), key=lambda c: c.quantile or 0)

    def __str__(self) -> str:
        return ", ".join(str(clause) for clause in self.clauses)


def parse_slo(text: str) -> Slo:
    """`"p99=50ms,p50<=10ms,errors<0.1%"` as an Slo; `=`, `<` and `<=` all mean "at most".

    `errors<0.1%` is added where no errors clause is given. Raises UsageError for anything else,
    and where there is no latency clause at all.
    """
    clauses: list[Clause] = []
    for part in text.split(","):
        match = _CLAUSE.match(part)
        if match is None:
            raise UsageError(
                f"'{part.strip()}' is not a clause of an SLO",
                slug="bad-slo",
                hint="Write for example --slo p99=50ms or --slo p99=50ms,p50=10ms,errors<0.1%.",
            )
        metric, value = match[1], match[2]
        limit = parse_share(value) if metric == "errors" else parse_duration(value)
        if metric != "errors" and limit <= 0:
            raise UsageError(f"'{part.strip()}' can never hold: the limit is zero", slug="bad-slo")
        if any(c.metric == metric for c in clauses):
            raise UsageError(f"the SLO names {metric} twice", slug="bad-slo")
        clauses.append(Clause(metric, float(limit)))
    if all(c.metric == "errors" for c in clauses):
        raise UsageError(
            f"the SLO '{text}' has no latency clause",
            slug="bad-slo",
            hint="Add one, for example p99=50ms.",
        )
    if not any(c.metric == "errors" for c in clauses):
        clauses.append(Clause("errors", DEFAULT_ERRORS))
    return Slo(tuple(clauses))
