"""Checks of length: words, characters, lines, tokens, sentences, paragraphs."""

from gradebook.rubrics.checks.length import lengths, structure, tokens

MODULES = (
    lengths,
    tokens,
    structure,
)

__all__ = ["MODULES"]
