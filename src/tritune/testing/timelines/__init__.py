"""Timelines played on a real Triton: what was executed with what, from its request traces."""
