"""Checks of required and forbidden words."""

import re
from collections.abc import Iterator, Sequence
from functools import reduce
from typing import Annotated, Self

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field, model_validator

from gradebook.rubrics.check_kit.character_classes import ASCII_GAP, gap_class, is_all_ascii
from gradebook.rubrics.check_kit.check import CheckSettings, CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.evidence import cut_text, evidence_where, join_texts, quote_words
from gradebook.rubrics.check_kit.folding import Fold, fold_text, fold_texts
from gradebook.rubrics.check_kit.matching import are_few
from gradebook.rubrics.check_kit.normalising import fold_case
from gradebook.rubrics.checks.keywords.whole_words import are_single, find_single_words, has_whole_word

Words = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=10_000)], ...], Field(min_length=1)]
# Words that become part of a larger pattern: with longer ones RE2 takes minutes if they nearly match at each place.
ShortWords = Annotated[tuple[Annotated[str, Field(min_length=1, max_length=500)], ...], Field(min_length=1)]
# from this number on, all words are searched together first, as most outputs contain none of a long list
MANY_WORDS = 8
LONGEST_WITH_CASE = 1_000  # letters; with folded case, a longer word has too many states for RE2 and takes minutes
ANY_APOSTROPHE = "['\u2019\u02bc\uff07]"  # typed, typographic, the letter, full-width
APOSTROPHE = re.compile(ANY_APOSTROPHE)
BATCH_CHARACTERS = 2_000  # of the words in one pattern: RE2 refuses very large ones


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
            found = "neither any nor all" if self.any is None else "both any and all"
            raise ValueError(f"found {found}, expected exactly one of them")
        for word in self.words:
            if not fold_text(word, self.fold):
                raise ValueError(f"found {word!r} with fold: {self.fold}, expected a word of more than accents")
        return self

    @property
    def words(self) -> tuple[str, ...]:
        """Words of whichever list is given."""
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
    finds = _find_words(shard, settings)
    if settings.all is not None:
        is_passed = reduce(pc.and_, finds)
        return CheckVerdicts(is_passed, name_words("missing ", pc.invert(is_passed), settings.all, finds, False))
    is_passed = reduce(pc.or_, finds)
    found = name_words("found ", is_passed, settings.words, finds, True)
    return CheckVerdicts(is_passed, pc.fill_null(found, cut_text(f"found none of {quote_words(settings.words)}")))


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
    finds = _find_words(shard, settings)
    is_found = reduce(pc.or_ if settings.all is None else pc.and_, finds)
    return CheckVerdicts(pc.invert(is_found), name_words("found ", is_found, settings.words, finds, True))


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
    finds = _find_single(likely, folded, words, settings) if settings.whole_word and not is_long else {}
    for place, word in enumerate(words):
        if place not in finds:
            finds[place] = _find_word(likely, word, settings, is_ascii)
    return [pc.replace_with_mask(nowhere, is_likely, finds[place]) for place in range(len(words))]


def _find_single(
    texts: pa.Array, words: Sequence[str], patterns: Sequence[str], settings: KeywordSettings
) -> dict[int, pa.BooleanArray]:
    """Whether a word occurs as a whole word, by its index, for words without a blank or sign in them: (text,) each."""
    places = [place for place, is_single in enumerate(are_single(words)) if is_single]
    if not places:
        return {}
    single, of_single = [words[place] for place in places], [patterns[place] for place in places]
    batches = list(_batch_words(of_single))
    return dict(zip(places, find_single_words(texts, single, of_single, batches, settings.case_sensitive), strict=True))


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
    found = texts.filter(is_found) if settings.whole_word else texts.slice(0, 0)
    if not len(found):
        return is_found
    gap = ASCII_GAP if is_ascii else gap_class(found)
    is_whole = pc.match_substring_regex(found, rf"(?:\A|[{gap}]){word}(?:[{gap}]|\z)")
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
    listed = pc.binary_join_element_wise(*names, ", ", null_handling="skip")
    return evidence_where(mask, join_texts(verb, listed))
