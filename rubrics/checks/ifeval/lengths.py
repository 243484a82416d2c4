"""Instructions about length: sentences, paragraphs and words."""

import re
from typing import Annotated, Self

from pydantic import AfterValidator, Field, model_validator

from gradebook.rubrics.check_kit.check import CheckSettings, Example, RowFinding
from gradebook.rubrics.check_kit.columns import EXCERPT_CHARACTERS, cut_text
from gradebook.rubrics.check_kit.measures import Count
from gradebook.rubrics.checks.ifeval.instruction import (
    FOLLOWED,
    Relation,
    judge_exact,
    judge_relation,
    register_instruction,
)

_ABBREVIATIONS = """
    a.d a.m adm al approx apr apt assn ave b.a b.c b.s bldg blvd bros ca calif capt cf cie cmdr co col comdr conn
    corp cos cpl ct d.c dec dept dr e.g e.u ed eds est etc feb fig figs fla fri ft ga gen gov hon hr hrs i.e ill inc
    jan jr jul jun kan ky l.a lb lbs lt ltd m.a m.b.a m.d maj mass messrs mich min minn mon mr mrs ms msgr mt n.c
    n.j n.v n.y nov oct okla op ore p.a p.m pa ph.d pp prof pt pvt r.n rd rep reps ret rev s.a s.c sen sens sep sept
    sgt sr st tel tenn thur thurs tue tues u.k u.n u.s u.s.a u.s.s.r v va vol vols vs w.va wash yr yrs
"""
_STARTERS = """
    a after all also although an and another any are as at because before both but by can could did do does each
    every finally first for from had has have he her here his how however i if in instead is it its just let many
    may maybe might more moreover most my next no not now of on once one or other our perhaps please second several
    she should similarly since so some such that the their then there therefore these they third this those though
    thus to today under until was we were what when where which while who why will with without would yes yet you
    your
"""
ABBREVIATIONS = frozenset(_ABBREVIATIONS.split())
STARTERS = frozenset(_STARTERS.split())
CURLY_QUOTES = "\u2018\u2019\u201c\u201d\u00ab\u00bb"
# Marks that are never part of a word: an end mark right before one may end the sentence, as in "(Stop!)" and "**Stop.**
# Go".
MARKS = rf""")";}}\]*:@'({{\[?!{CURLY_QUOTES}"""
EDGE = re.compile(rf"[\s{MARKS}]")
END_BEFORE_MARK = re.compile(rf"[.?!](?=[{MARKS}])")
LOUD_BEFORE_MARK = re.compile(rf"[?!](?=[{MARKS}])")
ENDING = re.compile(r"[.?!]\S*(?=(?:\s+(\S{1,16}))?)")  # the rest of a word, and the word after it
LONE_AT_START = "&#-,`"  # further marks that never start a word
CLOSING = "\"')]}" + CURLY_QUOTES
PUNCTUATION = ";:,.!?"
NUMBER = re.compile(r"-?[.,]?[0-9][0-9,.-]*\Z")
LONGEST_TOKEN = 16  # longer tokens are neither abbreviations nor in `STARTERS`


def count_sentences(text: str) -> int:
    """Count the sentences of a text: one if it has no end mark, as in a title, none if it is blank."""
    sentence_count, is_open = 0, bool(text) and not text.isspace()
    for match in ENDING.finditer(text):
        ending, next_word = match[0], match[1] or ""
        end = len(ending) if next_word and ending[-1] in ".?!" else _last_end(ending)
        if not end:
            continue
        before = text[max(0, match.start() - LONGEST_TOKEN) : match.start()]
        if _is_break(before, ending[:end], ending[end : end + 1] or next_word):
            sentence_count += 1
            is_open = bool(next_word or ending[end:].strip(CLOSING))
    return sentence_count + is_open


def _last_end(ending: str) -> int:
    """End of the last . ? or ! before another mark, where a sentence may end; 0 for none."""
    return max((match.end() for match in END_BEFORE_MARK.finditer(ending)), default=0)


def _is_break(before: str, ending: str, following: str) -> bool:
    """Whether a sentence ends here.

    before: text before the word's first . ? or !. ending: from there to the mark in question. following: the mark or
    word after that.
    """
    if ending[-1] != "." or (len(ending) > 1 and LOUD_BEFORE_MARK.search(ending)):
        return True
    if ending.endswith(".."):
        return _starts_sentence(following)
    token = (before + ending[-1 - LONGEST_TOKEN : -1]).rpartition(" ")[2]
    if not token.isalnum():
        token = EDGE.split(token)[-1].lstrip(LONE_AT_START)
    if token.lower().rpartition("-")[2] in ABBREVIATIONS:
        return _starts_sentence(following)
    if len(token) == 1 and token.isalpha():
        return not following[0].isalpha() or _starts_sentence(following)
    return not (NUMBER.match(token) and (following[0].islower() or following[0] in PUNCTUATION))


def _starts_sentence(following: str) -> bool:
    """Whether the word often starts a sentence, and is capitalised."""
    if not following[0].isupper():
        return False
    word = following.rstrip(".,")
    return (word if word.isalpha() else EDGE.split(word, maxsplit=1)[0]).lower() in STARTERS


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
    excerpt = cut_text(word, EXCERPT_CHARACTERS)
    return RowFinding(False, f"paragraph {settings.nth_paragraph} starts with {excerpt!r}, not {settings.first_word!r}")


def _first_word(paragraph: str) -> str:
    words = paragraph.split(maxsplit=1)
    return WORD_END.split(words[0].lstrip("'").lstrip('"'), maxsplit=1)[0].lower() if words else ""
