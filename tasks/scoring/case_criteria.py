"""Verdicts on the per-case criteria of a shard; rows with the same criterion are scored together."""

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.checks.grading import CheckedCriterion, grade_checked
from gradebook.rubrics.model.methods import CheckMethod
from gradebook.rubrics.model.rubric import CaseCriterion
from gradebook.rubrics.model.verdicts import VERDICT_SCHEMA
from gradebook.tasks.datasets.case_criteria import CASE_CRITERIA, OwnCriterion, own_criteria
from gradebook.tasks.ratings.run_ratings import score_all_ratings
from gradebook.tasks.scoring.computed import check_outputs, leave_unscored, score_schema, stored_columns
from gradebook.tasks.scoring.judge import judge_outputs, score_without_judge
from gradebook.tasks.scoring.setup import ScoringSetup
from gradebook.tasks.system.processes import COMPUTING
from gradebook.tasks.workspace.timings import Timing


def score_case_criteria(setup: ScoringSetup, shard: str, shard_index: int, timing: Timing) -> pa.Table:
    """Score a shard's outputs by their per-case criteria: `VERDICT_SCHEMA`, one row per output and criterion."""
    own = list(own_criteria(setup.folder, shard_index))
    judged = [entry for entry in own if entry.criterion.method.type == "judge"]
    others = [entry for entry in own if entry.criterion.method.type != "judge"]
    with COMPUTING:
        tables = list(_score_others(setup, others, shard))
    if judged:
        tables += _score_judged(setup, judged, shard, shard_index, timing)
    return pa.concat_tables(tables or [VERDICT_SCHEMA.empty_table()])


def _score_others(setup: ScoringSetup, own: list[OwnCriterion], shard: str) -> Iterator[pa.Table]:
    columns = sorted({name for entry in own for name in _columns(entry.criterion)})
    outputs = pq.read_table(shard, columns=columns).combine_chunks()
    # One list each, as a query or a table for each of thousands of criteria would cost more.
    checked: list[CheckedCriterion] = []
    rated: list[tuple[CaseCriterion, pa.ChunkedArray]] = []
    for entry in own:
        rows = outputs.select(_columns(entry.criterion)).take(entry.row_indices)
        if entry.criterion.method.type == "check":
            checked += check_outputs(entry.criterion, rows, setup.dataset_folders)
        elif entry.criterion.method.type == "ratings":
            rated.append((entry.criterion, rows.column("output_id")))
        else:
            yield _score(setup, entry.criterion, rows)
    yield grade_checked(setup.folder.run_id, checked)
    if rated:
        yield score_all_ratings(setup.folder.run_id, rated, setup.folder.ratings_file)


def _columns(criterion: CaseCriterion) -> tuple[str, ...]:
    method = criterion.method
    return ("output_id", *(stored_columns(method.check) if isinstance(method, CheckMethod) else ("output",)))


def _score(setup: ScoringSetup, criterion: CaseCriterion, rows: pa.Table) -> pa.Table:
    run_id, method = setup.folder.run_id, criterion.method.type
    if method == "schema":
        return score_schema(run_id, criterion, rows)
    return leave_unscored(run_id, criterion, rows)


def _score_judged(
    setup: ScoringSetup, own: list[OwnCriterion], shard: str, shard_index: int, timing: Timing
) -> Iterator[pa.Table]:
    output_ids = pq.read_table(shard, columns=["output_id"]).column(0)
    wanted = [(entry.criterion, output_ids.take(entry.row_indices)) for entry in own]
    if setup.judged is None:
        for criterion, ids in wanted:
            yield score_without_judge(setup.folder.run_id, criterion, ids)
        return
    yield judge_outputs(setup.folder, wanted, CASE_CRITERIA, shard, shard_index, setup.judged, timing)
