"""The engine: Triton's rules, the virtual clock that drives them, and what they are given."""
