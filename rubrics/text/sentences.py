"""Sentences of a text with their positions; deterministic."""

import re
from typing import NamedTuple

# Abbreviations and initials, after which a sentence continues: "Dr. Who", "e.g. this", "J. Doe".
_ABBREVIATION = re.compile(
    r"(?:\b(?:mr|mrs|ms|dr|prof|st|sr|jr|vs|no|nr|fig|eq|approx|ca|cf|e\.g|i\.e|z\.b|d\.h|bzw|al|inc|ltd|dept)"
    r"|\b[^\W\d_])\.\Z",
    re.IGNORECASE,
)
# "The shop is open. [1][2]", "open.[^1] It", "open.【4†file】 It"
_CITED = r"(?:[ \t]*(?:\[\^?\d{1,3}(?:[ ,;\u2013-]+\^?\d{1,3})*\]|【\d{1,3}[^【】\n]{0,80}】))*"
_END = re.compile(rf"[.!?…।॥۔؟]+[\"'”’»)\]]*{_CITED}(?=\s|\Z)|[。！？]+[」』”’）]*{_CITED}|\n\s*")  # noqa: RUF001 - full-width marks
_NUMBER = re.compile(r"\s*\(?\d{1,3}\)?\Z")  # number of a list entry before its full stop: "1. The shop is open."
_FENCE = re.compile(r"(?:```|~~~)\S*\Z")
_WORD = re.compile(r"\w")


class Sentence(NamedTuple):
    """Sentence without surrounding blanks; start, stop: its place in the text, in characters."""

    text: str
    start: int
    stop: int


def split_sentences(text: str) -> tuple[Sentence, ...]:
    """Split a text at end marks and line breaks; citations in brackets after the end mark belong to their sentence.

    Pieces without a letter or digit, and the fences of code, belong to no sentence.
    """
    sentences: list[Sentence] = []
    start = 0
    for end in _END.finditer(text):
        if end[0][0] == "." and (
            _ABBREVIATION.search(text, max(start, end.start() - 12), end.start() + 1)
            or _NUMBER.match(text[start : end.start()][:20])
        ):
            continue
        sentences.append(_trimmed(text, start, end.end()))
        start = end.end()
    sentences.append(_trimmed(text, start, len(text)))
    return tuple(sentence for sentence in sentences if _WORD.search(sentence.text) and not _FENCE.match(sentence.text))


def _trimmed(text: str, start: int, stop: int) -> Sentence:
    piece = text[start:stop]
    start += len(piece) - len(piece.lstrip())
    stripped = piece.strip()
    return Sentence(stripped, start, start + len(stripped))
