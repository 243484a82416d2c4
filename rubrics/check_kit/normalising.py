"""Normalisation of texts for comparison: whitespace, case, articles, punctuation, accents."""

from functools import lru_cache
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.check_kit.regexes import gap_class

ARTICLE_LIKE = r"(?i)\b(?:an?|the)\b"

Punctuation = Literal["none", "ascii", "unicode"]
PUNCTUATION = {"ascii": r"[[:punct:]]+", "unicode": r"[\p{P}\p{S}]+"}


def split_whitespace(texts: pa.Array) -> pa.ListArray:
    """Words of each text, (text,) lists; a blank text has one empty word.

    Texts are trimmed first: if the last text of a buffer of 64, 128, ... bytes ends with whitespace, Arrow 26 reads
    beyond the buffer and splits by bytes outside of it.
    """
    return pc.utf8_split_whitespace(pc.utf8_trim_whitespace(texts))


def fold_whitespace(texts: pa.Array) -> pa.Array:
    """Replace each run of whitespace with one space and strip the ends: (text,)."""
    return pc.binary_join(split_whitespace(texts), pa.scalar(" ", texts.type))


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
    for _ in range(2):  # the first pass misses the second of two articles with one character between them
        bare = pc.replace_substring_regex(bare, rf"(?i)(\A|[{gap}])(?:an?|the)([{gap}]|\z)", r"\1 \2")
    return keep_where_blank(bare, texts)


def keep_where_blank(changed: pa.Array, texts: pa.Array) -> pa.Array:
    """Changed texts, but the original text if the change leaves it blank, as "" would equal many texts: (text,)."""
    is_blank = pc.equal(pc.binary_length(pc.utf8_trim_whitespace(changed)), 0)
    return pc.if_else(is_blank, texts, changed) if pc.any(is_blank).as_py() else changed


def surround(texts: pa.Array, before: str, after: str) -> pa.Array:
    """Put a prefix and a suffix around each text: (text,), same type."""
    first, last, nothing = (pa.scalar(text, texts.type) for text in (before, after, ""))
    return pc.binary_join_element_wise(first, texts, last, nothing)


Fold = Literal["none", "compatibility", "accents"]

# Marks that may be removed. Excluded are marks without which the word would be another word: marks that change the
# sound of a letter in scripts of South and South-East Asia, and the voicing marks of kana.
ACCENT = (
    r"[\x{300}-\x{34e}\x{350}-\x{36f}\x{1ab0}-\x{1aff}\x{1dc0}-\x{1dff}\x{20d0}-\x{20ff}\x{fe20}-\x{fe2f}"
    r"\x{591}-\x{5bd}\x{5bf}\x{5c1}\x{5c2}\x{5c4}\x{5c5}\x{5c7}"
    r"\x{610}-\x{61a}\x{64b}-\x{65f}\x{670}\x{6d6}-\x{6dc}\x{6df}-\x{6e4}\x{6e7}\x{6e8}\x{6ea}-\x{6ed}]"
)
LONG_TEXT = 10_000  # bytes; in a shorter text, sorting all marks takes a few milliseconds at most
MARK_RUN = r"([\p{M}\x{ff9e}\x{ff9f}]{30})"  # the half-width voicing marks become marks
# Characters that may combine with the one before: marks, vowels and finals of Hangul, and marks newer than RE2.
COMPOSED = r"[\p{M}\x{1161}-\x{1175}\x{11a8}-\x{11c2}\x{11380}-\x{113ff}\x{16100}-\x{1613f}\x{16d40}-\x{16d7f}]"
JOINER = "\u034f"  # the combining grapheme joiner, which is not an accent and stays in place


def fold_texts(texts: pa.Array, fold: Fold) -> pa.Array:
    """Fold texts. texts: (text,), string or large_string, null stays null.

    `compatibility` is NFKC. `accents` is NFKD without accents, then composed again, as NFKD also decomposes Korean
    syllables. A run of marks is cut after every 30, as in Unicode's stream-safe format (UAX 15, section 13): the kernel
    sorts a run in quadratic time.
    """
    if fold == "none" or not _is_beyond_ascii(texts):
        return texts
    if fold == "compatibility":
        return pc.utf8_normalize(_cut_mark_runs(texts), "NFKC")
    # removes existing accents first, so that no long run remains to sort
    bare = _cut_mark_runs(_without_accents(texts))
    return _compose(_without_accents(pc.utf8_normalize(bare, "NFKD")))


@lru_cache(maxsize=4096)
def fold_text(text: str, fold: Fold) -> str:
    """Fold one text as `fold_texts` does."""
    if fold == "none":
        return text
    folded: str = fold_texts(pa.array([text], pa.string()), fold)[0].as_py()
    return folded


def _is_beyond_ascii(texts: pa.Array) -> bool:
    """Whether any text has a character beyond ASCII, which folding could change."""
    return bool(pc.any(pc.greater(pc.binary_length(texts), pc.utf8_length(texts))).as_py())


def _without_accents(texts: pa.Array) -> pa.Array:
    return pc.replace_substring_regex(texts, ACCENT, "")


def _compose(decomposed: pa.Array) -> pa.Array:
    """Compose decomposed texts (NFC, which is slow). If all are long, search first: most have nothing to compose."""
    is_long = _are_long(decomposed)
    if pc.all(is_long).as_py() and not pc.any(pc.match_substring_regex(decomposed, COMPOSED)).as_py():
        return decomposed
    return pc.utf8_normalize(decomposed, "NFC")


def _are_long(texts: pa.Array) -> pa.BooleanArray:
    return pc.fill_null(pc.greater(pc.binary_length(texts), LONG_TEXT), False)


def _cut_mark_runs(texts: pa.Array) -> pa.Array:
    is_long = _are_long(texts)
    if not pc.any(is_long).as_py():
        return texts
    shortened = pc.replace_substring_regex(texts.filter(is_long), MARK_RUN, rf"\1{JOINER}")
    return pc.replace_with_mask(texts, is_long, shortened)
