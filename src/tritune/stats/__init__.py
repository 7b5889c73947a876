"""Percentiles with intervals, comparisons and verdicts. Pure: numbers in, frozen values out."""
