"""Change since the run compared with: difference, its parts, forest of intervals."""
