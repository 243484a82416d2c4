"""Checks of the overlap of an output and an accepted answer, symbol by symbol.

Words, n-grams, subsequences and edits; BLEU and chrF, computed as in sacrebleu for one sentence.
"""

import itertools
from collections.abc import Callable
from dataclasses import replace
from typing import Annotated, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field

from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.columns import Mask, evidence_where, text_column
from gradebook.rubrics.check_kit.measures import MeasureSettings, judge_measures
from gradebook.rubrics.check_kit.normalising import (
    fold_case,
    fold_whitespace,
    remove_articles,
    remove_punctuation,
    split_whitespace,
    surround,
)
from gradebook.rubrics.checks.answers.accepted import Accepted, AcceptedSettings, accepted_answers
from gradebook.rubrics.checks.answers.sequences import (
    SequencePairs,
    Sequences,
    count_grams,
    renumber,
    split_bare_words,
    split_characters,
    split_spaced,
    split_words,
)

Values = NDArray[np.float64]
Split = Callable[[pa.Array], Sequences]
Compare = Callable[[SequencePairs], Values]
MOST_SYMBOLS = 0x110000  # symbols of both sides together: each needs a code point
MOST_STEPS = 3_000_000_000  # product of both lengths, for quadratic measures: less than a second
MOST_ROW_SYMBOLS = 2 * MOST_SYMBOLS  # symbols of a row: its output counts once per accepted answer


class OverlapSettings(MeasureSettings, AcceptedSettings):
    """Bounds on a share, from 0 (nothing in common) to 1; of several accepted answers the closest counts."""

    @property
    def reach(self) -> tuple[float, float]:
        return 0.0, 1.0


class CasedOverlapSettings(OverlapSettings):
    """Bounds on a share, with a choice of case."""

    case_sensitive: bool = True
    """whether "Paris" and "paris" differ"""


def judge_overlap(
    shard: pa.Table,
    settings: OverlapSettings,
    name: str,
    split: Split,
    compare: Compare,
    *,
    is_quadratic: bool = False,
    most_bytes: int | None = None,
) -> CheckVerdicts:
    """Compare the greatest value over a row's accepted answers with the bounds.

    split: symbols of (text,). compare: a value for each pair, (pair,). is_quadratic: whether the time of a pair is the
    product of its lengths. most_bytes: of both sides together, for a slow `split`. A row with an answer that is too
    long to compare stays unscored.
    """
    outputs, accepted = text_column(shard, "output"), accepted_answers(shard, settings)
    if most_bytes is not None:
        outputs, accepted = _without_long(outputs, accepted, most_bytes)
    both = split(pa.chunked_array([outputs, accepted.texts.cast(outputs.type)]).combine_chunks())
    lefts, rights = accepted.rows, accepted.text_indices + len(outputs)
    pairs = SequencePairs(both, lefts, rights)
    is_long = _is_too_long(pairs, is_quadratic)
    is_much = _is_too_much(pairs, accepted.row_count, is_quadratic)
    is_left_out = is_long | is_much[lefts]
    values = np.full(len(lefts), np.nan)
    values[~is_left_out] = compare(SequencePairs(both, lefts[~is_left_out], rights[~is_left_out]))
    best = pa.array(accepted.best(values), from_pandas=True)
    return judge_measures(best, settings, name, _reasons(both.lengths, accepted, is_long, is_much))


def _without_long(outputs: pa.Array, accepted: Accepted, most: int) -> tuple[pa.Array, Accepted]:
    """Blank the texts of rows where a pair is too long, and refuse those rows. outputs: (row,)."""
    left, right = (pc.binary_length(texts).to_numpy().astype(np.int64) for texts in (outputs, accepted.texts))
    sizes = np.zeros(accepted.row_count, np.int64)
    np.maximum.at(sizes, accepted.rows, left[accepted.rows] + right[accepted.text_indices])
    is_long = sizes > most
    if not is_long.any():
        return outputs, accepted
    messages = [f"too long to compare: found {size} bytes, at most {most} together" for size in sizes[is_long]]
    refusals = pc.coalesce(evidence_where(pa.array(is_long), pa.array(messages)), accepted.refusals)
    remaining = accepted.without_rows(is_long)
    is_used = np.zeros(len(remaining.texts), np.bool_)
    is_used[remaining.text_indices] = True
    texts = pc.if_else(pa.array(is_used), remaining.texts, pa.scalar("", remaining.texts.type))
    return pc.if_else(pa.array(is_long), pa.scalar("", outputs.type), outputs), replace(
        remaining, texts=texts, refusals=refusals
    )


def f_measures(shared: NDArray[np.int64], left: NDArray[np.int64], right: NDArray[np.int64]) -> Values:
    """Harmonic mean of shared / left and shared / right; 1 if both sides are empty. All: (pair,)."""
    total = left + right
    return np.where(total == 0, 1.0, 2 * shared / np.maximum(total, 1))


def _is_too_long(pairs: SequencePairs, is_quadratic: bool) -> Mask:
    """Whether a pair is too long to compare: (pair,)."""
    left, right = pairs.lengths
    is_long: Mask = left + right > MOST_SYMBOLS
    return is_long | (left * right > MOST_STEPS) if is_quadratic else is_long


def _is_too_much(pairs: SequencePairs, row_count: int, is_quadratic: bool) -> Mask:
    """Whether a row's pairs are too long together, even if each is short enough: (row,). lefts are rows."""
    left, right = pairs.lengths
    is_much: Mask = np.bincount(pairs.lefts, left + right, row_count) > MOST_ROW_SYMBOLS
    return is_much | (np.bincount(pairs.lefts, left * right, row_count) > MOST_STEPS) if is_quadratic else is_much


def _reasons(lengths: NDArray[np.int64], accepted: Accepted, is_long: Mask, is_much: Mask) -> pa.StringArray:
    """Reason why a row cannot be decided: (row,).

    lengths: (text,), the outputs first. is_long: (pair,). is_much: (row,).
    """
    if not (is_long.any() or is_much.any()):
        return accepted.reasons
    answer_counts = np.bincount(accepted.rows, minlength=accepted.row_count)
    messages = {
        row: f"too long to compare: found {lengths[row]} words or characters and {answer_counts[row]} accepted answers"
        for row in np.flatnonzero(is_much).tolist()
    }
    sizes = dict(zip(accepted.rows[is_long].tolist(), accepted.text_indices[is_long].tolist(), strict=True))
    messages |= {
        row: _describe_lengths(int(lengths[row]), int(lengths[accepted.row_count + index]))
        for row, index in sizes.items()
    }
    reasons: list[str | None] = [None] * accepted.row_count
    for row, text in messages.items():
        reasons[row] = text
    return pc.coalesce(pa.array(reasons, pa.string()), accepted.reasons)


def _describe_lengths(left: int, right: int) -> str:
    most = f"{MOST_SYMBOLS} together" if left + right > MOST_SYMBOLS else f"{MOST_STEPS} multiplied"
    return f"too long to compare: found {left} and {right} words or characters, at most {most}"


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
    return judge_overlap(shard, settings, f"ROUGE-{settings.n}", _word_splitter(settings), _gram_f1(settings.n))


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
    return judge_overlap(shard, settings, "ROUGE-L", _word_splitter(settings), _subsequence_f1, is_quadratic=True)


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

    def split_normalised(texts: pa.Array) -> Sequences:
        texts = remove_punctuation(texts, "unicode") if settings.ignore_punctuation else texts
        texts = fold_whitespace(texts) if settings.fold_whitespace else texts
        return split(texts if settings.case_sensitive else fold_case(texts))

    return judge_overlap(shard, settings, "edit similarity", split_normalised, _edit_similarities, is_quadratic=True)


def _split_squad(texts: pa.Array) -> Sequences:
    return split_bare_words(remove_articles(remove_punctuation(fold_case(texts), "ascii")))


def _word_splitter(settings: CasedOverlapSettings) -> Callable[[pa.Array], Sequences]:
    return split_words if settings.case_sensitive else lambda texts: split_words(fold_case(texts))


def _unigram_f1(pairs: SequencePairs) -> Values:
    counts = count_grams(pairs, 1)
    return f_measures(counts.shared[0], counts.left[0], counts.right[0])


def _gram_f1(n: int) -> Callable[[SequencePairs], Values]:
    def gram_f1(pairs: SequencePairs) -> Values:
        counts = count_grams(pairs, n)
        indices = np.clip(np.maximum(*pairs.lengths), 1, n) - 1
        shared, left, right = (_pick_order(values, indices) for values in (counts.shared, counts.left, counts.right))
        return f_measures(shared, left, right)

    return gram_f1


def _pick_order(values: NDArray[np.int64], indices: NDArray[np.int64]) -> NDArray[np.int64]:
    """Pick one n for each pair. values: (n, pair). indices: (pair,), index of n. Returns (pair,)."""
    chosen: NDArray[np.int64] = np.take_along_axis(values, indices[None, :], axis=0)[0]
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


BLEU_ORDER = 4
MOST_BLEU_BYTES = 600_000  # bytes of both sides together; separating punctuation takes most of the time
CHRF_ORDER = 6
BETA = 2
# Steps of mteval-v13a: pattern and replacement.
STEPS_13A = (
    (r"([{-~\[-` -&(-+:-@/])", r" \1 "),
    (r"([^0-9])([.,])", r"\1 \2 "),
    (r"([.,])([^0-9])", r" \1 \2"),
    (r"([0-9])(-)", r"\1 \2 "),
)
ENTITIES = (("&quot;", '"'), ("&amp;", "&"), ("&lt;", "<"), ("&gt;", ">"))
# Characters that sacrebleu's `zh` tokenizer separates.
CHINESE = (
    r"([\x{2001}-\x{2a6d}\x{2e80}-\x{2fdf}\x{2ff0}-\x{303f}\x{3100}-\x{312f}\x{31a0}-\x{31ef}\x{3200}-\x{4db5}"
    r"\x{4e00}-\x{9fbb}\x{f900}-\x{fa2d}\x{fa30}-\x{fa6a}\x{fa70}-\x{fad9}\x{fe10}-\x{fe1f}\x{fe30}-\x{fe4f}"
    r"\x{ff00}-\x{ffef}])"
)


class BleuSettings(CasedOverlapSettings):
    """Tokenizer for BLEU."""

    tokenizer: Literal["13a", "zh", "char"] = "13a"
    """`13a` for languages with spaces, `zh` for Chinese, `char` for characters instead of words"""


@register_check(
    "bleu",
    BleuSettings,
    columns=COLUMNS,
    examples=(
        Example("The cat sat on the mat.", True, {"min": 0.4}, {"reference": "The cat sat on a mat."}),
        Example("A dog lay there.", False, {"min": 0.4}, {"reference": "The cat sat on a mat."}),
        Example("The cat sat on the mat.", None, {"min": 0.5}, {"reference": None}),
    ),
)
def bleu(shard: pa.Table, settings: BleuSettings) -> CheckVerdicts:
    """BLEU of the output against the accepted answer lies within the bounds, from 0 to 1.

    Computed as sacrebleu's sentence BLEU (Papineni et al. 2002; Post 2018, arXiv 1804.08771) divided by 100, signature
    `nrefs:1|case:mixed|eff:yes|tok:13a|smooth:exp`. Several accepted answers are not merged: the best one counts. Two
    texts without a token have 1, one such text has 0. BLEU is a measure of a whole corpus: on one short sentence it is
    coarse. A row stays unscored above 600,000 bytes together, or above 2,228,224 words when the output is counted once
    for each of several accepted answers.
    """
    splits = {"13a": _split_13a, "zh": _split_zh, "char": _split_solid}
    split = _cased(splits[settings.tokenizer], settings)
    return judge_overlap(shard, settings, "BLEU", split, _bleu_values, most_bytes=MOST_BLEU_BYTES)


@register_check(
    "chrf",
    CasedOverlapSettings,
    columns=COLUMNS,
    examples=(
        Example("Der Hund schläft.", True, {"min": 0.2}, {"reference": "Die Hunde schlafen."}),
        Example("Der Hund schläft.", False, {"min": 0.2}, {"reference": "Eine Katze lief fort."}),
        Example("Der Hund schläft.", None, {"min": 0.2}, {"reference": None}),
    ),
)
def chrf(shard: pa.Table, settings: CasedOverlapSettings) -> CheckVerdicts:
    """chrF2 of the output against the accepted answer lies within the bounds, from 0 to 1.

    Computed as sacrebleu's sentence chrF (Popović 2015) divided by 100: n-grams of 1 to 6 characters without
    whitespace, recall weighted twice, signature `nrefs:1|case:mixed|eff:yes|nc:6|nw:0|space:no`. It needs no words, so
    it works for every script. Two blank texts have 1, one blank text has 0. A row stays unscored above 1,114,112
    characters together, or above twice as many when the output is counted once for each of several accepted answers.
    """
    return judge_overlap(shard, settings, "chrF", _cased(_split_solid, settings), _chrf_values)


def _cased(split: Split, settings: CasedOverlapSettings) -> Split:
    return split if settings.case_sensitive else lambda texts: split(fold_case(texts))


def _split_13a(texts: pa.Array) -> Sequences:
    texts = pc.utf8_rtrim_whitespace(texts)
    for pattern, replacement in (("<skipped>", ""), ("-\n", ""), ("\n", " "), *ENTITIES):
        texts = pc.replace_substring(texts, pattern, replacement)
    return _split_western(surround(texts, " ", " "))


def _split_zh(texts: pa.Array) -> Sequences:
    return _split_western(pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), CHINESE, r" \1 "))


def _split_western(texts: pa.Array) -> Sequences:
    for pattern, replacement in STEPS_13A:
        texts = pc.replace_substring_regex(texts, pattern, replacement)
    return split_spaced(texts)


def _split_solid(texts: pa.Array) -> Sequences:
    """Split each text into its non-whitespace characters."""
    return split_characters(pc.binary_join(split_whitespace(texts), pa.scalar("", texts.type)))


def _bleu_values(pairs: SequencePairs) -> Values:
    """BLEU (Papineni et al. 2002, section 2.3), with NIST's smoothing, over the orders that the output is long enough
    for.
    """
    counts = count_grams(pairs, BLEU_ORDER)
    left, right = counts.left[0], counts.right[0]
    is_used = counts.left > 0
    is_missed = is_used & (counts.shared == 0)
    # Each order without a match counts half of the previous one: 1/2, 1/4, ... of a match.
    matches = np.where(is_missed, 0.5 ** np.cumsum(is_missed, axis=0), counts.shared)
    logs = np.log(matches / np.maximum(counts.left, 1), where=is_used, out=np.zeros(matches.shape))
    precision = np.exp(logs.sum(axis=0) / np.maximum(is_used.sum(axis=0), 1))
    brevity = np.exp(np.minimum(1 - right / np.maximum(left, 1), 0))
    values = np.where(counts.shared.any(axis=0), precision * brevity, 0.0)
    return np.where(left + right == 0, 1.0, values)


def _chrf_values(pairs: SequencePairs) -> Values:
    """Sentence chrF (Popović 2015, equation 1); precision and recall are averaged over the orders of both sides."""
    counts = count_grams(pairs, CHRF_ORDER)
    is_used = (counts.left > 0) & (counts.right > 0)
    order_count = np.maximum(is_used.sum(axis=0), 1)
    precision, recall = (
        (counts.shared / np.maximum(side, 1)).sum(axis=0, where=is_used) / order_count
        for side in (counts.left, counts.right)
    )
    weighted = BETA**2 * precision + recall
    values = (1 + BETA**2) * precision * recall / np.where(weighted > 0, weighted, 1.0)
    return np.where(counts.left[0] + counts.right[0] == 0, 1.0, values)
