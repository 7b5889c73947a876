"""A real Triton from a wheel: its private environment, the server process, and the record of what runs."""
