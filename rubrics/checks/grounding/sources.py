"""Sources of an output: the texts of the row's context, prompt or reference."""

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
    """Rows that have every source: (output,)."""
    return reduce(pc.and_, [text_column(shard, name).is_valid() for name in names])


def source_texts(shard: pa.Table, names: Sequence[SourceName], mask: pa.BooleanArray) -> list[list[str]]:
    """Texts of the sources of each row of the mask, in order. Every row of the mask has all sources."""
    columns = [text_column(shard, name).filter(mask).to_pylist() for name in names]
    return [[text for source in row for text in _passages(source)] for row in zip(*columns, strict=True)]


def _passages(source: str | list[str | None]) -> list[str]:
    return [source] if isinstance(source, str) else [passage or "" for passage in source]


def unjudged(has_all: pa.BooleanArray, names: Sequence[SourceName], is_passed: bool, evidence: str) -> CheckVerdicts:
    """Verdicts of rows with nothing to search; null with a reason if a source is missing. has_all: (output,)."""
    return CheckVerdicts(
        pc.if_else(has_all, is_passed, pa.scalar(None, pa.bool_())),
        evidence_where(has_all, evidence),
        evidence_where(pc.invert(has_all), f"no {' or no '.join(names)}"),
    )
