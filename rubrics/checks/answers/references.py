"""Checks of a whole answer against an accepted one: identical, identical after normalisation, or contained."""

from typing import Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pydantic import model_validator

from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import (
    EXCERPT_CHARACTERS,
    Mask,
    cut_texts,
    evidence_where,
    join_texts,
    text_column,
)
from gradebook.rubrics.check_kit.normalising import (
    Fold,
    Punctuation,
    fold_case,
    fold_texts,
    fold_whitespace,
    remove_articles,
    remove_punctuation,
    surround,
)
from gradebook.rubrics.check_kit.regexes import gap_class
from gradebook.rubrics.checks.answers.accepted import MOST_CHARACTERS, Accepted, AcceptedSettings, accepted_answers

BLANK_REFERENCE = "blank reference"
MOST_SEARCHED = 150_000_000  # characters of an output times answers; a near miss at each place takes 3 ns per character
OPENS, CLOSES = "\x02", "\x03"  # possible start and end of a word


class TextAnswerSettings(AcceptedSettings):
    """Differences between the output and the accepted answer that count."""

    case_sensitive: bool = True
    """whether "Paris" and "paris" differ"""
    fold_whitespace: bool = True
    """replace each run of whitespace with one space and strip the ends"""
    fold: Fold = "none"
    """read compatible forms as the same ("ﬁ" is "fi"); with `accents` also letters with and without their marks"""


class ExactMatchSettings(TextAnswerSettings):
    """Steps of SQuAD's normalisation, each of which can be turned off."""

    case_sensitive: bool = False
    """whether "Paris" and "paris" differ"""
    remove_punctuation: Punctuation = "ascii"
    """remove the 32 ASCII marks and symbols, all of Unicode's (`unicode`), or `none`"""
    remove_articles: bool = True
    """remove the words a, an and the"""


class ContainsReferenceSettings(TextAnswerSettings):
    """Definition of an occurrence."""

    case_sensitive: bool = False
    """whether "Paris" and "paris" differ"""
    whole_word: bool = False
    """an answer inside a longer word does not count: "cat" is not in "concatenate\""""

    @model_validator(mode="after")
    def _no_blank_answer(self) -> Self:
        if any(not text.strip() for text in self.expected_texts):
            raise ValueError(f"found a blank text in expected {self.expected!r}, expected none: it would always match")
        return self


@register_check(
    "matches_reference",
    TextAnswerSettings,
    columns=("output", "reference"),
    examples=(
        Example("the  Nile\n", True, others={"reference": "the Nile"}),
        Example("The Nile", False, others={"reference": "the Nile"}),
        Example("Nile", True, {"expected": ["the Nile", "Nile"]}),
        Example("The Nile", None, others={"reference": None}),
    ),
)
def matches_reference(shard: pa.Table, settings: TextAnswerSettings) -> CheckVerdicts:
    """The output is the accepted answer, character by character. A row without one stays unscored: "no reference".

    Without `case_sensitive`, each character is compared by its simple Unicode case ("É" and "é" are the same, "ß" and
    "SS" are not). Nothing else is normalised unless `fold` asks for it: "é" as one and as two code points differ.
    """
    outputs, accepted = text_column(shard, "output"), accepted_answers(shard, settings)
    is_met = accepted.equal(_normalise(outputs, settings), _normalise(accepted.texts, settings))
    return _compare_whole(outputs, accepted, accepted.is_any(is_met))


@register_check(
    "exact_match",
    ExactMatchSettings,
    columns=("output", "reference"),
    examples=(
        Example("The Nile.", True, others={"reference": "nile"}),
        Example("It is the Nile.", False, others={"reference": "Nile"}),
        Example("the U.S.", True, others={"reference": "United States|US"}, settings={"separator": "|"}),
        Example("The Nile.", None, others={"reference": None}),
    ),
)
def exact_match(shard: pa.Table, settings: ExactMatchSettings) -> CheckVerdicts:
    """The output is the accepted answer after SQuAD's normalisation (Rajpurkar et al. 2016, arXiv 1606.05250).

    Case is folded, ASCII punctuation is removed ("U.S." is "us"), then the words a, an and the are removed, then runs
    of whitespace become one space. Unlike in the original, a step that would leave nothing of a text is skipped for it,
    so the answer "A" is not the same as an empty one; a letter with combining marks is one word; and case is Unicode's
    simple case. Punctuation of other scripts stays unless `remove_punctuation` is `unicode`.
    """
    outputs, accepted = text_column(shard, "output"), accepted_answers(shard, settings)
    is_met = accepted.equal(normalise_like_squad(outputs, settings), normalise_like_squad(accepted.texts, settings))
    return _compare_whole(outputs, accepted, accepted.is_any(is_met))


@register_check(
    "contains_reference",
    ContainsReferenceSettings,
    columns=("output", "reference"),
    examples=(
        Example("It is the river Nile, I think.", True, others={"reference": "nile"}),
        Example("It is the Nilometer.", False, {"whole_word": True}, {"reference": "Nile"}),
        Example("It is the Nile.", None, others={"reference": " "}),
    ),
)
def contains_reference(shard: pa.Table, settings: ContainsReferenceSettings) -> CheckVerdicts:
    """The accepted answer occurs in the output. A blank one stays unscored, as it would occur in any text.

    Whitespace and case are folded on both sides unless the settings say otherwise. With `whole_word`, the characters
    before and after it may not be a letter, a mark, a number or an underscore; in scripts written without spaces that
    requires punctuation around it. A row stays unscored if its characters times its answers exceed 150 million and,
    with `fold`, if its reference has more than 100,000 characters.
    """
    outputs, accepted = text_column(shard, "output"), _folded_answers(shard, settings)
    texts, answers = _normalise(outputs, settings), _normalise(accepted.texts, settings)
    filled = accepted.without(pc.equal(pc.utf8_trim_whitespace(answers), ""))
    is_blank = pa.array(accepted.has_answer & ~filled.has_answer)
    searched, too_much = _searchable(texts, filled)
    if settings.whole_word:
        texts, answers = _mark_word_edges(texts), _mark_word_edges(answers)
    is_passed = searched.is_any(_contain(texts, answers, searched))
    is_missed = pc.fill_null(pc.invert(is_passed), False)
    evidence = evidence_where(is_missed, join_texts("does not contain ", searched.describe_expected(is_missed)))
    reasons = pc.coalesce(too_much, evidence_where(is_blank, BLANK_REFERENCE), accepted.reasons)
    return CheckVerdicts(is_passed, evidence, reasons)


def normalise_like_squad(texts: pa.Array, settings: ExactMatchSettings) -> pa.Array:
    """Apply SQuAD's normalisation: (text,)."""
    texts = fold_texts(texts, settings.fold)
    texts = texts if settings.case_sensitive else fold_case(texts)
    texts = remove_punctuation(texts, settings.remove_punctuation)
    texts = remove_articles(texts) if settings.remove_articles else texts
    return fold_whitespace(texts) if settings.fold_whitespace else texts


def _normalise(texts: pa.Array, settings: TextAnswerSettings) -> pa.Array:
    texts = fold_texts(texts, settings.fold)
    texts = fold_whitespace(texts) if settings.fold_whitespace else texts
    return texts if settings.case_sensitive else fold_case(texts)


def _compare_whole(outputs: pa.Array, accepted: Accepted, is_passed: pa.BooleanArray) -> CheckVerdicts:
    is_missed = pc.fill_null(pc.invert(is_passed), False)
    excerpts = cut_texts(outputs.filter(is_missed), EXCERPT_CHARACTERS)
    evidence = join_texts("found '", excerpts, "', expected ", accepted.describe_expected(is_missed))
    return CheckVerdicts(is_passed, evidence_where(is_missed, evidence), accepted.reasons)


def _mark_word_edges(texts: pa.Array) -> pa.Array:
    """Mark every place where a word may begin or end.

    A marked answer then occurs in a marked text exactly if it consists of whole words there. The places are before and
    after each non-word character, and at the ends of the text.
    """
    marked = pc.replace_substring_regex(texts, f"([{gap_class(texts)}])", rf"{CLOSES}\1{OPENS}")
    return surround(marked, OPENS, CLOSES)


def _folded_answers(shard: pa.Table, settings: TextAnswerSettings) -> Accepted:
    """Accepted answers; if folding is on, long ones are not read, as folding can make a text eighteen times as long."""
    return accepted_answers(shard, settings, None if settings.fold == "none" else MOST_CHARACTERS)


def _searchable(texts: pa.Array, accepted: Accepted) -> tuple[Accepted, pa.StringArray]:
    """Drop the answers of texts where the search would take too long. Returns the reasons too: (row,)."""
    sizes = pc.utf8_length(texts).to_numpy().astype(np.int64)
    counts = np.bincount(accepted.rows, minlength=accepted.row_count)
    is_large = sizes * counts > MOST_SEARCHED
    messages = [
        f"too much to search: found {size} characters and {count} answers, at most {MOST_SEARCHED} multiplied"
        for size, count in zip(sizes[is_large].tolist(), counts[is_large].tolist(), strict=True)
    ]
    return accepted.without_rows(is_large), evidence_where(pa.array(is_large), pa.array(messages, pa.string()))


def _contain(texts: pa.Array, answers: pa.Array, accepted: Accepted) -> Mask:
    """Whether the text of each pair contains its answer. texts: (row,), answers: (text,). Returns (pair,)."""
    haystacks, needles = texts.to_pylist(), answers.to_pylist()
    pairs = zip(accepted.rows.tolist(), accepted.text_indices.tolist(), strict=True)
    return np.fromiter((needles[index] in haystacks[row] for row, index in pairs), np.bool_, len(accepted.rows))
