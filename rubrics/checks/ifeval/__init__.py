"""The 25 instructions of IFEval, by its own names and settings; importing this package registers them all."""
