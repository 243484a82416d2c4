"""The 25 instructions of IFEval, by their original names and settings."""
