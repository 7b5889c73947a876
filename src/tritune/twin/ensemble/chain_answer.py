"""Everything that `tritune simulate` found of an ensemble."""

from __future__ import annotations

from tritune.model.profile import Figure, TwinProfile
from tritune.twin.ask.answer import Simulation
from tritune.twin.ensemble.chain_fit import ChainProfile
from tritune.twin.ensemble.chain_predict import ModelShare
from tritune.twin.ensemble.chain_validate import ChainValidity


class EnsembleSimulation(Simulation, frozen=True, kw_only=True):
    """`profile` and `validity` are those of the ensemble as a whole; `chain` and `replay` hold its models.

    `shares[i]`: the models within prediction i, none where that was refused. `notes`: what was not played.
    """

    chain: ChainProfile
    replay: ChainValidity
    shares: tuple[tuple[ModelShare, ...], ...]
    notes: tuple[str, ...]


def profile_of(chain: ChainProfile) -> TwinProfile:
    """The ensemble as one: overheads, arrivals, what was observed. It executes nothing by itself."""
    return TwinProfile(
        model=chain.ensemble,
        source=chain.source,
        triton_version=chain.triton_version,
        service_ns={},
        # Of no executions there is no variation; those of the models are in theirs.
        cv=Figure(0.0, source="prior"),
        client_overhead_ns=chain.client_overhead_ns,
        arrival=chain.arrival,
        observed=chain.observed,
    )
