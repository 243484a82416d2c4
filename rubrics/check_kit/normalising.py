"""Normalisation of texts for comparison: whitespace, case, articles and punctuation."""

from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.check_kit.character_classes import gap_class, whitespace_class
from gradebook.rubrics.check_kit.matching import are_few

ARTICLE_LIKE = r"(?i)\b(?:an?|the)\b"
SPACE = r"\x20"

Punctuation = Literal["none", "ascii", "unicode"]
PUNCTUATION = {"ascii": r"[[:punct:]]+", "unicode": r"[\p{P}\p{S}]+"}


def fold_whitespace(texts: pa.Array) -> pa.Array:
    """Replace each run of whitespace with one space and strip the ends: (text,)."""
    if are_few(texts):  # Python's `split` splits at the same characters
        return pa.array([" ".join(text.split()) for text in texts.to_pylist()], texts.type)
    spaces = whitespace_class(texts)
    # Single spaces are excluded, as most need no change.
    not_one_space = rf"[{spaces}]{{2,}}|[{spaces.removeprefix(SPACE)}]"
    return pc.utf8_trim_whitespace(pc.replace_substring_regex(texts, not_one_space, " "))


def fold_case(texts: pa.Array) -> pa.Array:
    """Fold each letter by its simple Unicode case: "É" is "é", "ß" is not "SS": (text,)."""
    return pc.utf8_lower(pc.utf8_upper(texts))


def remove_punctuation(texts: pa.Array, kind: Punctuation) -> pa.Array:
    """Remove the 32 ASCII marks and symbols, or all of Unicode's, unless nothing would be left of a text: (text,)."""
    if kind == "none":
        return texts
    return keep_where_blank(pc.replace_substring_regex(texts, PUNCTUATION[kind], ""), texts)


def remove_articles(texts: pa.Array) -> pa.Array:
    """Replace each separate English article with a space, unless nothing would be left of a text: (text,)."""
    if not pc.any(pc.match_substring_regex(texts, ARTICLE_LIKE)).as_py():
        return texts
    gap = gap_class(texts)
    bare = texts
    for _ in range(2):  # of two articles with one character between them, the first pass matches only the first
        bare = pc.replace_substring_regex(bare, rf"(?i)(\A|[{gap}])(?:an?|the)([{gap}]|\z)", r"\1 \2")
    return keep_where_blank(bare, texts)


def keep_where_blank(changed: pa.Array, texts: pa.Array) -> pa.Array:
    """Changed texts, but the original where the change leaves it blank, as "" would equal many texts: (text,)."""
    is_blank = pc.equal(pc.binary_length(pc.utf8_trim_whitespace(changed)), 0)
    return pc.if_else(is_blank, texts, changed) if pc.any(is_blank).as_py() else changed


def surround(texts: pa.Array, before: str, after: str) -> pa.Array:
    """Put a prefix and a suffix around each text: (text,), same type."""
    first, last, nothing = (pa.scalar(text, texts.type) for text in (before, after, ""))
    return pc.binary_join_element_wise(first, texts, last, nothing)
