"""Search for keywords, which are patterns in IFEval, in any case.

Most are plain words, for which Python's own search is fastest; the others are patterns for RE2. Both take linear time.
Letters match their lower case: "\u00c9" is "\u00e9", "\u00df" is not "SS".
"""

import re
from collections.abc import Sequence
from typing import Annotated

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import AfterValidator, Field

from gradebook.rubrics.check_kit.regexes import Regex
from gradebook.rubrics.checks.keywords.whole_words import has_whole_word

SPECIAL = re.compile(r"[\\.^$*+?{}\[\]|()]")
ASCII_WORD = "0-9A-Za-z_"
ANY_WORD = r"\p{L}\p{N}_"  # slow to compile


def _not_empty(pattern: str) -> str:
    if pc.match_substring_regex(pa.array([""]), pattern)[0].as_py():
        raise ValueError(f"found {pattern!r}, which the empty text matches, expected a pattern of some characters")
    return pattern


# Long enough for any word, and short enough to be compared at each place of a text.
Keyword = Annotated[Regex, Field(max_length=200), AfterValidator(_not_empty)]
StrippedKeyword = Annotated[Keyword, AfterValidator(str.strip), AfterValidator(_not_empty)]


def find_keywords(texts: list[str], keywords: Sequence[str]) -> list[list[bool]]:
    """Whether each text has the keyword, in any case: [keyword] of [text]."""
    lowered = [text.lower() for text in texts]
    return [
        [*_matches(pa.array(texts, pa.string()), keyword).to_pylist()]
        if SPECIAL.search(keyword)
        else [keyword.lower() in text for text in lowered]
        for keyword in keywords
    ]


def count_keyword(texts: list[str], keyword: str) -> list[int]:
    """Number of occurrences in each text, in any case and without overlaps."""
    if SPECIAL.search(keyword):
        return [*pc.count_substring_regex(pa.array(texts, pa.string()), keyword, ignore_case=True).to_pylist()]
    word = keyword.lower()
    return [text.lower().count(word) for text in texts]


def find_words(texts: list[str], keywords: Sequence[str]) -> list[list[bool]]:
    """Find keywords as `find_keywords` does, but not next to a letter, number or underscore."""
    lowered = [text.lower() for text in texts]
    return [
        [*_find_alone(pa.array(texts, pa.string()), keyword).to_pylist()]
        if SPECIAL.search(keyword)
        else [has_whole_word(text, keyword.lower()) for text in lowered]
        for keyword in keywords
    ]


def _find_alone(texts: pa.Array, keyword: str) -> pa.BooleanArray:
    is_found = _matches(texts, _alone(keyword, ASCII_WORD))
    # In a text with other letters, such as "\u00e9", one of them may be next to the word.
    is_doubtful = pc.and_not(is_found, pc.string_is_ascii(texts))
    if not is_doubtful.true_count:
        return is_found
    return pc.replace_with_mask(is_found, is_doubtful, _matches(texts.filter(is_doubtful), _alone(keyword, ANY_WORD)))


def _alone(keyword: str, word_characters: str) -> str:
    return rf"(?:\A|[^{word_characters}])(?:{keyword})(?:\z|[^{word_characters}])"


def _matches(texts: pa.Array, pattern: str) -> pa.BooleanArray:
    return pc.match_substring_regex(texts, pattern, ignore_case=True)
