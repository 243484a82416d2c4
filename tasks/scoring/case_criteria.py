"""Verdicts on the criteria that the rows of a shard bring along: rows with the same criterion are scored together."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from rubrics.checks import find_check
from rubrics.methods import CheckMethod
from rubrics.model import CaseCriterion
from rubrics.verdicts import VERDICT_SCHEMA
from tasks.case_criteria import CASE_CRITERIA, OwnCriterion, own_criteria
from tasks.computing import COMPUTING
from tasks.scoring.checks import score_check
from tasks.scoring.judge import Session, judge_outputs, judged_table, score_without_judge
from tasks.scoring.ratings import score_ratings
from tasks.scoring.schema import score_schema
from tasks.scoring.unsupported import leave_unscored
from tasks.timings import Timing
from tasks.workspace import RunFolder


def score_case_criteria(
    folder: RunFolder, shard: str, shard_index: int, session: Session | None, timing: Timing
) -> pa.Table:
    """Score a shard's outputs by the criteria of their rows: `VERDICT_SCHEMA`, a row an output and own criterion."""
    own = list(own_criteria(folder, shard_index))
    judged = [entry for entry in own if entry.criterion.method.type == "judge"]
    others = [entry for entry in own if entry.criterion.method.type != "judge"]
    with COMPUTING:
        tables = list(_score_others(folder, others, shard))
    if judged:
        tables += _score_judged(folder, judged, shard, shard_index, session, timing)
    return pa.concat_tables(tables or [VERDICT_SCHEMA.empty_table()])


def _score_others(folder: RunFolder, own: list[OwnCriterion], shard: str) -> Iterator[pa.Table]:
    columns = {"output_id", "output"}
    for entry in own:
        if isinstance(entry.criterion.method, CheckMethod):
            columns.update(find_check(entry.criterion.method.check).columns)
    if not own:
        return
    outputs = pq.read_table(shard, columns=sorted(columns))
    for entry in own:
        yield _score(folder, entry.criterion, outputs.take(entry.row_indices).combine_chunks())


def _score(folder: RunFolder, criterion: CaseCriterion, rows: pa.Table) -> pa.Table:
    run_id, method = folder.run_id, criterion.method.type
    if method == "check":
        return score_check(run_id, criterion, rows)
    if method == "schema":
        return score_schema(run_id, criterion, rows)
    if method == "ratings":
        return score_ratings(run_id, criterion, rows, folder.ratings_file)
    return leave_unscored(run_id, criterion, rows)


def _score_judged(
    folder: RunFolder, own: list[OwnCriterion], shard: str, shard_index: int, session: Session | None, timing: Timing
) -> Iterator[pa.Table]:
    output_ids = pq.read_table(shard, columns=["output_id"]).column(0)
    rows_of = [(entry.criterion, output_ids.take(entry.row_indices).to_pylist()) for entry in own]
    if session is None:
        for criterion, ids in rows_of:
            yield score_without_judge(folder.run_id, criterion, ids)
        return
    criteria_of: dict[str, list[CaseCriterion]] = {}
    for criterion, ids in rows_of:
        for output_id in ids:
            criteria_of.setdefault(output_id, []).append(criterion)
    plan_file = folder.plan_file(CASE_CRITERIA, shard_index)
    verdicts = judge_outputs(
        folder.run_id, lambda output_id: criteria_of.get(output_id, ()), shard, plan_file, session, timing
    )
    for criterion, ids in rows_of:
        yield judged_table(folder.run_id, criterion, [verdicts[output_id, criterion.id] for output_id in ids])
