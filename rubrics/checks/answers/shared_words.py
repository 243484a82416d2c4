"""Checks of the overlap of an output and an accepted answer: words, n-grams, subsequences and edits."""

import itertools
from collections.abc import Callable
from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pydantic import Field

from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.normalising import fold_case, fold_whitespace, remove_articles, remove_punctuation
from gradebook.rubrics.checks.answers.ngrams import count_grams
from gradebook.rubrics.checks.answers.overlap import (
    CasedOverlapSettings,
    OverlapSettings,
    Values,
    f_measures,
    judge_overlap,
)
from gradebook.rubrics.checks.answers.sequences import (
    SequencePairs,
    Sequences,
    renumber,
    split_bare_words,
    split_characters,
    split_words,
)

COLUMNS = ("output", "reference")


class RougeSettings(CasedOverlapSettings):
    """ROUGE folds case by default."""

    case_sensitive: bool = False
    """whether "Paris" and "paris" differ"""


class RougeNSettings(RougeSettings):
    """Length of the n-grams."""

    n: Annotated[int, Field(ge=1, le=4, strict=True)] = 1
    """number of words in an n-gram"""


class EditSettings(CasedOverlapSettings):
    """Unit of an edit."""

    unit: Literal["characters", "words"] = "characters"
    """the unit that an edit inserts, deletes or replaces"""
    fold_whitespace: bool = True
    """replace each run of whitespace with one space and strip the ends"""
    ignore_punctuation: bool = False
    """remove marks and symbols first: in transcripts they are not spoken"""


@register_check(
    "token_f1",
    OverlapSettings,
    columns=COLUMNS,
    examples=(
        Example("The river Nile.", True, {"min": 0.6}, {"reference": "the Nile"}),
        Example("The river Amazon.", False, {"min": 0.6}, {"reference": "the Nile"}),
        Example("The river Nile.", None, {"min": 0.6}, {"reference": None}),
    ),
)
def token_f1(shard: pa.Table, settings: OverlapSettings) -> CheckVerdicts:
    """The token F1 of output and accepted answer lies within the bounds, as measured by SQuAD.

    Both are normalised as by `exact_match` (Rajpurkar et al. 2016, arXiv 1606.05250) and split at whitespace; then F1 =
    2 x shared words / all words of both sides, where a shared word counts as often as both sides have it. Two blank
    texts have 1, one blank text has 0. Unlike in the original, each letter of Chinese, Japanese, Thai, Lao, Khmer and
    Burmese is a word of its own, since these scripts have no spaces between words. A row stays unscored above 1,114,112
    words together, or above twice as many when the output is counted once for each of several accepted answers.
    """
    return judge_overlap(shard, settings, "token F1", _split_squad, _unigram_f1)


@register_check(
    "rouge_n",
    RougeNSettings,
    columns=COLUMNS,
    examples=(
        Example("The cat sat on the mat.", True, {"n": 2, "min": 0.5}, {"reference": "The cat sat on a mat."}),
        Example("On the mat, the cat sat.", False, {"n": 2, "min": 0.9}, {"reference": "The cat sat on the mat."}),
        Example("The cat sat.", None, {"min": 0.5}, {"reference": None}),
    ),
)
def rouge_n(shard: pa.Table, settings: RougeNSettings) -> CheckVerdicts:
    """ROUGE-N's F-measure of output and accepted answer lies within the bounds: shared n-grams of `n` words.

    F = 2 x shared n-grams / all n-grams of both sides (Lin 2004, section 2, with beta 1). A word is a run of letters,
    marks and numbers, and each letter of Chinese, Japanese, Thai, Lao, Khmer and Burmese is one; no stemming, no stop
    words. A text without a word, such as an emoji, is split at whitespace. If both sides are shorter than `n` words,
    the longest n-grams available count. Two blank texts have 1, one blank text has 0. A row stays unscored above
    1,114,112 words together, or above twice as many when the output is counted once for each of several accepted
    answers.
    """
    return judge_overlap(shard, settings, f"ROUGE-{settings.n}", _words(settings), _gram_f1(settings.n))


@register_check(
    "rouge_l",
    RougeSettings,
    columns=COLUMNS,
    cost="rows",
    examples=(
        Example("police kill the gunman", True, {"min": 0.7}, {"reference": "police killed the gunman"}),
        Example("the gunman kill police", False, {"min": 0.7}, {"reference": "police killed the gunman"}),
        Example("police kill the gunman", None, {"min": 0.7}, {"reference": None}),
    ),
)
def rouge_l(shard: pa.Table, settings: RougeSettings) -> CheckVerdicts:
    """ROUGE-L's F-measure lies within the bounds: the longest common subsequence of words.

    F = 2 x its length / the words of both sides (Lin 2004, section 3.1, with beta 1); the whole text is one sequence.
    Words are those of `rouge_n`. Two blank texts have 1, one blank text has 0. A row stays unscored if the product of
    both word counts exceeds 3,000,000,000 or their sum 1,114,112, and over all of several accepted answers if the
    totals exceed 3,000,000,000 or 2,228,224.
    """
    return judge_overlap(shard, settings, "ROUGE-L", _words(settings), _subsequence_f1, is_quadratic=True)


@register_check(
    "edit_similarity",
    EditSettings,
    columns=COLUMNS,
    cost="rows",
    examples=(
        Example("sitting", True, {"min": 0.5}, {"reference": "kitten"}),
        Example("sitting", False, {"min": 0.8}, {"reference": "kitten"}),
        Example(
            "hello there",
            True,
            {"unit": "words", "case_sensitive": False, "ignore_punctuation": True, "min": 1},
            {"reference": "Hello, there!"},
        ),
        Example("sitting", None, {"min": 0.5}, {"reference": None}),
    ),
)
def edit_similarity(shard: pa.Table, settings: EditSettings) -> CheckVerdicts:
    """The edit similarity lies within the bounds: 1 - the Levenshtein distance / the longer side's length.

    The distance is the least number of characters (code points) or words to insert, delete or replace. Words are
    separated by whitespace; each letter of Chinese, Japanese, Thai, Lao, Khmer and Burmese is a word. Two empty texts
    have 1, one empty text has 0. A row stays unscored if the product of both lengths exceeds 3,000,000,000 or their sum
    1,114,112, and over all of several accepted answers if the totals exceed 3,000,000,000 or 2,228,224.
    """
    split = split_characters if settings.unit == "characters" else split_bare_words

    def split_dressed(texts: pa.Array) -> Sequences:
        texts = remove_punctuation(texts, "unicode") if settings.ignore_punctuation else texts
        texts = fold_whitespace(texts) if settings.fold_whitespace else texts
        return split(texts if settings.case_sensitive else fold_case(texts))

    return judge_overlap(shard, settings, "edit similarity", split_dressed, _edit_similarities, is_quadratic=True)


def _split_squad(texts: pa.Array) -> Sequences:
    return split_bare_words(remove_articles(remove_punctuation(fold_case(texts), "ascii")))


def _words(settings: CasedOverlapSettings) -> Callable[[pa.Array], Sequences]:
    return split_words if settings.case_sensitive else lambda texts: split_words(fold_case(texts))


def _unigram_f1(pairs: SequencePairs) -> Values:
    counts = count_grams(pairs, 1)
    return f_measures(counts.shared[0], counts.left[0], counts.right[0])


def _gram_f1(n: int) -> Callable[[SequencePairs], Values]:
    def gram_f1(pairs: SequencePairs) -> Values:
        counts = count_grams(pairs, n)
        places = np.clip(np.maximum(*pairs.lengths), 1, n) - 1
        shared, left, right = (_at(values, places) for values in (counts.shared, counts.left, counts.right))
        return f_measures(shared, left, right)

    return gram_f1


def _at(values: NDArray[np.int64], places: NDArray[np.int64]) -> NDArray[np.int64]:
    """Pick one n for each pair. values: (n, pair). places: (pair,), index of n. Returns (pair,)."""
    chosen: NDArray[np.int64] = np.take_along_axis(values, places[None, :], axis=0)[0]
    return chosen


def _subsequence_f1(pairs: SequencePairs) -> Values:
    from rapidfuzz.distance import LCSseq

    left, right = pairs.lengths
    return f_measures(_compare_texts(pairs, LCSseq.similarity), left, right)


def _edit_similarities(pairs: SequencePairs) -> Values:
    from rapidfuzz.distance import Levenshtein

    longer = np.maximum(np.maximum(*pairs.lengths), 1)
    values: Values = 1 - _compare_texts(pairs, Levenshtein.distance) / longer
    return values


def _compare_texts(pairs: SequencePairs, scorer: Callable[..., int]) -> NDArray[np.int64]:
    """Score each pair with rapidfuzz, symbols encoded as characters, its fastest input: (pair,)."""
    from rapidfuzz.process import cpdist

    scores: NDArray[np.int64] = np.zeros(len(pairs.lefts), np.int64)
    for block, lefts, rights in pairs.blocks():
        ids, _ = renumber(np.concatenate((lefts.ids, rights.ids)))
        texts = _as_texts(ids, np.concatenate((lefts.edges, rights.edges[1:] + len(lefts.ids))))
        middle = len(lefts.lengths)
        scores[block] = cpdist(texts[:middle], texts[middle:], scorer=scorer, dtype=np.int64)
    return scores


def _as_texts(ids: NDArray[np.int64], edges: NDArray[np.int64]) -> list[str]:
    whole = ids.astype("<u4").tobytes().decode("utf-32-le", "surrogatepass")
    return [whole[start:stop] for start, stop in itertools.pairwise(edges.tolist())]
