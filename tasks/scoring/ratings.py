"""Verdicts of people: ratings given in a file, or kept in the lake by an earlier run."""

import json
import os
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

import duckdb
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator

from rubrics.errors import Fault, OutputsError, RatingsError
from rubrics.model import Criterion, Rubric
from rubrics.verdicts import verdict_table
from tasks.files import write_parquet
from tasks.formats import RawRow, encoding_of, read_format
from tasks.lake import Lake, connect
from tasks.workspace import RunFolder

RATING_SCHEMA = pa.schema(
    [
        pa.field("output_id", pa.string(), nullable=False),
        pa.field("criterion_id", pa.string(), nullable=False),
        pa.field("rater", pa.string(), nullable=False),
        pa.field("level_id", pa.string()),
        pa.field("score", pa.float64(), nullable=False),
        pa.field("notes", pa.string()),
        pa.field("rated_at", pa.timestamp("us", tz="UTC")),
        pa.field("source", pa.string(), nullable=False),
    ]
)
SLOT_SCHEMA = pa.schema(
    [
        pa.field("case_id", pa.string()),
        pa.field("model", pa.string()),
        pa.field("checkpoint", pa.string()),
        pa.field("sample_index", pa.int32()),
        *(field for field in RATING_SCHEMA if field.name != "output_id"),
        pa.field("line", pa.int64()),
    ]
)
NOT_RATED = "not_rated"


def _text(value: Any) -> Any:
    return str(value) if isinstance(value, int) and not isinstance(value, bool) else value


def _blank_as_none(value: Any) -> Any:
    return None if value == "" else value


Text = Annotated[str, BeforeValidator(_text), Field(min_length=1)]
OptionalText = Annotated[str | None, BeforeValidator(_blank_as_none), BeforeValidator(_text)]


class RatingRow(BaseModel):
    """A row of a ratings file: which output, which criterion, who, and a level or a score in 0..1."""

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
    rated_at: Annotated[datetime | None, BeforeValidator(_blank_as_none)] = None

    @model_validator(mode="after")
    def _level_or_score(self) -> "RatingRow":
        if (self.level_id is None) == (self.score is None):
            raise ValueError("found a level_id and a score, or neither; expected one of them")
        return self


def read_ratings(path: Path, rubric: Rubric) -> pa.Table:
    """Read a ratings file (JSON Lines or CSV) as `SLOT_SCHEMA`. Raises `RatingsError` with every fault."""
    faults: list[Fault] = []
    rows: list[dict[str, Any]] = []
    try:
        for raw in _read_rows(path):
            _take_row(raw, rubric, rows, faults)
    except OutputsError as error:  # the file as a whole
        raise RatingsError(error.faults) from error
    if not rows and not faults:
        faults.append(Fault(str(path), None, "found no ratings, expected at least one"))
    if faults:
        raise RatingsError(tuple(faults))
    return pa.Table.from_pylist(rows, schema=SLOT_SCHEMA)


def _take_row(raw: RawRow, rubric: Rubric, rows: list[dict[str, Any]], faults: list[Fault]) -> None:
    try:
        if isinstance(raw.content, str):
            raise ValueError(raw.content)
        rows.append(_rating(RatingRow.model_validate(raw.content), rubric, raw.source, raw.line))
    except ValidationError as error:
        faults.extend(Fault(raw.source, raw.line, _sentence(detail)) for detail in error.errors())
    except ValueError as error:
        faults.append(Fault(raw.source, raw.line, str(error)))


def _read_rows(path: Path) -> Iterator[RawRow]:
    encoding = encoding_of(path)
    if encoding is None or encoding.format == "parquet":
        message = f"found the suffix {path.suffix or 'none'}, expected a file of ratings: .jsonl or .csv"
        raise RatingsError((Fault(str(path), None, message),))
    if not os.path.isfile(path):  # noqa: PTH113 - Path raises where a name is too long
        raise RatingsError((Fault(str(path), None, "found no such file, expected a file of ratings"),))
    return read_format(path, encoding, _column_faults)


def _column_faults(path: str, line: int | None, columns: Iterable[str]) -> tuple[Fault, ...]:
    missing = [name for name, column in RatingRow.model_fields.items() if column.is_required() and name not in columns]
    found = ", ".join(columns)
    return tuple(Fault(path, line, f"found the columns {found}, expected {name} among them") for name in missing)


def match_ratings(lake: Lake, folder: RunFolder, shards: tuple[str, ...], ratings: pa.Table | None) -> int:
    """Write the run's ratings, by output: those of the file and those that the lake holds.

    Returns how many ratings of the file fit no output.

    Raises `RatingsError` for a rating that fits several outputs.
    """
    with connect(lake, read_only=True) as connection:
        connection.execute(
            "create temp view run_outputs as from read_parquet($shards)".replace("$shards", _literal(shards))
        )
        connection.register("file_ratings", ratings if ratings is not None else SLOT_SCHEMA.empty_table())
        _refuse_ambiguous(connection)
        names = ", ".join(RATING_SCHEMA.names)
        matched = connection.execute(
            f"""
            with of_file as (
                select o.output_id, r.* exclude (case_id, model, checkpoint, sample_index, line)
                from file_ratings as r inner join run_outputs as o on {_SAME_SLOT}
            ),

            of_lake as (select * from ratings where output_id in (select output_id from run_outputs))

            select {names} from of_file
            union
            select {names} from of_lake
            order by output_id, criterion_id, rater, rated_at
            """
        ).to_arrow_table()
        unmatched = connection.execute(
            f"select count(*) from file_ratings as r where not exists (from run_outputs as o where {_SAME_SLOT})"
        ).fetchone()
    write_parquet(folder.ratings_file, matched.cast(RATING_SCHEMA))
    return int(unmatched[0]) if unmatched else 0


def score_ratings(run_id: str, criterion: Criterion, shard: str, ratings_file: Path) -> pa.Table:
    """The raters' mean score of each output of a shard; a level where all raters agree. Returns `VERDICT_SCHEMA`."""
    with duckdb.connect() as connection:
        connection.register("shard", pq.read_table(shard, columns=["output_id"]))
        connection.register("levels", pa.table({"level_id": [level.id for level in criterion.scale]}))
        rated = (
            connection.execute(
                """
            with latest as (
                select * from read_parquet($1) where criterion_id = $2
                and (level_id is null or level_id in (select level_id from levels))
                qualify row_number() over (partition by output_id, rater order by rated_at desc nulls last, score) = 1
            ),

            rated as (
                select
                    output_id,
                    avg(score) as score,
                    case when count(distinct level_id) = 1 and count(level_id) = count(*) then min(level_id)
                    end as level_id,
                    string_agg(rater || ': ' || coalesce(level_id, score::varchar), '; ' order by rater) as evidence,
                    string_agg(rater || ': ' || notes, '; ' order by rater) as rationale
                from latest group by output_id
            )

            select s.output_id, r.score, r.level_id, r.evidence, r.rationale
            from (select output_id, row_number() over () as position from shard) as s
                left join rated as r using (output_id)
            order by s.position
            """,
                [str(ratings_file), criterion.id],
            )
            .to_arrow_table()
            .combine_chunks()
        )
    scores = rated.column("score")
    return verdict_table(
        run_id,
        criterion,
        rated.column("output_id"),
        rated.column("level_id"),
        scores,
        reasons=pc.if_else(pc.is_null(scores), NOT_RATED, pa.scalar(None, pa.string())),
        evidence=rated.column("evidence"),
        rationales=rated.column("rationale"),
    )


# A rating that names no checkpoint or sample means the only one there is.
_SAME_SLOT = """r.case_id = o.case_id and r.model = o.model
    and (r.checkpoint is null or r.checkpoint = o.checkpoint)
    and (r.sample_index is null or r.sample_index = o.sample_index)"""


def _refuse_ambiguous(connection: duckdb.DuckDBPyConnection) -> None:
    rows = connection.execute(
        f"""
        select r.source, r.line, r.case_id, r.model, count(*) as fit_count
        from file_ratings as r inner join run_outputs as o on {_SAME_SLOT}
        group by r.source, r.line, r.case_id, r.model having count(*) > 1 order by r.line
        """
    ).fetchall()
    if rows:
        raise RatingsError(
            tuple(
                Fault(
                    source,
                    line,
                    f"{case_id} of {model}: found {fits} outputs, expected one: name checkpoint and sample_index",
                )
                for source, line, case_id, model, fits in rows
            )
        )


def _rating(row: RatingRow, rubric: Rubric, source: str, line: int) -> dict[str, Any]:
    known = {criterion.id: criterion for criterion in rubric.criteria}
    if row.criterion_id not in known:
        raise ValueError(f"criterion_id: found {row.criterion_id!r}, expected one of {', '.join(known)}")
    scores = {level.id: level.score for level in known[row.criterion_id].scale}
    if row.level_id is not None and row.level_id not in scores:
        raise ValueError(f"level_id: found {row.level_id!r}, expected one of {', '.join(scores)}")
    score = row.score if row.level_id is None else scores[row.level_id]
    rated_at = row.rated_at
    if rated_at is not None and rated_at.tzinfo is None:
        rated_at = rated_at.replace(tzinfo=UTC)
    return {**row.model_dump(), "score": score, "rated_at": rated_at, "source": source, "line": line}


def _sentence(detail: Any) -> str:
    name = ".".join(str(part) for part in detail["loc"])
    if detail["type"] == "value_error":
        return str(detail["ctx"]["error"])
    if detail["type"] == "missing":
        return f"{name}: found nothing, expected a value"
    if detail["type"] == "extra_forbidden":
        return f"found the unknown column {name!r}, expected {', '.join(RatingRow.model_fields)}"
    return f"{name}: found {json.dumps(detail['input'], default=str)}, expected: {detail['msg']}"


def _literal(paths: tuple[str, ...]) -> str:
    """A list of paths as SQL: a view can't hold a parameter."""
    return "[" + ", ".join("'" + path.replace("'", "''") + "'" for path in paths) + "]"
