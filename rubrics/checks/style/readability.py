"""Reading level of a text, by formulas over its words, sentences, letters and syllables."""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import Annotated, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import Mask, evidence_where, text_column
from gradebook.rubrics.check_kit.measures import MeasureSettings, judge_measures
from gradebook.rubrics.checks.style.phrases import UNSPACED, Numbers, WordColumn, split_words, text_blocks
from gradebook.rubrics.statistics.arrays import Floats

Formula = Literal["flesch_kincaid", "flesch_ease", "coleman_liau", "ari", "gunning_fog"]

COMPLEX_SYLLABLES = 3
LINE_END = "\ue000"  # a private character: a word of its own that represents a line end
LEAST_SHARE = 0.5  # least share of words in a script that the formula supports
MOST_DIFFERENT = 50_000  # distinct words of a text: each is parsed once
MOST_LETTERS = 40  # letters of a possible English word

MARKS = ".!?…。！？।؟۔"  # noqa: RUF001
CLOSERS = "\"'”’»)]}*_`"
OPENERS = "\"'“‘([*_"  # noqa: RUF001
ABBREVIATION = re.compile(r"(?:mr|mrs|ms|dr|prof|st|vs|no|fig|cf|approx|[a-z]|(?:[a-z]\.)+[a-z])\.")
NUMBERED = re.compile(r"[0-9]{1,3}[.)]")
UNSPACED_LETTER = re.compile(UNSPACED)
ENGLISH = re.compile(r"[a-z]+(?:['’][a-z]+)?")
VOWELS = re.compile("[aeiouy]+")
SILENT_END = re.compile(
    r"[aeiouy].*(?:[^aeiouylr]e|[aeiouylr][lr]e[ds]?|[^aeiouytdlr]ed|[^aeiouysxzcghlr]es|[^cs]hes)\Z|[aeiouy][lr]e[ds]?\Z"
)
APART = re.compile(
    r"[^ctgsh]ia|[^aeiouytscgxlnh]io|^lion|iu|uou|iet|scien|(?:[ld]|[^f]r)ien|[^pgm]eo|^geo[^r]|[^gq]ua|[^gq]ui[dn]"
    r"|[aeiouy]ing|creati|create|oe[mt]|[dr]eas?\Z|[ds]n['’]t\Z"
)


# Properties of a word as bits of one number, so that a column of words is an array.
IS_WORD, IS_ENGLISH, IS_COMPLEX, IS_UNSPACED, ENDS_SENTENCE, STARTS_SMALL, IS_NUMBERED, IS_LINE_END = (
    1 << bit for bit in range(8)
)
SYLLABLES_SHIFT, LETTERS_SHIFT = 8, 24


class Counts(NamedTuple):
    """Counts of each text. All: (text,)."""

    words: Floats
    sentences: Floats
    letters: Floats
    syllables: Floats
    complex_words: Floats
    english_words: Floats
    unspaced_words: Floats
    is_crowded: Mask  # whether there are too many distinct words, so that nothing is counted


FORMULAS: Mapping[Formula, Callable[[Counts], Floats]] = MappingProxyType(
    {
        "flesch_kincaid": lambda of: 0.39 * of.words / of.sentences + 11.8 * of.syllables / of.words - 15.59,
        "flesch_ease": lambda of: 206.835 - 1.015 * of.words / of.sentences - 84.6 * of.syllables / of.words,
        "coleman_liau": lambda of: (5.88 * of.letters - 29.6 * of.sentences) / of.words - 15.8,
        "ari": lambda of: 4.71 * of.letters / of.words + 0.5 * of.words / of.sentences - 21.43,
        "gunning_fog": lambda of: 0.4 * (of.words / of.sentences + 100 * of.complex_words / of.words),
    }
)
NAMES: Mapping[Formula, str] = MappingProxyType(
    {
        "flesch_kincaid": "Flesch-Kincaid grade",
        "flesch_ease": "Flesch reading ease",
        "coleman_liau": "Coleman-Liau index",
        "ari": "automated readability index",
        "gunning_fog": "Gunning fog index",
    }
)
BY_LETTERS = ("coleman_liau", "ari")


class ReadingLevelSettings(MeasureSettings):
    """Formula, and bounds on its value."""

    formula: Formula = "flesch_kincaid"
    """`flesch_kincaid`, `coleman_liau`, `ari` (school grades: higher is harder), `gunning_fog` (years of school), or
    `flesch_ease` (100 is very easy, 0 very hard)"""
    min_words: Annotated[int, Field(ge=1, strict=True)] = 1
    """minimum number of words to decide"""


@register_check(
    "reading_level",
    ReadingLevelSettings,
    cost="rows",
    examples=(
        Example("The cat sat on the mat. It was warm.", True, {"max": 5}),
        Example("Organizational responsibilities necessitate considerable deliberation.", False, {"max": 12}),
        Example("The cat sat on the mat.", True, {"formula": "flesch_ease", "min": 90}),
        Example("Die Katze.", None, {"formula": "ari", "max": 5, "min_words": 5}),
        Example("猫坐在垫子上。", None, {"max": 5}),
    ),
)
def reading_level(shard: pa.Table, settings: ReadingLevelSettings) -> CheckVerdicts:
    """The reading level by the formula lies within the bounds, or reaches the criterion's level.

    Formulas, with W words, S sentences, L letters and digits, Y syllables, and C words of three syllables or more:

    - `flesch_kincaid`: 0.39 W/S + 11.8 Y/W - 15.59 (Kincaid et al. 1975)
    - `flesch_ease`: 206.835 - 1.015 W/S - 84.6 Y/W (Flesch 1948)
    - `coleman_liau`: 5.88 L/W - 29.6 S/W - 15.8 (Coleman and Liau 1975)
    - `ari`: 4.71 L/W + 0.5 W/S - 21.43 (Smith and Senter 1967)
    - `gunning_fog`: 0.4 (W/S + 100 C/W) (Gunning 1952; any ending or capital of a long word)

    A word is text between whitespace with a letter or a digit in it, so "well-known" is one; a number at the start of a
    line ("1.") is not. A sentence ends at . ! ? … and similar marks after a word, not at "Dr.", "e.g." or an initial;
    and at a line end, unless the next line continues with a small letter. Code and tables are read as text.

    Syllables are a heuristic for English: groups of vowels, without a silent ending ("make", "walked"), and with
    separately spoken vowels ("radio", "science"); a number or a word without a vowel has one.

    Some words are off by one ("every", "business"). An output is unscored without a word or with more than 50,000
    different ones; for the formulas with syllables also if half of the words or more are not plain English letters (a
    to z), and for `coleman_liau` and `ari` if half or more are in a script without spaces.
    """
    counts = _count_all(text_column(shard, "output"))
    few = counts.words < settings.min_words
    share = counts.words - counts.unspaced_words if settings.formula in BY_LETTERS else counts.english_words
    foreign = ~few & (share <= LEAST_SHARE * counts.words)
    with np.errstate(divide="ignore", invalid="ignore"):
        values = FORMULAS[settings.formula](counts)
    reasons = None
    if few.any() or foreign.any():
        reasons = pc.coalesce(
            evidence_where(pa.array(counts.is_crowded), f"too many different words: more than {MOST_DIFFERENT}"),
            evidence_where(pa.array(few), f"too few words: expected at least {settings.min_words}"),
            evidence_where(pa.array(foreign), _foreign_reason(settings.formula)),
        )
    return judge_measures(pa.array(values, mask=few | foreign), settings, NAMES[settings.formula], reasons)


def _foreign_reason(formula: Formula) -> str:
    if formula in BY_LETTERS:
        return "half of the words or more are in a script without spaces"
    return "half of the words or more are not plain English letters"


def _count_all(texts: pa.Array) -> Counts:
    blocks = [_count(block) for block in text_blocks(texts)]
    return Counts(*(np.concatenate(columns) for columns in zip(*blocks, strict=True))) if blocks else _count(texts)


def _count(texts: pa.Array) -> Counts:
    column = split_words(pc.replace_substring(texts, "\n", f" {LINE_END} "))
    is_crowded = _are_crowded(column, len(texts))
    if is_crowded.any():
        column = _without_rows(column, is_crowded)
    packed = np.fromiter(map(_word, column.vocabulary.to_pylist()), np.int64, len(column.vocabulary))[column.ids]
    is_line_end = _has(packed, IS_LINE_END)
    starts_line = np.ones(len(packed), np.bool_)
    starts_line[1:] = (np.diff(column.rows) > 0) | is_line_end[:-1]
    is_word = _has(packed, IS_WORD) & ~(_has(packed, IS_NUMBERED) & starts_line)
    continues = np.append(_has(packed, STARTS_SMALL)[1:], False)[: len(packed)]
    ends = (_has(packed, ENDS_SENTENCE) & is_word) | (is_line_end & ~continues)

    def total(values: Numbers | Mask) -> Floats:
        return np.bincount(column.rows, values * is_word, len(texts)).astype(np.float64)

    return Counts(
        words=total(is_word),
        sentences=_count_sentences(column.rows, is_word, ends, len(texts)),
        letters=total(packed >> LETTERS_SHIFT),
        syllables=total((packed >> SYLLABLES_SHIFT) & 0xFFFF),
        complex_words=total(_has(packed, IS_COMPLEX)),
        english_words=total(_has(packed, IS_ENGLISH)),
        unspaced_words=total(_has(packed, IS_UNSPACED)),
        is_crowded=is_crowded,
    )


def _are_crowded(column: WordColumn, row_count: int) -> Mask:
    """Whether a text has too many distinct words: (text,)."""
    size = len(column.vocabulary)
    if size <= MOST_DIFFERENT:
        return np.zeros(row_count, np.bool_)
    owners = np.unique(column.rows * size + column.ids) // size
    is_crowded: Mask = np.bincount(owners, minlength=row_count) > MOST_DIFFERENT
    return is_crowded


def _without_rows(column: WordColumn, is_dropped: Mask) -> WordColumn:
    """Drop the words of some texts, and remove unused words from the vocabulary. is_dropped: (text,)."""
    is_kept = ~is_dropped[column.rows]
    used, ids = np.unique(column.ids[is_kept], return_inverse=True)
    return WordColumn(ids, column.rows[is_kept], column.vocabulary.take(pa.array(used)))


def _has(packed: Numbers, flag: int) -> Mask:
    is_set: Mask = (packed & flag) != 0
    return is_set


def _count_sentences(rows: Numbers, is_word: Mask, ends: Mask, row_count: int) -> Floats:
    """Number of sentences with a word in them. rows, is_word, ends: (word,). Returns (text,)."""
    number: Numbers = (np.cumsum(ends) - ends)[is_word]
    rows = rows[is_word]
    is_first = np.ones(len(rows), np.bool_)
    is_first[1:] = (np.diff(number) > 0) | (np.diff(rows) > 0)
    return np.bincount(rows[is_first], minlength=row_count).astype(np.float64)


def _word(text: str) -> int:
    return _cached_word(text) if len(text) <= MOST_LETTERS else _read_word(text)


@lru_cache(maxsize=1 << 16)
def _cached_word(text: str) -> int:
    return _read_word(text)


def _read_word(text: str) -> int:
    """Flags, syllables and letters of a word, packed into one number."""
    if text.isalpha() and text.isascii() and len(text) <= MOST_LETTERS:  # true for most words
        syllables = _count_syllables(text.lower())
        flags = IS_WORD | IS_ENGLISH | STARTS_SMALL * text[0].islower() | IS_COMPLEX * (syllables >= COMPLEX_SYLLABLES)
        return flags | syllables << SYLLABLES_SHIFT | len(text) << LETTERS_SHIFT
    return _read_odd_word(text)


def _read_odd_word(text: str) -> int:
    """Parse a word, as `_read_word` does, with characters other than a to z."""
    letters = len(text) if text.isalnum() else sum(map(str.isalnum, text))
    if not letters:
        return IS_LINE_END * (text == LINE_END)
    lowered = text.lower()
    flags = IS_WORD | STARTS_SMALL * text[0].islower() | IS_NUMBERED * (NUMBERED.fullmatch(text) is not None)
    if text.rstrip(CLOSERS)[-1] in MARKS and not ABBREVIATION.fullmatch(lowered.lstrip(OPENERS)):
        flags |= ENDS_SENTENCE
    pieces = ENGLISH.findall(lowered) if len(text) <= MOST_LETTERS else []
    syllables = [_count_syllables(piece) for piece in pieces] or [1]
    if sum(map(len, pieces)) >= letters:
        flags |= IS_ENGLISH | IS_COMPLEX * (max(syllables) >= COMPLEX_SYLLABLES)
    elif UNSPACED_LETTER.search(text):
        flags |= IS_UNSPACED
    return flags | sum(syllables) << SYLLABLES_SHIFT | letters << LETTERS_SHIFT


def _count_syllables(word: str) -> int:
    """Count the groups of vowels; at least one. word: small letters, optionally an apostrophe with letters after it."""
    groups = VOWELS.findall(word)
    count = len(groups)
    if len(max(groups, key=len, default="")) > 1 or not word.isalpha():
        count += len(APART.findall(word))
    if "e" in word[-3:] and SILENT_END.search(word):
        count -= 1
    return max(count, 1)
