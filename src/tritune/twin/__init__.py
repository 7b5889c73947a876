"""Triton in virtual time. So far: service times and the capacity that follows from them."""
