"""The page about a run: what it shows, drawn and written from the lake's tables."""
