"""Comparison of outputs with accepted answers symbol by symbol: settings, and verdicts from pairs."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from gradebook.rubrics.check_kit.check import CheckVerdicts
from gradebook.rubrics.check_kit.columns import Mask, text_column
from gradebook.rubrics.check_kit.evidence import evidence_where
from gradebook.rubrics.check_kit.measures import MeasureSettings, judge_measures
from gradebook.rubrics.checks.answers.accepted import Accepted, AcceptedSettings, accepted_answers
from gradebook.rubrics.checks.answers.sequences import SequencePairs, Sequences

Values = NDArray[np.float64]
Split = Callable[[pa.Array], Sequences]
Compare = Callable[[SequencePairs], Values]
MOST_SYMBOLS = 0x110000  # of both sides together: one code point is needed for each
MOST_STEPS = 3_000_000_000  # product of both lengths, for quadratic measures: less than a second
MOST_ROW_SYMBOLS = 2 * MOST_SYMBOLS  # of a row: its output counts once for each accepted answer


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
    lefts, rights = accepted.rows, accepted.places + len(outputs)
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
    np.maximum.at(sizes, accepted.rows, left[accepted.rows] + right[accepted.places])
    is_long = sizes > most
    if not is_long.any():
        return outputs, accepted
    found = [f"too long to compare: found {size} bytes, at most {most} together" for size in sizes[is_long]]
    refusals = pc.coalesce(evidence_where(pa.array(is_long), pa.array(found)), accepted.refusals)
    kept = accepted.without_rows(is_long)
    is_used = np.zeros(len(kept.texts), np.bool_)
    is_used[kept.places] = True
    texts = pc.if_else(pa.array(is_used), kept.texts, pa.scalar("", kept.texts.type))
    return pc.if_else(pa.array(is_long), pa.scalar("", outputs.type), outputs), replace(
        kept, texts=texts, refusals=refusals
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
    words = {
        row: f"too long to compare: found {lengths[row]} words or characters and {answer_counts[row]} accepted answers"
        for row in np.flatnonzero(is_much).tolist()
    }
    sizes = dict(zip(accepted.rows[is_long].tolist(), accepted.places[is_long].tolist(), strict=True))
    words |= {
        row: _length_words(int(lengths[row]), int(lengths[accepted.row_count + place])) for row, place in sizes.items()
    }
    reasons: list[str | None] = [None] * accepted.row_count

    for row, text in words.items():
        reasons[row] = text
    return pc.coalesce(pa.array(reasons, pa.string()), accepted.reasons)


def _length_words(left: int, right: int) -> str:
    most = f"{MOST_SYMBOLS} together" if left + right > MOST_SYMBOLS else f"{MOST_STEPS} multiplied"
    return f"too long to compare: found {left} and {right} words or characters, at most {most}"
