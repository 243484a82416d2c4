"""Instructions about length: sentences, paragraphs and words."""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from gradebook.rubrics.check_kit.bounds import Count
from gradebook.rubrics.check_kit.check import CheckSettings, Example
from gradebook.rubrics.check_kit.evidence import EXCERPT_CHARACTERS, cut_text
from gradebook.rubrics.check_kit.rows import RowFinding
from gradebook.rubrics.checks.ifeval.instruction import (
    FOLLOWED,
    Relation,
    judge_exact,
    judge_relation,
    register_instruction,
)
from gradebook.rubrics.checks.ifeval.sentences import count_sentences

DIVIDER = "***"
WORD = re.compile(r"\w+")
WORD_OR_SPACE = bytes(ord("w" if WORD.match(chr(point)) else " ") for point in range(128)).ljust(256)
WORD_END = re.compile(r"[.,?!'\"]")
Place = Annotated[int, Field(ge=1, strict=True)]


def _reachable_word(word: str) -> str:
    if not word or WORD_END.search(word) or len(word.split()) != 1 or word != word.strip():
        raise ValueError(f"found {word!r}, expected one word without whitespace, quotes and any of . , ? !")
    return word


class SentenceNumberSettings(CheckSettings):
    """Settings of `length_constraints:number_sentences`."""

    num_sentences: Count
    """bound on the number of sentences"""
    relation: Relation
    """whether the number has to be `less than` the bound or `at least` the bound"""


class ParagraphNumberSettings(CheckSettings):
    """Settings of `length_constraints:number_paragraphs`."""

    num_paragraphs: Count
    """exact number of paragraphs"""


class WordNumberSettings(CheckSettings):
    """Settings of `length_constraints:number_words`."""

    num_words: Count
    """bound on the number of words"""
    relation: Relation
    """whether the number has to be `less than` the bound or `at least` the bound"""


class FirstWordSettings(CheckSettings):
    """Settings of `length_constraints:nth_paragraph_first_word`."""

    num_paragraphs: Place
    """exact number of paragraphs"""
    nth_paragraph: Place
    """paragraph that has to start with the word, counted from 1"""
    first_word: Annotated[str, AfterValidator(_reachable_word)]
    """required first word, in any case"""

    @model_validator(mode="after")
    def _paragraph_exists(self) -> Self:
        if self.nth_paragraph > self.num_paragraphs:
            raise ValueError(f"found nth_paragraph {self.nth_paragraph}, expected at most {self.num_paragraphs}")
        return self


@register_instruction(
    "length_constraints:number_sentences",
    SentenceNumberSettings,
    Example("Dr. Lee paid 3.50 euros. Why?", True, {"num_sentences": 2, "relation": "at least"}),
    Example("Dr. Lee paid 3.50 euros. Why?", False, {"num_sentences": 2, "relation": "less than"}),
)
def number_sentences(text: str, settings: SentenceNumberSettings) -> RowFinding:
    """The output has less than `num_sentences` sentences, or at least that many.

    A sentence ends with . ! or ? before whitespace or a closing mark. A period does not end one after an abbreviation,
    an initial or an ellipsis, unless a word such as "The" or "However" follows, nor after a number before a lower-case
    letter. A line end does not end one. IFEval counts with NLTK's Punkt model for English; these rules approximate it,
    and differ in the abbreviations and first words that they know. A text in a script without these marks is one
    sentence.
    """
    count = count_sentences(text)
    return judge_relation(count, settings.relation, settings.num_sentences, "sentence", "sentences")


@register_instruction(
    "length_constraints:number_paragraphs",
    ParagraphNumberSettings,
    Example("One.\n***\nTwo.", True, {"num_paragraphs": 2}),
    Example("One.\n\nTwo.", False, {"num_paragraphs": 2}),
    Example("One.\n***\n***\nTwo.", False, {"num_paragraphs": 2}),
)
def number_paragraphs(text: str, settings: ParagraphNumberSettings) -> RowFinding:
    """The output has exactly `num_paragraphs` paragraphs, separated by three asterisks.

    Blank lines do not separate paragraphs. A blank paragraph at the start or the end is ignored; a blank one between
    two dividers makes the output fail, and so do six asterisks in a row.
    """
    paragraphs = text.split(DIVIDER)
    is_filled = [bool(paragraph) and not paragraph.isspace() for paragraph in paragraphs]
    if not all(is_filled[1:-1]):
        return RowFinding(False, f"paragraph {is_filled.index(False, 1) + 1} of {len(paragraphs)} is blank")
    return judge_exact(sum(is_filled), settings.num_paragraphs, "paragraph", "paragraphs")


@register_instruction(
    "length_constraints:number_words",
    WordNumberSettings,
    Example("A well-known fact.", True, {"num_words": 4, "relation": "at least"}),
    Example("A well-known fact.", False, {"num_words": 4, "relation": "less than"}),
)
def number_words(text: str, settings: WordNumberSettings) -> RowFinding:
    """The output has less than `num_words` words, or at least that many.

    A word is a run of letters, numbers and underscores (Python's `\\\\w+`): "well-known" and "don't" are two, a text in
    Chinese is one up to the next mark, and a combining mark, as in Thai or Hindi, ends a word.
    """
    return judge_relation(_count_words(text), settings.relation, settings.num_words, "word", "words")


def _count_words(text: str) -> int:
    if not text.isascii():
        return len(WORD.findall(text))
    kinds = (" " + text).encode("ascii").translate(WORD_OR_SPACE)
    return kinds.count(b" w")


@register_instruction(
    "length_constraints:nth_paragraph_first_word",
    FirstWordSettings,
    Example("One.\n\nThe second.", True, {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "the"}),
    Example("One.\n\nA second.", False, {"num_paragraphs": 2, "nth_paragraph": 2, "first_word": "the"}),
    Example("The only one.", False, {"num_paragraphs": 2, "nth_paragraph": 1, "first_word": "the"}),
)
def nth_paragraph_first_word(text: str, settings: FirstWordSettings) -> RowFinding:
    """The output has exactly `num_paragraphs` paragraphs, and the `nth_paragraph` starts with `first_word`.

    The case of the word is ignored. Paragraphs are separated by two line ends (LF). Blank ones do not count for
    `num_paragraphs`, but do for `nth_paragraph`, as in IFEval. Quotes before the word are ignored, and it ends at
    whitespace or one of . , ? ! ' ".
    """
    paragraphs = text.split("\n\n")
    count = sum(1 for paragraph in paragraphs if paragraph and not paragraph.isspace())
    if count != settings.num_paragraphs:
        return judge_exact(count, settings.num_paragraphs, "paragraph", "paragraphs")
    word = _first_word(paragraphs[settings.nth_paragraph - 1])
    if word == settings.first_word.lower():
        return FOLLOWED
    shown = cut_text(word, EXCERPT_CHARACTERS)
    return RowFinding(False, f"paragraph {settings.nth_paragraph} starts with {shown!r}, not {settings.first_word!r}")


def _first_word(paragraph: str) -> str:
    words = paragraph.split(maxsplit=1)
    return WORD_END.split(words[0].lstrip("'").lstrip('"'), maxsplit=1)[0].lower() if words else ""
