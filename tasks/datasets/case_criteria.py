"""Per-case criteria of rows, stored as one file per shard for planning, scoring and marts."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gradebook.rubrics.files.case_criteria import (
    CASE_CRITERIA_SCHEMA,
    case_criteria_table,
    read_case_criteria_text,
    read_case_criterion,
)
from gradebook.rubrics.model.errors import Fault, OutputsError
from gradebook.rubrics.model.rubric import CaseCriterion, Rubric
from gradebook.tasks.datasets.discovery import read_rows
from gradebook.tasks.datasets.row_parser import RowFitter
from gradebook.tasks.system.files import write_parquet
from gradebook.tasks.workspace.folder import RunFolder

OwnScores = dict[tuple[str, str, str], dict[str, float]]
CASE_CRITERIA = "(own)"  # replaces a criterion's id in names of folders and tasks; real ids have no brackets


@dataclass(frozen=True, slots=True)
class OwnCriterion:
    """One per-case criterion of a shard. row_indices: (output,), positions in the shard."""

    criterion: CaseCriterion
    row_indices: pa.Array


@dataclass(frozen=True, slots=True)
class OwnCount:
    """Number of outputs with per-case criteria, of those criteria, and of criteria by method."""

    output_count: int = 0
    criterion_count: int = 0
    methods: Mapping[str, int] = field(default_factory=dict)


def write_case_criteria(folder: RunFolder, shards: tuple[str, ...]) -> OwnCount:
    """Write a file for each shard with per-case criteria; returns their counts."""
    for index, shard in enumerate(shards):
        texts = pq.read_table(shard, columns=["output_id", "criteria"])
        if texts.column("criteria").null_count == texts.num_rows:
            continue
        laid_out = case_criteria_table(*(texts.column(name).to_pylist() for name in ("output_id", "criteria")))
        if laid_out.num_rows:
            write_parquet(folder.case_criteria_file(index), laid_out)
    return count_case_criteria(folder)


def count_case_criteria(folder: RunFolder) -> OwnCount:
    """Count the per-case criteria that `write_case_criteria` wrote."""
    output_count, methods = 0, Counter[str]()
    for file in case_criteria_files(folder):
        written = pq.read_table(file, columns=["row_index", "method"])
        output_count += pc.count_distinct(written.column("row_index")).as_py()
        methods.update(written.column("method").to_pylist())
    return OwnCount(output_count, methods.total(), dict(methods))


def methods_used(rubric: Rubric, own_count: OwnCount) -> set[str]:
    """Methods of the rubric's criteria and of per-case criteria."""
    return {*own_count.methods, *(criterion.method.type for criterion in rubric.criteria)}


def taken_ids(rubric: Rubric) -> tuple[str, ...]:
    """Ids that per-case criteria must not use: those of the rubric's criteria and its overall row."""
    return (*(criterion.id for criterion in rubric.criteria), *(["overall"] if rubric.overall else []))


def refuse_no_criteria(rubric: Rubric, own_count: OwnCount) -> None:
    """Raise `OutputsError` if neither the rubric nor any row has a criterion."""
    if not rubric.criteria and not own_count.criterion_count:
        raise no_criteria()


def no_criteria() -> OutputsError:
    """Error of outputs without any criterion."""
    message = "found no row with criteria of its own, expected some for --rubric none"
    return OutputsError((Fault("outputs", None, message),))


def own_level_scores(
    files: Sequence[Path], column_map: Mapping[str, str], trace_format: str | None = None, model: str | None = None
) -> OwnScores:
    """Level scores of a dataset's per-case criteria, by case, model and criterion.

    Skips rows that do not fit: the ingest refuses them.
    """
    fitter = RowFitter(column_map, is_unscored_allowed=True)
    scores: OwnScores = {}
    for raw in read_rows(files, column_map, trace_format=trace_format, model=model):
        fitted = raw.content if isinstance(raw.content, str) else fitter.fit(raw.content, raw.format)
        if isinstance(fitted, str) or fitted.criteria is None:
            continue
        for criterion in read_case_criteria_text(fitted.criteria):
            levels = {level.id: level.score for level in criterion.ranked_levels}
            scores.setdefault((fitted.case_id, fitted.model, criterion.id), {}).update(levels)
    return scores


def judged_names(rubric: Rubric) -> list[str]:
    """Names of plan files with questions for a level: the judged criteria, then one for all per-case criteria."""
    return [*(criterion.id for criterion in rubric.judged_criteria), CASE_CRITERIA]


def case_criteria_files(folder: RunFolder) -> list[Path]:
    """Files of the shards with per-case criteria, in order."""
    return sorted(folder.case_criteria_file(0).parent.glob("*.parquet"))


def read_case_criteria(folder: RunFolder, shard_index: int) -> pa.Table:
    """Per-case criteria of a shard as `CASE_CRITERIA_SCHEMA`; without rows if there are none."""
    path = folder.case_criteria_file(shard_index)
    return pq.read_table(path, schema=CASE_CRITERIA_SCHEMA) if path.exists() else CASE_CRITERIA_SCHEMA.empty_table()


def own_criteria(folder: RunFolder, shard_index: int, *methods: str) -> Iterator[OwnCriterion]:
    """Distinct per-case criteria of a shard with their rows, restricted to the named methods (none: all)."""
    table = read_case_criteria(folder, shard_index)
    if methods:
        table = table.filter(pc.is_in(table.column("method"), pa.array(methods)))
    grouped = table.group_by("body", use_threads=False).aggregate([("row_index", "list")])
    for body, row_indices in zip(grouped.column("body").to_pylist(), grouped.column("row_index_list"), strict=True):
        yield OwnCriterion(read_case_criterion(body), row_indices.values)
