"""The files of a plan, read: what each shard wants of the judges, and what the ledger holds of it."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rubrics.model import Rubric
from tasks.case_criteria import CASE_CRITERIA
from tasks.judging.panels import Opinion
from tasks.workspace import RunFolder


def shard_plan_files(folder: RunFolder, rubric: Rubric, shard_index: int) -> list[Path]:
    """The plan files of a shard that are there: of the judged criteria, then of those that rows bring along."""
    names = [criterion.id for criterion in rubric.judged_criteria]
    files = [folder.plan_file(name, shard_index) for name in (*names, CASE_CRITERIA)]
    return [file for file in files if file.exists()]


def open_keys(folder: RunFolder, judge_index: int) -> Iterator[str]:
    """The request keys that the plan of a run leaves to one of its judges; equal ones may come again."""
    for file in sorted(folder.plan_folder.rglob("*.parquet")):
        planned = pq.read_table(file, columns=["request_key", "judge_index", "status"])
        is_open = pc.and_(pc.is_null(planned.column("status")), pc.equal(planned.column("judge_index"), judge_index))
        yield from planned.column("request_key").filter(is_open).to_pylist()


def rows_of(table: pa.Table, opinion: Opinion) -> pa.Table:
    """The rows of a plan, or of whatever has its columns, that are about one opinion."""
    is_swapped = table.column("is_swapped")
    is_it = pc.and_(
        pc.and_(
            pc.equal(table.column("judge_index"), opinion.judge_index),
            pc.equal(table.column("replicate"), opinion.replicate),
        ),
        is_swapped if opinion.is_swapped else pc.invert(is_swapped),
    )
    return table if pc.all(is_it).as_py() else table.filter(is_it)
