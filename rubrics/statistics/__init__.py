"""Statistics of scores: pure functions over numpy arrays. scipy is imported where it is used, for it loads slowly."""
