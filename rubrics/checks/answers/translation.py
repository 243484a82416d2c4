"""Measures of machine translation: BLEU and chrF, computed as in sacrebleu for one sentence."""

from typing import Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from gradebook.rubrics.check_kit.character_classes import whitespace_class
from gradebook.rubrics.check_kit.check import CheckVerdicts, Example, register_check
from gradebook.rubrics.check_kit.normalising import fold_case, surround
from gradebook.rubrics.checks.answers.ngrams import count_grams
from gradebook.rubrics.checks.answers.overlap import CasedOverlapSettings, Split, Values, judge_overlap
from gradebook.rubrics.checks.answers.sequences import SequencePairs, Sequences, split_characters, split_spaced

COLUMNS = ("output", "reference")
BLEU_ORDER = 4
MOST_BLEU_BYTES = 600_000  # of both sides together; separating punctuation takes most of the time
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
    for found, put in (("<skipped>", ""), ("-\n", ""), ("\n", " "), *ENTITIES):
        texts = pc.replace_substring(texts, found, put)
    return _split_western(surround(texts, " ", " "))


def _split_zh(texts: pa.Array) -> Sequences:
    return _split_western(pc.replace_substring_regex(pc.utf8_trim_whitespace(texts), CHINESE, r" \1 "))


def _split_western(texts: pa.Array) -> Sequences:
    for found, put in STEPS_13A:
        texts = pc.replace_substring_regex(texts, found, put)
    return split_spaced(texts)


def _split_solid(texts: pa.Array) -> Sequences:
    """Split each text into its non-whitespace characters."""
    return split_characters(pc.replace_substring_regex(texts, f"[{whitespace_class(texts)}]+", ""))


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
    weighed = BETA**2 * precision + recall
    values = (1 + BETA**2) * precision * recall / np.where(weighed > 0, weighed, 1.0)
    return np.where(counts.left[0] + counts.right[0] == 0, 1.0, values)
