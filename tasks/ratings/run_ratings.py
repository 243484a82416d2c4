"""People's ratings as verdicts of a run, from a file or stored in the lake by an earlier run."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gradebook.rubrics.model.errors import Fault, RatingsError
from gradebook.rubrics.model.methods import JudgeMethod
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.model.verdicts import verdict_rows
from gradebook.tasks.datasets.case_criteria import case_criteria_files
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.rows import make_table
from gradebook.tasks.lake.schema import make_tables
from gradebook.tasks.lake.sql import file_list, open_database, query
from gradebook.tasks.ratings.evaluation_file import PAGE_COLUMNS, RATING_SCHEMA, SLOT_SCHEMA
from gradebook.tasks.rubric_store.questions import add_questions
from gradebook.tasks.system.files import write_parquet
from gradebook.tasks.workspace.folder import RunFolder

MATCHED_SCHEMA = pa.schema(
    [
        *RATING_SCHEMA,
        *PAGE_COLUMNS,
        pa.field("is_from_file", pa.bool_(), nullable=False),  # given with --ratings; else stored in the lake
        pa.field("line", pa.int64(), nullable=False),  # later ones win: line of the file, or the lake's row number
    ]
)
NOT_RATED = "not_rated"
UNMATCHED_COUNT = b"unmatched_count"  # key in the metadata of the run's Parquet file
LAKE_VERSION = b"lake_version"  # key there too: the version whose ratings the run uses


def match_ratings(
    lake: Lake | None, folder: RunFolder, rubric: Rubric, shards: tuple[str, ...], ratings: pa.Table | None
) -> int:
    """Write the run's ratings as `MATCHED_SCHEMA`, by output, from the file and from the lake.

    Ratings of the lake count if they were given under the texts of the run's criteria; the folder has the per-case
    criteria. lake: None if there is none yet. Returns the number of the file's ratings without an output. Ratings
    written by an interrupted command of the same run are left unchanged, so that all verdicts of the run use the same
    ratings.

    Raises `RatingsError` for a rating that matches several outputs.
    """
    unmatched_count = stored_unmatched_count(folder.ratings_file)
    if unmatched_count is not None:
        return unmatched_count
    with connect(lake, read_only=True) if lake else _no_ratings() as connection:
        connection.execute(f"create temp view run_outputs as from read_parquet({file_list(shards)})")
        connection.register("file_ratings", ratings if ratings is not None else SLOT_SCHEMA.empty_table())
        make_table(connection, "ratings/file_matches")
        refuse_ambiguous(connection)
        case_files = [str(file) for file in case_criteria_files(folder)]
        case_criteria = f"read_parquet({file_list(case_files)})" if case_files else None
        add_questions(connection, rubric, case_criteria, "ratings", "adjudications")
        matched = connection.execute(query("ratings/matched_ratings")).to_arrow_table()
        unmatched = connection.execute("select count(*) from file_matches where output_id is null").fetchone()
        unmatched_count = int(unmatched[0]) if unmatched else 0
        version = connection.execute("select id from ducklake_current_snapshot('lake')").fetchall()[0][0] if lake else 0
    schema = MATCHED_SCHEMA.with_metadata({UNMATCHED_COUNT: str(unmatched_count), LAKE_VERSION: str(version)})
    write_parquet(folder.ratings_file, matched.select(schema.names).cast(schema))
    return unmatched_count


def score_ratings(run_id: str, criterion: Criterion, shard: pa.Table, ratings_file: Path) -> pa.Table:
    """Scores of `score_all_ratings`, for one criterion on the outputs of a shard."""
    return score_all_ratings(run_id, [(criterion, shard.column("output_id"))], ratings_file)


def score_all_ratings(
    run_id: str, rated: Sequence[tuple[Criterion, pa.Array | pa.ChunkedArray]], ratings_file: Path
) -> pa.Table:
    """Mean score by the raters for each criterion and output, with a level if all raters agree, as `VERDICT_SCHEMA`.

    rated: criteria with the ids of their outputs; one query for all of them, as per-case criteria may number thousands.
    One rating per rater counts: a rating given with --ratings replaces the lake's for the same output, criterion and
    rater; within each source the latest `rated_at`, then the later line wins. None counts if that one retracts the
    rating. Levels have the score of the current criterion, whatever they were worth when stored.
    """
    indexes = pa.array(np.repeat(np.arange(len(rated)), [len(output_ids) for _, output_ids in rated]))
    chunks = [chunk for _, ids in rated for chunk in (ids.chunks if isinstance(ids, pa.ChunkedArray) else [ids])]
    output_ids = pa.chunked_array(chunks, pa.string()).combine_chunks()
    criterion_ids = pa.array([criterion.id for criterion, _ in rated], pa.string()).take(indexes)
    methods = pa.array([criterion.method.type for criterion, _ in rated], pa.string()).take(indexes)
    scales = [(index, level) for index, (criterion, _) in enumerate(rated) for level in criterion.ranked_levels]
    levels = {
        "place": pa.array([index for index, _ in scales], pa.int64()),
        "level_id": pa.array([level.id for _, level in scales], pa.string()),
        "score": pa.array([level.score for _, level in scales], pa.float64()),
    }
    columns = {"line": pa.array(range(len(indexes)), pa.int64()), "place": indexes}
    with open_database() as connection:
        connection.register("asked", pa.table(columns | {"output_id": output_ids, "criterion_id": criterion_ids}))
        connection.register("levels", pa.table(levels))
        parameters = {"ratings_files": [str(ratings_file)]}
        rated_outputs_table = (
            connection.execute(query("ratings/rated_outputs"), parameters).to_arrow_table().combine_chunks()
        )
    scores = rated_outputs_table.column("score")
    return verdict_rows(
        run_id,
        criterion_ids,
        methods,
        output_ids,
        rated_outputs_table.column("level_id"),
        scores,
        reasons=pc.if_else(pc.is_null(scores), NOT_RATED, pa.scalar(None, pa.string())),
        evidence=rated_outputs_table.column("evidence"),
        rationales=rated_outputs_table.column("rationale"),
    )


@contextmanager
def _no_ratings() -> Iterator[duckdb.DuckDBPyConnection]:
    """Database with the tables of a lake, all empty."""
    with open_database() as connection:
        make_tables(connection)
        yield connection


def ratings_version(ratings_file: Path) -> int | None:
    """Lake version whose ratings the run uses; None if the run has not matched its ratings yet."""
    return _stored_number(ratings_file, LAKE_VERSION)


def stored_unmatched_count(ratings_file: Path) -> int | None:
    """Stored count of unmatched ratings; None where the run has not matched its ratings yet."""
    return _stored_number(ratings_file, UNMATCHED_COUNT)


def _stored_number(ratings_file: Path, name: bytes) -> int | None:
    if not ratings_file.exists():
        return None
    stored = (pq.read_schema(ratings_file).metadata or {}).get(name)
    return None if stored is None else int(stored)


def refuse_ambiguous(connection: duckdb.DuckDBPyConnection) -> None:
    """Raise `RatingsError` if a rating in the table file_matches fits several outputs."""
    rows = connection.execute(
        "select source, line, case_id, model, count(*) as fit_count from file_matches where output_id is not null "
        "group by source, line, case_id, model having count(*) > 1 order by line"
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


def prefers_people(criterion: Criterion) -> bool:
    """Whether ratings of this judged criterion replace the judge's verdicts."""
    return isinstance(criterion.method, JudgeMethod) and criterion.method.prefer == "human"


def has_preferred(rubric: Rubric) -> bool:
    """Whether a run needs ratings although no criterion has the method `ratings`."""
    return any(prefers_people(criterion) for criterion in rubric.criteria)


def rated_outputs(criterion: Criterion, output_ids: Sequence[str], ratings_file: Path) -> frozenset[str]:
    """Outputs that people scored on the criterion; none if the run has no ratings."""
    if not ratings_file.exists() or not prefers_people(criterion):
        return frozenset()
    rated = score_ratings("", criterion, pa.table({"output_id": pa.array(output_ids, pa.string())}), ratings_file)
    return frozenset(rated.filter(pc.field("status") == "scored").column("output_id").to_pylist())
