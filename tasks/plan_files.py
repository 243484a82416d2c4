"""The files of a plan, read: what each shard wants of the judges, and what the ledger holds of it."""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gradebook.rubrics.model import Rubric
from gradebook.tasks.case_criteria import CASE_CRITERIA
from gradebook.tasks.judging.packs import packs_of
from gradebook.tasks.judging.panels import Opinion
from gradebook.tasks.workspace import RunFolder

_PLACE = ("output_id", "criterion_id", "replicate", "is_swapped", "request_key")


def shard_plan_files(folder: RunFolder, rubric: Rubric, shard_index: int) -> list[Path]:
    """The plan files of a shard that are there: of the judged criteria, then of those that rows bring along."""
    names = [criterion.id for criterion in rubric.judged_criteria]
    files = [folder.plan_file(name, shard_index) for name in (*names, CASE_CRITERIA)]
    return [file for file in files if file.exists()]


def open_keys(folder: RunFolder, rubric: Rubric, judge_index: int, packing: int) -> Iterator[str]:
    """The request keys that one judge of a run is going to be asked, see `asked_keys`; equal ones may come again."""
    files: dict[str, list[Path]] = {}
    for file in sorted(folder.plan_folder.rglob("*.parquet")):
        files.setdefault(file.name, []).append(file)  # a shard has the same name under each criterion
    for of_shard in files.values():
        planned = pa.concat_tables(pq.read_table(file, columns=[*_PLACE, "judge_index", "status"]) for file in of_shard)
        mine = planned.filter(pc.equal(planned.column("judge_index"), judge_index))
        yield from asked_keys(mine, pc.is_null(mine.column("status")), rubric, packing)


def asked_keys(planned: pa.Table, is_open: pa.ChunkedArray, rubric: Rubric, packing: int) -> list[str]:
    """The request keys of the open rows, and of those that are asked beside them: a pack is asked whole.

    planned: one judge's rows over a shard, of all criteria. is_open: (row,). packing: criteria a request.
    """
    if packing > 1:
        named = pc.unique(planned.column("criterion_id")).to_pylist()
        beside = [criterion for criterion in rubric.judged_criteria if criterion.id in named]
        first = {each.id: pack[0].id for pack in packs_of(beside, packing) for each in pack}
        places = pc.index_in(planned.column("criterion_id"), pa.array(list(first), pa.string()))
        packs = pc.coalesce(pa.array(list(first.values()), pa.string()).take(places), planned.column("criterion_id"))
        opinions = [planned.column(name).cast(pa.string()) for name in ("replicate", "is_swapped")]
        requests = pc.binary_join_element_wise(planned.column("output_id"), packs, *opinions, " ")
        is_open = pc.is_in(requests, pc.unique(requests.filter(is_open)))
    keys: list[str] = planned.column("request_key").filter(is_open).to_pylist()
    return keys


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
