"""The 25 instructions of IFEval, by its own names and settings; importing this package registers them all."""

from gradebook.rubrics.checks.ifeval import formats, keywords, lengths, letters, wording

MODULES = (keywords, lengths, formats, wording, letters)

__all__ = ["MODULES"]
