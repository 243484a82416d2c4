"""The criteria that rows bring along, laid out beside their shard for the plan, the scoring and the marts."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gradebook.rubrics.files.case_criteria import CASE_CRITERIA_SCHEMA, case_criteria_table, read_case_criterion
from gradebook.rubrics.model.errors import Fault, OutputsError
from gradebook.rubrics.model.rubric import CaseCriterion, Rubric
from gradebook.tasks.datasets.discovery import read_rows
from gradebook.tasks.datasets.row_parser import RowFitter
from gradebook.tasks.system.files import write_parquet
from gradebook.tasks.workspace.folder import RunFolder

OwnScores = dict[tuple[str, str, str], dict[str, float]]
CASE_CRITERIA = "(own)"  # stands where a criterion's id names a folder or a piece of work; no id has a bracket


@dataclass(frozen=True, slots=True)
class OwnCriterion:
    """One criterion that rows of a shard bring along. row_indices: (output,), their places in the shard."""

    criterion: CaseCriterion
    row_indices: pa.Array


@dataclass(frozen=True, slots=True)
class OwnCount:
    """How many outputs bring criteria along, how many those are in all, and how many of each method."""

    output_count: int = 0
    criterion_count: int = 0
    methods: Mapping[str, int] = field(default_factory=dict)


def write_case_criteria(folder: RunFolder, shards: tuple[str, ...]) -> OwnCount:
    """Write a file for each shard whose rows bring criteria along; returns how many they are."""
    for index, shard in enumerate(shards):
        texts = pq.read_table(shard, columns=["output_id", "criteria"])
        if texts.column("criteria").null_count == texts.num_rows:
            continue
        laid_out = case_criteria_table(*(texts.column(name).to_pylist() for name in ("output_id", "criteria")))
        if laid_out.num_rows:
            write_parquet(folder.case_criteria_file(index), laid_out)
    return count_case_criteria(folder)


def count_case_criteria(folder: RunFolder) -> OwnCount:
    """Count the criteria that the rows of a run bring along, as `write_case_criteria` left them."""
    output_count, methods = 0, Counter[str]()
    for file in case_criteria_files(folder):
        written = pq.read_table(file, columns=["row_index", "method"])
        output_count += pc.count_distinct(written.column("row_index")).as_py()
        methods.update(written.column("method").to_pylist())
    return OwnCount(output_count, methods.total(), dict(methods))


def methods_used(rubric: Rubric, own_count: OwnCount) -> set[str]:
    """The methods of the rubric's criteria and of those that rows bring along."""
    return {*own_count.methods, *(criterion.method.type for criterion in rubric.criteria)}


def taken_ids(rubric: Rubric) -> tuple[str, ...]:
    """The ids that no criterion of a row may have: those of the rubric's criteria, and of its overall row."""
    return (*(criterion.id for criterion in rubric.criteria), *(["overall"] if rubric.overall else []))


def refuse_no_criteria(rubric: Rubric, own_count: OwnCount) -> None:
    """Raise `OutputsError` where neither the rubric nor any row says what to score."""
    if not rubric.criteria and not own_count.criterion_count:
        message = "found no row with criteria of its own, expected some for --rubric none"
        raise OutputsError((Fault("outputs", None, message),))


def own_level_scores(files: Sequence[Path], column_map: Mapping[str, str]) -> OwnScores:
    """The level scores of the criteria that rows of a dataset bring along, by case, model and criterion.

    Rows that do not fit are left out: the ingest refuses them.
    """
    fitter = RowFitter(column_map, is_unscored_allowed=True)
    scores: OwnScores = {}
    for raw in read_rows(files, column_map):
        fitted = raw.content if isinstance(raw.content, str) else fitter.fit(raw.content, raw.format)
        if isinstance(fitted, str) or fitted.criteria is None:
            continue
        for body in case_criteria_table([""], [fitted.criteria]).column("body").to_pylist():
            criterion = read_case_criterion(body)
            levels = {level.id: level.score for level in criterion.ranked_levels}
            scores.setdefault((fitted.case_id, fitted.model, criterion.id), {}).update(levels)
    return scores


def case_criteria_files(folder: RunFolder) -> list[Path]:
    """The files of the shards that have some, in order."""
    return sorted(folder.case_criteria_file(0).parent.glob("*.parquet"))


def read_case_criteria(folder: RunFolder, shard_index: int) -> pa.Table:
    """A shard's own criteria as `CASE_CRITERIA_SCHEMA`; no rows where it has none."""
    path = folder.case_criteria_file(shard_index)
    return pq.read_table(path, schema=CASE_CRITERIA_SCHEMA) if path.exists() else CASE_CRITERIA_SCHEMA.empty_table()


def own_criteria(folder: RunFolder, shard_index: int, *methods: str) -> Iterator[OwnCriterion]:
    """Each distinct own criterion of a shard whose method is among those named (none: all), with its rows."""
    table = read_case_criteria(folder, shard_index)
    if methods:
        table = table.filter(pc.is_in(table.column("method"), pa.array(methods)))
    grouped = table.group_by("body", use_threads=False).aggregate([("row_index", "list")])
    for body, row_indices in zip(grouped.column("body").to_pylist(), grouped.column("row_index_list"), strict=True):
        yield OwnCriterion(read_case_criterion(body), row_indices.values)
