"""Does the twin predict what a real Triton then does? Calibrate, write predictions down, measure them.

    python benchmarks/bench_fidelity.py [POINTS PER DEVICE = 12] [SECONDS PER MEASUREMENT = 12]

Takes about 25 minutes; leave the machine alone meanwhile. Writes benchmarks/results/fidelity.json.
"""

from __future__ import annotations

import hashlib
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec

from fidelity.asked import Asked, ask
from fidelity.lab import Lab
from fidelity.points import CONTENTIONS, Point, points
from fidelity.score import Row, beside, results
from tritune.model.profile import TwinProfile
from tritune.store.environment import environment

RESULT = Path(__file__).parent / "results" / "fidelity.json"


def predicted(lab: Lab, asked: Sequence[Point]) -> tuple[dict[float, TwinProfile], list[Asked]]:
    """One profile per device, and what each says of the points: nothing of them has been measured yet."""
    profiles = {contention: lab.calibrated(contention) for contention in CONTENTIONS}
    answers = []
    for point in asked:
        answer = ask(point, lab.serving_config(point), profiles[point.contention], lab.plan(point))
        print(
            f"{answer.twin['p99']:7.1f} ms  {point}" + (f"  REFUSED: {answer.refusal}" * bool(answer.refusal))
        )
        answers.append(answer)
    return profiles, answers


def report(rows: Sequence[Row], profiles: dict[float, TwinProfile], digest: str, lab: Lab) -> dict[str, Any]:
    answered = [row for row in rows if not row[1].refusal]
    return {
        "schema": 1,
        "environment": msgspec.to_builtins(environment())
        | {"triton": lab.version, "server_at_real_time_priority": lab.undisturbed},
        "results": results(answered),
        "data": {
            "sha256_of_predictions_before_measuring": digest,
            "refused": sum(bool(row[1].refusal) for row in rows),
            "errors": beside(answered),
            "profiles": {f"{c:g}": msgspec.to_builtins(p, str_keys=True) for c, p in profiles.items()},
            "points": [
                {
                    "point": str(point),
                    "predicted": msgspec.to_builtins(asked, str_keys=True),
                    "measured": msgspec.to_builtins(measured, str_keys=True),
                }
                for point, asked, measured in rows
            ],
        },
    }


def main() -> int:
    each, seconds = (int(word) for word in [*sys.argv[1:], *("12", "12")[len(sys.argv) - 1 :]])
    asked = points(each)
    with tempfile.TemporaryDirectory() as folder, Lab(Path(folder), seconds) as lab:
        profiles, answers = predicted(lab, asked)
        digest = hashlib.sha256(msgspec.json.encode(answers)).hexdigest()
        print(f"predictions written down, sha256 {digest}", flush=True)
        rows: list[Row] = []
        for point, answer in zip(asked, answers, strict=True):
            rows.append((point, answer, lab.measured(point)))
            found = rows[-1][2]
            print(
                f"p99 predicted {answer.twin['p99']:7.1f}, measured"
                f" {found.latency[0]['p99']:7.1f} {found.latency[1]['p99']:7.1f} ms  {point}",
                flush=True,
            )
        found = report(rows, profiles, digest, lab)
    RESULT.parent.mkdir(exist_ok=True)
    RESULT.write_bytes(msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")
    for name, error in found["data"]["errors"].items():
        print(
            f"{name:40} {error['points']:3} points  |ln| median {error['median_abs_ln']:.3f}"
            f"  p90 {error['p90_abs_ln']:.3f}  max {error['max_abs_ln']:.3f}  bias {error['bias_ln']:+.3f}"
        )
    for figure in found["results"]:
        held = "holds" if figure["holds"] else "DOES NOT HOLD"
        print(f"{figure['name']:55} {figure['measured']:8.4g}  target {figure['target']:9} {held}")
    print(f"written to {RESULT}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
