"""Measurements: one file per figure, each printed as a ratio against a named baseline of the same run."""
