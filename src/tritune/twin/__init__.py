"""Triton in virtual time: the engine, its calibration, what it is asked, and ensembles (docs/twin.md)."""
