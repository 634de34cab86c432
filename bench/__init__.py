"""Measurements: counts first, seconds second, ratios within one run."""
