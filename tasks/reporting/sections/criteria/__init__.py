"""Criteria by model: heatmap, radar, weak spots."""
