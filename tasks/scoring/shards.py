"""One criterion over one shard, whatever its method; and all criteria of a shard, put together."""

from collections.abc import Callable
from contextlib import nullcontext
from functools import partial
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from rubrics.checks import find_check
from rubrics.model import Criterion, Rubric
from rubrics.verdicts import VERDICT_SCHEMA
from tasks.case_criteria import CASE_CRITERIA
from tasks.computing import COMPUTING
from tasks.files import write_parquet
from tasks.progress import reporter
from tasks.scoring.case_criteria import score_case_criteria
from tasks.scoring.checks import score_check
from tasks.scoring.judge import Session, score_judge, score_without_judge
from tasks.scoring.ratings import score_ratings
from tasks.scoring.schema import score_schema
from tasks.scoring.unsupported import leave_unscored
from tasks.timings import Timing, timed
from tasks.workspace import RunFolder


def score_shard(folder: RunFolder, criterion: Criterion, shard: str, shard_index: int, session: Session | None) -> Path:
    """Write the verdicts of one criterion over one shard and return the file's path.

    A file that an earlier, interrupted command wrote is kept as it is, unless a verdict in it waits for a judge.
    """
    turn = nullcontext() if criterion.method.type == "judge" else COMPUTING
    path = folder.verdict_file(criterion.id, shard_index)
    with turn:
        return _scored_once(
            folder, criterion.id, path, session, partial(_score, folder, criterion, shard, shard_index, session)
        )


def score_own_criteria(folder: RunFolder, shard: str, shard_index: int, session: Session | None) -> Path:
    """Write the verdicts on the criteria that the rows of a shard bring along, and return the file's path."""
    path = folder.verdict_file(CASE_CRITERIA, shard_index)
    score = partial(score_case_criteria, folder, shard, shard_index, session)
    return _scored_once(folder, CASE_CRITERIA, path, session, score)


def _scored_once(
    folder: RunFolder, name: str, path: Path, session: Session | None, score: Callable[[Timing], pa.Table]
) -> Path:
    if path.exists() and not (session and _has_gaps(path)):
        reporter().advance("score", pq.read_metadata(path).num_rows)
        return path
    with timed(folder, "score", name) as timing:
        verdicts = score(timing)
        timing.row_count = verdicts.num_rows
        write_parquet(path, verdicts)
    reporter().advance("score", verdicts.num_rows)
    return path


def collect_shard(folder: RunFolder, rubric: Rubric, shard_index: int) -> pa.Table:
    """Put the verdicts of all criteria over one shard into one file; returns them, as `VERDICT_SCHEMA`."""
    files = [folder.verdict_file(criterion.id, shard_index) for criterion in rubric.criteria]
    if folder.case_criteria_file(shard_index).exists():
        files.append(folder.verdict_file(CASE_CRITERIA, shard_index))
    tables = [pq.read_table(file, schema=VERDICT_SCHEMA) for file in files]
    verdicts = pa.concat_tables(tables or [VERDICT_SCHEMA.empty_table()])
    write_parquet(folder.collected_file(shard_index), verdicts)
    return verdicts


def _score(
    folder: RunFolder, criterion: Criterion, shard: str, shard_index: int, session: Session | None, timing: Timing
) -> pa.Table:
    run_id, method = folder.run_id, criterion.method
    if method.type == "ratings":
        return score_ratings(run_id, criterion, _read_columns(shard), folder.ratings_file)
    if method.type == "judge":
        if session is None:
            return score_without_judge(run_id, criterion, _read_columns(shard).column("output_id").to_pylist())
        return score_judge(run_id, criterion, shard, folder.plan_file(criterion.id, shard_index), session, timing)
    if method.type == "check":
        return score_check(run_id, criterion, _read_columns(shard, *find_check(method.check).columns))
    if method.type == "schema":
        return score_schema(run_id, criterion, _read_columns(shard, "output"))
    return leave_unscored(run_id, criterion, _read_columns(shard))


def _read_columns(shard: str, *names: str) -> pa.Table:
    """Only what the criterion looks at: several shards are in memory at once."""
    return pq.read_table(shard, columns=["output_id", *names])


def _has_gaps(path: Path) -> bool:
    statuses = pq.read_table(path, columns=["status", "request_key"]).to_pydict()
    return "unscored" in statuses["status"] and any(statuses["request_key"])
