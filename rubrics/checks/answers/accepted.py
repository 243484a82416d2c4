"""Accepted answers of a row: its reference, or the answers given in the settings."""

import itertools
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field, model_validator

from gradebook.rubrics.check_kit.check import CheckSettings
from gradebook.rubrics.check_kit.columns import (
    EXCERPT_CHARACTERS,
    Mask,
    cut_texts,
    evidence_where,
    join_texts,
    text_column,
)
from gradebook.rubrics.model.outputs import reference_answers

NO_REFERENCE = "no reference"
MOST_ANSWERS = 1_000  # answers in a reference; each is compared with the output
MOST_CHARACTERS = 100_000  # characters of a reference that is parsed in full
Indices = NDArray[np.int64]


class AcceptedSettings(CheckSettings):
    """Source of the accepted answers; matching one of them is enough."""

    expected: str | Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """the accepted answer, or a list of them, instead of the row's reference"""
    separator: Annotated[str, Field(min_length=1)] | None = None
    """separator between several accepted answers in a reference, at most 1000 answers; whitespace around an answer is
    stripped and blank ones are ignored. Without it, a JSON list of texts stands for each of them, and for itself"""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.expected is not None and self.separator is not None:
            raise ValueError("found both expected and separator, expected one of them")
        return self

    @property
    def expected_texts(self) -> tuple[str, ...]:
        """Answers under `expected`, as a tuple; empty if it is not given."""
        if self.expected is None:
            return ()
        return (self.expected,) if isinstance(self.expected, str) else self.expected


@dataclass(frozen=True, slots=True)
class Accepted:
    """Accepted answers of a shard's rows, as pairs of a row and a text.

    texts: (text,), no nulls. rows: (pair,), ascending. text_indices: (pair,), index of the text in `texts`. refusals:
    (row,), reason why a row's reference is not read, so that it has no answer here; null elsewhere.
    """

    texts: pa.Array
    rows: Indices
    text_indices: Indices
    row_count: int
    refusals: pa.StringArray

    @property
    def has_answer(self) -> Mask:
        """Whether a row has an answer: (row,)."""
        has_answer = np.zeros(self.row_count, np.bool_)
        has_answer[self.rows] = True
        return has_answer

    @property
    def reasons(self) -> pa.StringArray:
        """Reason why a row cannot be decided: (row,)."""
        return pc.coalesce(self.refusals, evidence_where(pa.array(~self.has_answer), NO_REFERENCE))

    def is_any(self, is_met: Mask) -> pa.BooleanArray:
        """Whether a row meets one of its answers, null if it has none. is_met: (pair,). Returns (row,)."""
        is_any = np.zeros(self.row_count, np.bool_)
        is_any[self.rows[is_met]] = True
        return pa.array(is_any, mask=~self.has_answer)

    def best(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """Greatest value over a row's answers, NaN if it has none or if one of them is NaN.

        values: (pair,). Returns (row,).
        """
        best = np.full(self.row_count, np.nan)
        if len(values):
            edges = np.flatnonzero(np.concatenate(([True], self.rows[1:] != self.rows[:-1])))
            best[self.rows[edges]] = np.fmax.reduceat(values, edges)
            best[self.rows[np.isnan(values)]] = np.nan
        return best

    def equal(self, outputs: pa.Array, texts: pa.Array) -> Mask:
        """Whether both sides of each pair are equal. outputs: (row,), texts: (text,). Returns (pair,)."""
        both = pa.chunked_array([outputs, texts.cast(outputs.type)]).combine_chunks()
        ids = both.dictionary_encode().indices.to_numpy()
        is_equal: Mask = ids[self.rows] == ids[self.text_indices + len(outputs)]
        return is_equal

    def without(self, is_dropped: pa.BooleanArray) -> "Accepted":
        """Drop some of the texts. is_dropped: (text,)."""
        return self._only(~is_dropped.to_numpy(zero_copy_only=False)[self.text_indices])

    def without_rows(self, is_dropped: Mask) -> "Accepted":
        """Drop all answers of some rows. is_dropped: (row,)."""
        return self._only(~is_dropped[self.rows]) if is_dropped.any() else self

    def _only(self, is_kept: Mask) -> "Accepted":
        """Accepted answers of the marked pairs only. is_kept: (pair,)."""
        return Accepted(self.texts, self.rows[is_kept], self.text_indices[is_kept], self.row_count, self.refusals)

    def text_indices_by_row(self) -> list[list[int]]:
        """Indices of each row's texts: [row] of [answer]."""
        edges = np.searchsorted(self.rows, np.arange(self.row_count + 1)).tolist()
        indices = self.text_indices.tolist()
        return [indices[start:stop] for start, stop in itertools.pairwise(edges)]

    def describe_expected(self, is_missed: pa.BooleanArray) -> pa.StringArray:
        """Describe the expected answer: "'Paris'", "'Paris' or 2 others".

        is_missed: (row,), true only for rows with an answer. Returns (true row,).
        """
        rows = np.flatnonzero(is_missed.to_numpy(zero_copy_only=False))
        starts, stops = (np.searchsorted(self.rows, rows, side) for side in ("left", "right"))
        excerpts = cut_texts(self.texts.take(pa.array(self.text_indices[starts])), EXCERPT_CHARACTERS)
        suffixes = pa.array([_count_others(count) for count in (stops - starts - 1).tolist()], pa.string())
        return join_texts("'", excerpts.cast(pa.string()), "'", suffixes)


def _count_others(count: int) -> str:
    return "" if count == 0 else f" or {count} other{'s' * (count > 1)}"


def accepted_answers(shard: pa.Table, settings: AcceptedSettings, most_characters: int | None = None) -> Accepted:
    """Accepted answers of each row: `expected` if given, else its reference.

    most_characters: limit for a reference; a row with a longer one cannot be decided.
    """
    row_count = shard.num_rows
    refusals = pa.nulls(row_count, pa.string())
    expected = settings.expected_texts
    if expected:
        all_indices = np.arange(len(expected))
        texts = pa.array(expected, pa.string())
        rows = np.repeat(np.arange(row_count), len(expected))
        return Accepted(texts, rows, np.tile(all_indices, row_count), row_count, refusals)
    references = text_column(shard, "reference")
    if most_characters is not None:
        is_long = pc.fill_null(pc.greater(pc.utf8_length(references), most_characters), False)
        refusals = evidence_where(is_long, f"reference too long, at most {most_characters} characters are read")
        references = pc.if_else(is_long, pa.scalar(None, references.type), references)
    rows = np.flatnonzero(references.is_valid().to_numpy(zero_copy_only=False))
    texts = references.drop_null()
    answer_lists = (
        _split_json_lists(texts) if settings.separator is None else pc.split_pattern(texts, settings.separator)
    )
    if answer_lists is not None:
        rows = rows[pc.list_parent_indices(answer_lists).to_numpy()]
        texts = pc.list_flatten(answer_lists)
        is_filled = np.ones(len(texts), np.bool_)
        if settings.separator is not None:
            texts = pc.utf8_trim_whitespace(texts)
            is_filled = pc.not_equal(texts, "").to_numpy(zero_copy_only=False)
        is_crowded = np.bincount(rows[is_filled], minlength=row_count) > MOST_ANSWERS
        is_read = is_filled & ~is_crowded[rows]
        rows, texts = rows[is_read], texts.filter(pa.array(is_read))
        crowded = evidence_where(pa.array(is_crowded), f"too many answers in the reference, at most {MOST_ANSWERS}")
        refusals = pc.coalesce(refusals, crowded)
    return Accepted(texts, rows, np.arange(len(texts)), row_count, refusals)


def _split_json_lists(references: pa.Array) -> pa.ListArray | None:
    """Answers of each reference, which may be a JSON list of several answers. references: (text,), no nulls."""
    is_list = pc.and_(pc.starts_with(references, '["'), pc.ends_with(references, '"]'))
    if not pc.any(is_list).as_py():
        return None
    return pa.array(map(reference_answers, references.to_pylist()), pa.list_(pa.string()))
