"""Calibration: from what was observed to a TwinProfile."""
