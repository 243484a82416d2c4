"""Checks of the steps of a trajectory: tools called, their order and arguments, repeats, and totals."""
