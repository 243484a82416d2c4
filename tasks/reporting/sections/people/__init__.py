"""Judge and people: agreement, confusion, corrected means, opinions."""
