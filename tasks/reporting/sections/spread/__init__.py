"""Spread of scores: box plots, levels, slices, thresholds."""
