"""tritune: why a Triton deployment's tail latency explodes, and the change that fixes it, with evidence."""

__version__ = "0.1.0"
