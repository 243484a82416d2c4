"""Ratings files of `evaluate --ratings`: read whole, with every fault reported at its line."""

import json
import os
from collections.abc import Callable, Iterable, Iterator
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import Annotated, Any

import pyarrow as pa
from pydantic import AfterValidator, BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from gradebook.rubrics.model.errors import Fault, FaultList, OutputsError, RatingsError
from gradebook.rubrics.model.levels import number_as_text
from gradebook.rubrics.model.rubric import OVERALL, Criterion, Overall, Rubric
from gradebook.rubrics.model.steps import in_utc
from gradebook.tasks.datasets.file_formats import RawRow, encoding_of, read_format

RATING_SCHEMA = pa.schema(
    [
        pa.field("output_id", pa.string(), nullable=False),
        pa.field("criterion_id", pa.string(), nullable=False),
        pa.field("rater", pa.string(), nullable=False),
        pa.field("level_id", pa.string()),
        pa.field("score", pa.float64()),  # null without a level: the rater retracted an earlier rating
        pa.field("notes", pa.string()),
        pa.field("rated_at", pa.timestamp("us", tz="UTC")),
        pa.field("source", pa.string(), nullable=False),
        pa.field("question_digest", pa.string()),  # of the text that was rated; null: not recorded
    ]
)
PAGE_COLUMNS = (  # of ratings that the rating page adds to those of a file
    pa.field("selection", pa.string()),
    pa.field("inclusion_rate", pa.float64()),
    pa.field("spent_s", pa.float64()),
    pa.field("gold_score", pa.float64()),
    pa.field("evidence", pa.string()),
)
SLOT_SCHEMA = pa.schema(
    [
        pa.field("case_id", pa.string()),
        pa.field("model", pa.string()),
        pa.field("checkpoint", pa.string()),
        pa.field("sample_index", pa.int32()),
        *(field for field in RATING_SCHEMA if field.name not in ("output_id", "question_digest")),
        pa.field("line", pa.int64()),
    ]
)


OwnScores = Callable[[], dict[tuple[str, str, str], dict[str, float]]]


def _blank_as_none(value: Any) -> Any:
    return None if value == "" else value


def _in_utc(moment: datetime | None) -> datetime | None:
    """A time in UTC; without a zone it is UTC already."""
    if moment is None:
        return None
    return in_utc(moment if moment.tzinfo else moment.replace(tzinfo=UTC))


Text = Annotated[str, BeforeValidator(number_as_text), Field(min_length=1)]
OptionalText = Annotated[str | None, BeforeValidator(_blank_as_none), BeforeValidator(number_as_text)]


class RatingRow(BaseModel):
    """Row of a ratings file: output, criterion, rater, and a level or a score in 0..1."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    case_id: Text
    model: Text
    checkpoint: OptionalText = None
    sample_index: Annotated[int | None, BeforeValidator(_blank_as_none), Field(ge=0, lt=2**31)] = None
    criterion_id: Text
    rater: Text
    level_id: OptionalText = None
    score: Annotated[float | None, BeforeValidator(_blank_as_none), Field(ge=0, le=1)] = None
    notes: OptionalText = None
    rated_at: Annotated[datetime | None, BeforeValidator(_blank_as_none), AfterValidator(_in_utc)] = None

    @model_validator(mode="after")
    def _level_or_score(self) -> "RatingRow":
        if (self.level_id is None) == (self.score is None):
            raise ValueError("found a level_id and a score, or neither; expected one of them")
        return self


def read_ratings(path: Path, rubric: Rubric, own_scores: OwnScores = dict) -> pa.Table:
    """Read a ratings file (JSON Lines or CSV) as `SLOT_SCHEMA`. Raises `RatingsError` with every fault.

    own_scores: returns the level scores of per-case criteria, by case, model and criterion. Called only if a rating
    names no criterion of the rubric.
    """
    faults = FaultList(RatingsError)
    rows: list[dict[str, Any]] = []
    scales = _Scales(rubric, own_scores)
    try:
        for raw in read_rating_rows(path):
            _take_row(raw, scales, rows, faults)
    except OutputsError as error:  # about the file as a whole
        raise RatingsError(error.faults) from error
    faults.raise_any()
    if not rows:
        raise RatingsError((Fault(str(path), None, "found no ratings, expected at least one"),))
    return pa.Table.from_pylist(rows, schema=SLOT_SCHEMA)


def _take_row(raw: RawRow, scales: "_Scales", rows: list[dict[str, Any]], faults: FaultList) -> None:
    try:
        if isinstance(raw.content, str):
            raise ValueError(raw.content)
        rows.append(_rating(RatingRow.model_validate(raw.content), scales, raw.source, raw.line))
    except ValidationError as error:
        faults.add(Fault(raw.source, raw.line, _fault_text(detail)) for detail in error.errors())
    except ValueError as error:
        faults.add([Fault(raw.source, raw.line, str(error))])


def read_rating_rows(path: Path) -> Iterator[RawRow]:
    """Rows of a ratings file, not validated yet. Raises `RatingsError` for a file that can't be one."""
    encoding = encoding_of(path)
    if encoding is None or encoding.format == "parquet":
        message = f"found the suffix {path.suffix or 'none'}, expected a file of ratings: .jsonl or .csv"
        raise RatingsError((Fault(str(path), None, message),))
    if not os.path.isfile(path):  # noqa: PTH113 - Path raises where a name is too long
        raise RatingsError((Fault(str(path), None, "found no such file, expected a file of ratings"),))
    return read_format(path, encoding, _column_faults)


def _column_faults(path: str, line: int | None, columns: Iterable[str]) -> tuple[Fault, ...]:
    missing = [name for name, column in RatingRow.model_fields.items() if column.is_required() and name not in columns]
    column_names = ", ".join(columns)
    return tuple(Fault(path, line, f"found the columns {column_names}, expected {name} among them") for name in missing)


class _Scales:
    """Level scores of the rubric's criteria, its overall row and per-case criteria."""

    def __init__(self, rubric: Rubric, own_scores: OwnScores) -> None:
        self._of_rubric = {criterion.id: _scores(criterion) for criterion in rubric.criteria}
        if rubric.overall:
            self._of_rubric[OVERALL] = _scores(rubric.overall)
        self._own_scores = cache(own_scores)

    def scores(self, case_id: str, model: str, criterion_id: str) -> dict[str, float]:
        """Score by level. Raises `ValueError` if the criterion is unknown."""
        scores = self._of_rubric.get(criterion_id) or self._own_scores().get((case_id, model, criterion_id))
        if scores is None:
            names = ", ".join(self._of_rubric) or "a criterion of the row"
            raise ValueError(f"criterion_id: found {criterion_id!r}, expected one of {names}")
        return scores


def _scores(criterion: Criterion | Overall) -> dict[str, float]:
    return {level.id: level.score for level in criterion.ranked_levels}


def _rating(row: RatingRow, scales: _Scales, source: str, line: int) -> dict[str, Any]:
    scores = scales.scores(row.case_id, row.model, row.criterion_id)
    if row.level_id is not None and row.level_id not in scores:
        raise ValueError(f"level_id: found {row.level_id!r}, expected one of {', '.join(scores)}")
    score = row.score if row.level_id is None else scores[row.level_id]
    return {**row.model_dump(), "score": score, "source": source, "line": line}


def _fault_text(detail: Any) -> str:
    name = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "value_error":
        return ": ".join(filter(None, (name, str(detail["ctx"]["error"]))))
    if detail["type"] == "missing":
        return f"{name}: found nothing, expected a value"
    if detail["type"] == "extra_forbidden":
        return f"found the unknown column {name!r}, expected {', '.join(RatingRow.model_fields)}"
    return f"{name}: found {json.dumps(detail['input'], default=str)}, expected: {detail['msg']}"
