"""Checks of words, phrases and patterns, and the search for whole words."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Annotated, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field, model_validator

from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import (
    EXCERPT_CHARACTERS,
    cut_text,
    cut_texts,
    evidence_where,
    join_texts,
    quote_words,
    text_column,
)
from gradebook.rubrics.check_kit.normalising import Fold, fold_case, fold_text, fold_texts
from gradebook.rubrics.check_kit.regexes import ASCII_GAP, WIDE_GAP, Regex, are_few, gap_class, is_all_ascii

Words = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=10_000)], ...], Field(min_length=1)]
# Words that become part of a larger pattern: with longer ones RE2 takes minutes if they nearly match at each place.
ShortWords = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=500)], ...], Field(min_length=1)]
# from this number on, all words are searched together first, as most outputs contain none of a long list
MANY_WORDS = 8
LONGEST_WITH_CASE = 1_000  # letters; with folded case, a longer word has too many states for RE2 and takes minutes
ANY_APOSTROPHE = "['\u2019\u02bc\uff07]"  # typed, typographic, the letter, full-width
APOSTROPHE = re.compile(ANY_APOSTROPHE)
BATCH_CHARACTERS = 2_000  # characters of the words in one pattern: RE2 refuses very large patterns


class KeywordSettings(CheckSettings):
    """Words, under exactly one of `any` and `all`.

    A word is any non-empty text, matched literally, not as a pattern. Without `case_sensitive`, letters match their
    simple Unicode case variants ("É" is "é", "ß" is not "SS"). With `whole_word`, the characters before and after it
    may not be a letter, a mark, a number or an underscore. `fold` removes differences in writing from the words and
    from the output. An apostrophe in a word with letters or numbers matches in any shape ("it's" is "it’s"); a separate
    one is matched literally.
    """

    any: Words | None = None
    """words of which one is enough"""
    all: Words | None = None
    """words that are required together"""
    case_sensitive: bool = False
    """whether "Refund" and "refund" differ"""
    whole_word: bool = False
    """a word inside a longer one does not count: "cat" is not in "concatenate\""""

    fold: Fold = "none"
    """differences in writing to ignore: `none` compares the characters as they are; `compatibility` reads full-width
    letters, ligatures and composed characters as the plain ones (NFKC: "ﬁ" is "fi"); `accents` also removes accents and
    the vowel points of Hebrew and Arabic ("café" is "cafe", "й" is "и")"""

    @model_validator(mode="after")
    def _one_list_of_words(self) -> Self:
        if (self.any is None) == (self.all is None):
            present = "neither any nor all" if self.any is None else "both any and all"
            raise ValueError(f"found {present}, expected exactly one of them")
        for word in self.words:
            if not fold_text(word, self.fold):
                raise ValueError(f"found {word!r} with fold: {self.fold}, expected a word of more than accents")
        return self

    @property
    def words(self) -> tuple[str, ...]:
        """Words of the given list."""
        return self.any or self.all or ()


@register_check(
    "contains",
    KeywordSettings,
    examples=(
        Example("Your Refund is on its way.", True, {"any": ["refund", "money back"]}),
        Example("Your refund is on its way.", False, {"all": ["refund", "money back"]}),
    ),
)
def contains(shard: pa.Table, settings: KeywordSettings) -> CheckVerdicts:
    """The words occur: at least one of `any`, or every one of `all`. The evidence names the words found or missing."""
    found_by_word = _find_words(shard, settings)
    if settings.all is not None:
        is_passed = reduce(pc.and_, found_by_word)
        return CheckVerdicts(
            is_passed, name_words("missing ", pc.invert(is_passed), settings.all, found_by_word, False)
        )
    is_passed = reduce(pc.or_, found_by_word)
    evidence = name_words("found ", is_passed, settings.words, found_by_word, True)
    return CheckVerdicts(is_passed, pc.fill_null(evidence, cut_text(f"found none of {quote_words(settings.words)}")))


@register_check(
    "not_contains",
    KeywordSettings,
    examples=(
        Example("We will look into it.", True, {"any": ["guarantee", "promise"]}),
        Example("We guarantee it.", False, {"any": ["guarantee", "promise"], "whole_word": True}),
    ),
)
def not_contains(shard: pa.Table, settings: KeywordSettings) -> CheckVerdicts:
    """The words do not occur: none of `any`, or not all of `all` together. The evidence names the words found."""
    found_by_word = _find_words(shard, settings)
    is_found = reduce(pc.or_ if settings.all is None else pc.and_, found_by_word)
    return CheckVerdicts(pc.invert(is_found), name_words("found ", is_found, settings.words, found_by_word, True))


def _find_words(shard: pa.Table, settings: KeywordSettings) -> list[pa.BooleanArray]:
    """Whether each word occurs: [word] of (output,)."""
    texts = fold_texts(text_column(shard, "output"), settings.fold)
    folded = [fold_text(word, settings.fold) for word in settings.words]
    is_ascii = all(map(str.isascii, folded)) and is_all_ascii(texts)
    if are_few(texts) and is_ascii:
        return _find_plainly(texts, folded, settings)
    is_long = not settings.case_sensitive and max(map(len, folded)) > LONGEST_WITH_CASE
    if is_long:
        texts, folded = fold_case(texts), fold_case(pa.array(folded, pa.string())).to_pylist()
    elif is_ascii and not settings.case_sensitive:  # several times as fast as a pattern that ignores case
        texts, folded = pc.ascii_lower(texts), [word.lower() for word in folded]
    words = [_quote(word, settings.case_sensitive or is_long or is_ascii) for word in folded]
    if len(words) < MANY_WORDS:
        return [_find_word(texts, word, settings, is_ascii) for word in words]
    is_likely = reduce(pc.or_, [pc.match_substring_regex(texts, batch) for batch in _batch_words(words)])
    likely, nowhere = texts.filter(is_likely), pa.repeat(False, len(texts))
    if not len(likely):
        return [nowhere] * len(words)
    found_by_word = _find_single(likely, folded, words, settings) if settings.whole_word and not is_long else {}
    for index, word in enumerate(words):
        if index not in found_by_word:
            found_by_word[index] = _find_word(likely, word, settings, is_ascii)
    return [pc.replace_with_mask(nowhere, is_likely, found_by_word[index]) for index in range(len(words))]


def _find_single(
    texts: pa.Array, words: Sequence[str], patterns: Sequence[str], settings: KeywordSettings
) -> dict[int, pa.BooleanArray]:
    """Whether a word occurs as a whole word, by its index, for words without a blank or sign in them: (text,) each."""
    indices = [index for index, is_single in enumerate(are_single(words)) if is_single]
    if not indices:
        return {}
    single, single_patterns = [words[index] for index in indices], [patterns[index] for index in indices]
    batches = list(_batch_words(single_patterns))
    return dict(
        zip(indices, find_single_words(texts, single, single_patterns, batches, settings.case_sensitive), strict=True)
    )


def _find_plainly(texts: pa.Array, words: list[str], settings: KeywordSettings) -> list[pa.BooleanArray]:
    """Find words in ASCII texts as `_find_words` does, without a pattern to compile for each word."""
    searched: list[str | None] = texts.to_pylist()
    if not settings.case_sensitive:
        searched = [text and text.lower() for text in searched]
        words = [word.lower() for word in words]
    has_word = has_whole_word if settings.whole_word else str.__contains__
    return [
        pa.array([None if text is None else has_word(text, word) for text in searched], pa.bool_()) for word in words
    ]


def _find_word(texts: pa.Array, word: str, settings: KeywordSettings, is_ascii: bool) -> pa.BooleanArray:
    """Whether the word, given as a pattern, occurs: (text,). is_ascii: whether all texts are ASCII."""
    is_found = pc.match_substring_regex(texts, word)
    matching = texts.filter(is_found) if settings.whole_word else texts.slice(0, 0)
    if not len(matching):
        return is_found
    gap = ASCII_GAP if is_ascii else gap_class(matching)
    is_whole = pc.match_substring_regex(matching, rf"(?:\A|[{gap}]){word}(?:[{gap}]|\z)")
    return pc.replace_with_mask(is_found, is_found, is_whole)


def _quote(word: str, case_sensitive: bool) -> str:
    literal = re.escape(word)
    if any(map(str.isalnum, APOSTROPHE.sub("", word))):
        literal = APOSTROPHE.sub(ANY_APOSTROPHE, literal)
    return f"(?:{literal})" if case_sensitive else f"(?i:{literal})"


def _batch_words(words: list[str]) -> Iterator[str]:
    """Yield patterns that match any of the words, in order, in batches of about `BATCH_CHARACTERS`."""
    batch: list[str] = []
    for word in words:
        if batch and sum(map(len, batch)) + len(word) > BATCH_CHARACTERS:
            yield "|".join(batch)
            batch = []
        batch.append(word)
    yield "|".join(batch)


def name_words(
    verb: str, mask: pa.BooleanArray, words: Sequence[str], finds: Sequence[pa.BooleanArray], is_wanted: bool
) -> pa.StringArray:
    """List the words found or missing where the mask is true.

    mask and each of finds: (output,). is_wanted: whether to list the words found.
    """
    if not pc.any(mask).as_py():
        return pa.nulls(len(mask), pa.string())
    names = [
        pc.if_else(pc.equal(is_found.filter(mask), is_wanted), cut_text(repr(word)), pa.scalar(None, pa.string()))
        for word, is_found in zip(words, finds, strict=True)
    ]
    names_text = pc.binary_join_element_wise(*names, ", ", null_handling="skip")
    return evidence_where(mask, join_texts(verb, names_text))


class AffixSettings(CheckSettings):
    """Texts of which one is required; `strip` ignores the output's whitespace on that side."""

    any: Words
    """the texts of which one is required"""
    case_sensitive: bool = True
    """whether "Sure" and "sure" differ"""
    strip: bool = True
    """ignore the output's whitespace on that side"""


class PrefixSettings(AffixSettings):
    """Settings of `starts_with`."""

    @model_validator(mode="after")
    def _prefix_can_match(self) -> Self:
        _refuse_hopeless(self, str.lstrip)
        return self


class SuffixSettings(AffixSettings):
    """Settings of `ends_with`."""

    @model_validator(mode="after")
    def _suffix_can_match(self) -> Self:
        _refuse_hopeless(self, str.rstrip)
        return self


def _refuse_hopeless(settings: AffixSettings, strip: Callable[[str], str]) -> None:
    """Refuse a text with whitespace at its edge, which a stripped output cannot match."""
    for text in settings.any:
        if settings.strip and strip(text) != text:
            raise ValueError(f"found {text!r} with strip: true, expected no whitespace at its edge, or strip: false")


@register_check(
    "starts_with",
    PrefixSettings,
    examples=(
        Example("  Dear Ada, your order is on its way.", True, {"any": ["Dear", "Hello"]}),
        Example("Sure! Here it is.", False, {"any": ["Dear", "Hello"]}),
    ),
)
def starts_with(shard: pa.Table, settings: PrefixSettings) -> CheckVerdicts:
    """The output starts with one of the texts, after any whitespace unless `strip` is false."""
    texts = text_column(shard, "output")
    texts = pc.utf8_ltrim_whitespace(texts) if settings.strip else texts
    is_passed = _match_any(pc.starts_with, texts, settings)
    excerpts = pc.utf8_slice_codeunits(texts.filter(pc.invert(is_passed)), 0, EXCERPT_CHARACTERS)
    return CheckVerdicts(is_passed, _quote_excerpts("starts with '", is_passed, excerpts))


@register_check(
    "ends_with",
    SuffixSettings,
    examples=(
        Example("Is there anything else?\n", True, {"any": ["?"]}),
        Example("Is there anything else? Bye", False, {"any": ["?"]}),
    ),
)
def ends_with(shard: pa.Table, settings: SuffixSettings) -> CheckVerdicts:
    """The output ends with one of the texts, before any whitespace unless `strip` is false."""
    texts = text_column(shard, "output")
    texts = pc.utf8_rtrim_whitespace(texts) if settings.strip else texts
    is_passed = _match_any(pc.ends_with, texts, settings)
    excerpts = pc.utf8_slice_codeunits(texts.filter(pc.invert(is_passed)), -EXCERPT_CHARACTERS, None)
    return CheckVerdicts(is_passed, _quote_excerpts("ends with '", is_passed, excerpts))


def _match_any(kernel: Callable[..., pa.BooleanArray], texts: pa.Array, settings: AffixSettings) -> pa.BooleanArray:
    ignore_case = not settings.case_sensitive
    return reduce(pc.or_, [kernel(texts, text, ignore_case=ignore_case) for text in settings.any])


def _quote_excerpts(verb: str, is_passed: pa.BooleanArray, excerpts: pa.Array) -> pa.StringArray:
    return evidence_where(pc.invert(is_passed), join_texts(verb, excerpts.cast(pa.string()), "'"))


class RegexSettings(CheckSettings):
    """Pattern in RE2's syntax; `is_negated` inverts the verdict."""

    pattern: Regex
    """a regular expression in RE2's syntax"""
    is_negated: bool = False
    """require that the pattern matches nowhere"""


@register_check(
    "matches_regex",
    RegexSettings,
    examples=(
        Example("Released in 2.1.0.", True, {"pattern": r"\d+\.\d+\.\d+"}),
        Example("Released in 2.1.", False, {"pattern": r"\d+\.\d+\.\d+"}),
        Example("Write to ada@example.org.", False, {"pattern": r"\S+@\S+", "is_negated": True}),
    ),
)
def matches_regex(shard: pa.Table, settings: RegexSettings) -> CheckVerdicts:
    """The pattern matches somewhere in the output, or with `is_negated` nowhere. The evidence is the first match.

    RE2's syntax and semantics: time is linear in the text, `.` does not match a line end without (?s), `^` and `$` are
    the start and the end of the text without (?m), `\\d`, `\\w`, `\\s` and `\\b` are ASCII. An empty match counts. A
    pattern whose counted repeats match more than 1,000 places, such as `(.{1,31}){1,31}` with 1,922, is refused.
    """
    texts = text_column(shard, "output")
    is_match = pc.match_substring_regex(texts, settings.pattern)
    excerpts = cut_texts(first_matches(texts.filter(is_match), settings.pattern), EXCERPT_CHARACTERS)
    evidence = evidence_where(is_match, join_texts("found '", excerpts, "'"))
    if settings.is_negated:
        return CheckVerdicts(pc.invert(is_match), evidence)
    return CheckVerdicts(is_match, pc.fill_null(evidence, "found no match"))


def first_matches(texts: pa.Array, pattern: str) -> pa.Array:
    """Leftmost match in each text. texts: (text,), each with a match. Returns (text,) of the same type."""
    if not len(texts):
        return texts
    sides = pc.split_pattern_regex(texts, pattern, max_splits=1)
    before, after = (pc.binary_length(pc.list_element(sides, side)).to_numpy() for side in (0, 1))
    return _slice_bytes(texts, before, pc.binary_length(texts).to_numpy() - after)


def _slice_bytes(texts: pa.Array, starts: np.ndarray, stops: np.ndarray) -> pa.Array:
    """Slice each text in bytes, without copying the content. All: (text,)."""
    _, edges, content = texts.buffers()
    width = np.int64 if pa.types.is_large_string(texts.type) else np.int32
    firsts = np.frombuffer(edges, width)[texts.offset : texts.offset + len(texts)]
    # Slices and the gaps between them alternate as rows of one array; every second row is a slice.
    turns = np.column_stack((firsts + starts, firsts + stops)).ravel().astype(width)
    both = pa.Array.from_buffers(texts.type, len(turns) - 1, [None, pa.py_buffer(turns), content])
    return both.take(pa.array(np.arange(0, len(both), 2)))


def has_whole_word(text: str, word: str) -> bool:
    """Whether the word occurs with no letter, number or underscore next to it."""
    start = text.find(word)
    while start >= 0:
        neighbours = text[start - 1 : start] + text[start + len(word) : start + len(word) + 1]
        if not any(character.isalnum() or character == "_" for character in neighbours):
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
    word_lists = pc.split_pattern_regex(texts, f"[{gap_class(texts)}]+")
    encoded = pc.list_flatten(word_lists).dictionary_encode()
    rows, codes = pc.list_parent_indices(word_lists).to_numpy(), encoded.indices.to_numpy()
    tokens = encoded.dictionary
    codes_by_word = _codes_of_words(tokens, words, patterns, batches, case_sensitive)
    is_wanted = np.zeros(len(tokens), np.bool_)
    is_wanted[[code for word_codes in codes_by_word for code in word_codes]] = True
    rows, codes = rows[is_wanted[codes]], codes[is_wanted[codes]]
    order = np.argsort(codes, kind="stable")
    edges = np.searchsorted(codes[order], np.arange(len(tokens) + 1))
    rows = rows[order]
    return [
        _mask([rows[edges[code] : edges[code + 1]] for code in word_codes], len(texts)) for word_codes in codes_by_word
    ]


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
    codes_by_word = []
    for word, pattern in zip(words, patterns, strict=True):
        word_codes = codes_by_key.get(word if case_sensitive else word.lower(), []) if word.isascii() else []
        if len(odd):
            is_word = pc.match_substring_regex(odd, rf"\A{pattern}\z").to_numpy(zero_copy_only=False)
            word_codes = [*word_codes, *odd_codes[is_word].tolist()]
        codes_by_word.append(word_codes)
    return codes_by_word


def _mask(rows: list[NDArray[np.int64]], count: int) -> pa.BooleanArray:
    mask = np.zeros(count, np.bool_)
    for word_rows in rows:
        mask[word_rows] = True
    return pa.array(mask)
