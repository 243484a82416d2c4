"""What an output is held against: the texts of the row's context, prompt or reference."""

from collections.abc import Sequence
from functools import reduce
from typing import Annotated, Literal

import pyarrow as pa
import pyarrow.compute as pc
from pydantic import Field

from gradebook.rubrics.check_kit.check import CheckVerdicts
from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.check_kit.evidence import evidence_where

SourceName = Literal["context", "prompt", "reference"]
Sources = Annotated[tuple[SourceName, ...], Field(min_length=1)]
SOURCE_COLUMNS = ("output", "context", "prompt", "reference")


def has_sources(shard: pa.Table, names: Sequence[SourceName]) -> pa.BooleanArray:
    """Which rows have each of the sources: (output,)."""
    return reduce(pc.and_, [text_column(shard, name).is_valid() for name in names])


def source_texts(shard: pa.Table, names: Sequence[SourceName], mask: pa.BooleanArray) -> list[list[str]]:
    """The texts of the sources of each row of the mask, in order; each of them has its sources."""
    columns = [text_column(shard, name).filter(mask).to_pylist() for name in names]
    return [[text for source in row for text in _passages(source)] for row in zip(*columns, strict=True)]


def _passages(source: str | list[str | None]) -> list[str]:
    return [source] if isinstance(source, str) else [passage or "" for passage in source]


def unjudged(is_told: pa.BooleanArray, names: Sequence[SourceName], is_passed: bool, evidence: str) -> CheckVerdicts:
    """The verdicts of rows with nothing to look up; null where a source is missing, and says so. is_told: (output,)."""
    return CheckVerdicts(
        pc.if_else(is_told, is_passed, pa.scalar(None, pa.bool_())),
        evidence_where(is_told, evidence),
        evidence_where(pc.invert(is_told), f"no {' or no '.join(names)}"),
    )
