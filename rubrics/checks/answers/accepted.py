"""The accepted answers of a row: its reference, or those that the settings name in its place."""

import itertools
from dataclasses import dataclass
from typing import Annotated, Self

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray
from pydantic import Field, model_validator

from gradebook.rubrics.check_kit.check import CheckSettings
from gradebook.rubrics.check_kit.columns import Mask, text_column
from gradebook.rubrics.check_kit.evidence import EXCERPT_CHARACTERS, cut_texts, evidence_where, join_texts

NO_REFERENCE = "no reference"
MOST_ANSWERS = 1_000  # in a reference: each of them is held against the output
MOST_CHARACTERS = 100_000  # of a reference that is read as closely as the output
Places = NDArray[np.int64]


class AcceptedSettings(CheckSettings):
    """Where the accepted answers come from; one that is met is enough."""

    expected: str | Annotated[tuple[str, ...], Field(min_length=1)] | None = None
    """the accepted answer, or a list of them, in the place of the row's reference"""
    separator: Annotated[str, Field(min_length=1)] | None = None
    """what stands between several accepted answers in a reference, at most 1000; whitespace around each is left out,
    and blank ones do not count"""

    @model_validator(mode="after")
    def _one_source(self) -> Self:
        if self.expected is not None and self.separator is not None:
            raise ValueError("found both expected and separator, expected separator only where the reference is read")
        return self

    @property
    def expected_texts(self) -> tuple[str, ...]:
        """The answers under `expected`, as a tuple; none where it is not given."""
        if self.expected is None:
            return ()
        return (self.expected,) if isinstance(self.expected, str) else self.expected


@dataclass(frozen=True, slots=True)
class Accepted:
    """The accepted answers of a shard's rows, as pairs of a row and a text.

    texts: (text,), no nulls. rows: (pair,), ascending, and places: (pair,), the text's place in `texts`. refusals:
    (row,), why a row's reference is not read, so that it has no answer here; null elsewhere.
    """

    texts: pa.Array
    rows: Places
    places: Places
    row_count: int
    refusals: pa.StringArray

    @property
    def has_answer(self) -> Mask:
        """(row,)."""
        has_answer = np.zeros(self.row_count, np.bool_)
        has_answer[self.rows] = True
        return has_answer

    @property
    def reasons(self) -> pa.StringArray:
        """Why a row can't be told: (row,)."""
        return pc.coalesce(self.refusals, evidence_where(pa.array(~self.has_answer), NO_REFERENCE))

    def is_any(self, is_met: Mask) -> pa.BooleanArray:
        """Whether a row meets one of its answers, null where it has none. is_met: (pair,). Returns (row,)."""
        is_any = np.zeros(self.row_count, np.bool_)
        is_any[self.rows[is_met]] = True
        return pa.array(is_any, mask=~self.has_answer)

    def best(self, values: NDArray[np.float64]) -> NDArray[np.float64]:
        """The greatest value over a row's answers, NaN where it has none or one of them is NaN.

        values: (pair,). Returns (row,).
        """
        best = np.full(self.row_count, np.nan)
        if len(values):
            edges = np.flatnonzero(np.concatenate(([True], self.rows[1:] != self.rows[:-1])))
            best[self.rows[edges]] = np.fmax.reduceat(values, edges)
            best[self.rows[np.isnan(values)]] = np.nan
        return best

    def equal(self, outputs: pa.Array, texts: pa.Array) -> Mask:
        """Whether the two sides of each pair are the same. outputs: (row,), texts: (text,). Returns (pair,)."""
        both = pa.chunked_array([outputs, texts.cast(outputs.type)]).combine_chunks()
        ids = both.dictionary_encode().indices.to_numpy()
        is_equal: Mask = ids[self.rows] == ids[self.places + len(outputs)]
        return is_equal

    def without(self, is_dropped: pa.BooleanArray) -> "Accepted":
        """The same without some of the texts. is_dropped: (text,)."""
        return self._only(~is_dropped.to_numpy(zero_copy_only=False)[self.places])

    def without_rows(self, is_dropped: Mask) -> "Accepted":
        """The same with no answer for some of the rows. is_dropped: (row,)."""
        return self._only(~is_dropped[self.rows]) if is_dropped.any() else self

    def _only(self, is_kept: Mask) -> "Accepted":
        """is_kept: (pair,)."""
        return Accepted(self.texts, self.rows[is_kept], self.places[is_kept], self.row_count, self.refusals)

    def places_by_row(self) -> list[list[int]]:
        """The places of each row's texts: [row] of [answer]."""
        edges = np.searchsorted(self.rows, np.arange(self.row_count + 1)).tolist()
        places = self.places.tolist()
        return [places[start:stop] for start, stop in itertools.pairwise(edges)]

    def expected_words(self, is_missed: pa.BooleanArray) -> pa.StringArray:
        """What was expected: "'Paris'", "'Paris' or 2 others". is_missed: (row,), each true one with an answer.

        Returns (true row,).
        """
        rows = np.flatnonzero(is_missed.to_numpy(zero_copy_only=False))
        starts, stops = (np.searchsorted(self.rows, rows, side) for side in ("left", "right"))
        excerpts = cut_texts(self.texts.take(pa.array(self.places[starts])), EXCERPT_CHARACTERS)
        others = pa.array([_other_words(count) for count in (stops - starts - 1).tolist()], pa.string())
        return join_texts("'", excerpts.cast(pa.string()), "'", others)


def _other_words(count: int) -> str:
    return "" if count == 0 else f" or {count} other{'s' * (count > 1)}"


def accepted_answers(shard: pa.Table, settings: AcceptedSettings, most_characters: int | None = None) -> Accepted:
    """The accepted answers of each row: those of `expected`, else those in its reference.

    most_characters: of a reference; a longer one is not read, and the row can't be told.
    """
    row_count = shard.num_rows
    refusals = pa.nulls(row_count, pa.string())
    expected = settings.expected_texts
    if expected:
        every = np.arange(len(expected))
        texts = pa.array(expected, pa.string())
        rows = np.repeat(np.arange(row_count), len(expected))
        return Accepted(texts, rows, np.tile(every, row_count), row_count, refusals)
    references = text_column(shard, "reference")
    if most_characters is not None:
        is_long = pc.fill_null(pc.greater(pc.utf8_length(references), most_characters), False)
        refusals = evidence_where(is_long, f"reference too long, at most {most_characters} characters are read")
        references = pc.if_else(is_long, pa.scalar(None, references.type), references)
    rows = np.flatnonzero(references.is_valid().to_numpy(zero_copy_only=False))
    texts = references.drop_null()
    if settings.separator is not None:
        parts = pc.split_pattern(texts, settings.separator)
        rows = rows[pc.list_parent_indices(parts).to_numpy()]
        texts = pc.utf8_trim_whitespace(pc.list_flatten(parts))
        is_given = pc.not_equal(texts, "").to_numpy(zero_copy_only=False)
        is_crowded = np.bincount(rows[is_given], minlength=row_count) > MOST_ANSWERS
        is_read = is_given & ~is_crowded[rows]
        rows, texts = rows[is_read], texts.filter(pa.array(is_read))
        crowded = evidence_where(pa.array(is_crowded), f"too many answers in the reference, at most {MOST_ANSWERS}")
        refusals = pc.coalesce(refusals, crowded)
    return Accepted(texts, rows, np.arange(len(texts)), row_count, refusals)
