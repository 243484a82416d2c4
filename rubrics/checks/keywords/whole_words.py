"""Search for whole words: one in a text, or many in many texts at once."""

from collections import defaultdict
from collections.abc import Sequence
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gradebook.rubrics.check_kit.character_classes import WIDE_GAP, gap_class


def has_whole_word(text: str, word: str) -> bool:
    """Whether the word occurs with no letter, number or underscore next to it."""
    start = text.find(word)
    while start >= 0:
        around = text[start - 1 : start] + text[start + len(word) : start + len(word) + 1]
        if not any(character.isalnum() or character == "_" for character in around):
            return True
        start = text.find(word, start + 1)
    return False


def are_single(words: Sequence[str]) -> list[bool]:
    """Whether each word consists of letters, marks, numbers and underscores only."""
    is_broken = pc.match_substring_regex(pa.array(words, pa.string()), f"[{WIDE_GAP}]")
    return [not broken for broken in is_broken.to_pylist()]


def find_single_words(
    texts: pa.Array, words: Sequence[str], patterns: Sequence[str], batches: Sequence[str], case_sensitive: bool
) -> list[pa.BooleanArray]:
    """Find the texts in which each word occurs with no letter, mark, number or underscore next to it.

    The texts are split into words once, and each distinct word is compared once: a search per word would read a long
    text as often as there are words. texts: (text,), no nulls. words: `are_single`. patterns: the words in RE2's
    syntax. batches: patterns that match if one of the words does. Returns [word] of (text,).
    """
    parts = pc.split_pattern_regex(texts, f"[{gap_class(texts)}]+")
    encoded = pc.list_flatten(parts).dictionary_encode()
    rows, codes = pc.list_parent_indices(parts).to_numpy(), encoded.indices.to_numpy()
    tokens = encoded.dictionary
    wanted = _codes_of_words(tokens, words, patterns, batches, case_sensitive)
    is_wanted = np.zeros(len(tokens), np.bool_)
    is_wanted[[code for of_word in wanted for code in of_word]] = True
    rows, codes = rows[is_wanted[codes]], codes[is_wanted[codes]]
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(len(tokens) + 1))
    rows = rows[order]
    return [_mask([rows[edges[code] : edges[code + 1]] for code in of_word], len(texts)) for of_word in wanted]


def _codes_of_words(
    tokens: pa.Array, words: Sequence[str], patterns: Sequence[str], batches: Sequence[str], case_sensitive: bool
) -> list[list[int]]:
    """Indices of each word among the tokens: [word] of [index]."""
    is_plain = pc.string_is_ascii(tokens)
    plain_codes = pc.indices_nonzero(is_plain).to_pylist()
    plain = tokens.filter(is_plain)
    codes_by_key = defaultdict(list)
    for code, key in zip(plain_codes, (plain if case_sensitive else pc.ascii_lower(plain)).to_pylist(), strict=True):
        codes_by_key[key].append(code)
    # Only RE2 knows which letters beyond ASCII are case variants: "K", the kelvin sign, is "k".
    is_odd = pc.invert(is_plain) if all(map(str.isascii, words)) else pa.repeat(True, len(tokens))
    is_odd = pc.and_(
        is_odd, reduce(pc.or_, [pc.match_substring_regex(tokens, rf"\A(?:{batch})\z") for batch in batches])
    )
    odd_codes, odd = pc.indices_nonzero(is_odd).to_numpy(), tokens.filter(is_odd)
    found = []
    for word, pattern in zip(words, patterns, strict=True):
        of_word = codes_by_key.get(word if case_sensitive else word.lower(), []) if word.isascii() else []
        if len(odd):
            is_word = pc.match_substring_regex(odd, rf"\A{pattern}\z").to_numpy(zero_copy_only=False)
            of_word = [*of_word, *odd_codes[is_word].tolist()]
        found.append(of_word)
    return found


def _mask(rows: list[NDArray[np.int64]], count: int) -> pa.BooleanArray:
    mask = np.zeros(count, np.bool_)
    for some in rows:
        mask[some] = True
    return pa.array(mask)
