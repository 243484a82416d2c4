"""Servers, lakes, runs and samples that tests and benchmarks share, imported as `tests.support.NAME` alone."""
