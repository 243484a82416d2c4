"""Outputs that criteria with a condition apply to: filtered shards, written once for each condition of a run."""

from collections.abc import Iterator, Sequence
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gradebook.rubrics.check_kit.columns import text_column
from gradebook.rubrics.checks.conditions import absent_fields, apply_condition, condition_columns
from gradebook.rubrics.model.json_values import canonical_json, digest_of
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.model.verdicts import verdict_table
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.datasets.shards import write_shard
from gradebook.tasks.system.files import write_parquet
from gradebook.tasks.workspace.folder import RunFolder


def write_applied_shards(folder: RunFolder, rubric: Rubric, shards: Sequence[str]) -> None:
    """Write, for each condition of a rubric and each shard, the rows that meet it, and the ids of the other rows.

    Raises `InputError` as `apply_condition`.
    """
    by_condition = {_condition_key(criterion): criterion for criterion in rubric.conditional_criteria}
    for criterion in by_condition.values():
        for index, shard in enumerate(shards):
            columns = ["output_id", *dict.fromkeys(("case_id", *condition_columns(criterion)))]
            rows = pq.read_table(shard, columns=columns)
            applied = apply_condition(criterion, rows)
            left_out = pa.table({"output_id": rows.column("output_id"), "reason": applied.reasons})
            write_parquet(_left_out_file(folder, criterion, index), left_out.filter(~applied.mask))
            write_shard(pq.read_table(shard).filter(applied.mask), _applied_file(folder, criterion, index))


def applied_shard(folder: RunFolder, criterion: Criterion, shard: str, shard_index: int) -> str:
    """Shard with the outputs that the criterion applies to: the shard itself without a condition."""
    return shard if criterion.applies is None else str(_applied_file(folder, criterion, shard_index))


def left_out_ids(folder: RunFolder, criterion: Criterion, shard_index: int) -> frozenset[str]:
    """Ids of a shard's outputs that the criterion does not apply to."""
    if criterion.applies is None:
        return frozenset()
    return frozenset(pq.read_table(_left_out_file(folder, criterion, shard_index)).column("output_id").to_pylist())


def applied_count(folder: RunFolder, criterion: Criterion, shards: Sequence[str]) -> int:
    """Number of outputs that the criterion applies to."""
    return sum(
        pq.read_metadata(applied_shard(folder, criterion, shard, index)).num_rows for index, shard in enumerate(shards)
    )


def with_left_out(
    folder: RunFolder, criterion: Criterion, verdicts: pa.Table, shard: str, shard_index: int
) -> pa.Table:
    """Verdicts over a whole shard, in its order; outputs that the criterion does not apply to get the reason.

    verdicts: at least those on the outputs that it applies to.
    """
    output_ids = pq.read_table(shard, columns=["output_id"]).column(0)
    left_out = pq.read_table(_left_out_file(folder, criterion, shard_index))
    left_ids, reasons = (text_column(left_out, name) for name in ("output_id", "reason"))
    nothing = pa.nulls(len(left_ids), pa.string()), pa.nulls(len(left_ids), pa.float64())
    excused = verdict_table(folder.run_id, criterion, left_ids, *nothing, reasons=reasons)
    all_verdicts = pa.concat_tables([excused, verdicts])  # the first row of an id counts
    return all_verdicts.take(pc.index_in(output_ids, text_column(all_verdicts, "output_id")))


def condition_notes(folder: RunFolder, rubric: Rubric, shards: Sequence[str], output_count: int) -> Iterator[str]:
    """Sentence for each criterion with a condition: the count of outputs it applies to, and fields that no row has."""
    for criterion in rubric.conditional_criteria:
        count = applied_count(folder, criterion, shards)
        amount = "none of" if not count else "all" if count == output_count else f"{count:,} of"
        absent = _absent_fields(criterion, shards) if not count else []
        why = f"; no row has {', '.join(absent)}" if absent else ""
        yield f"{criterion.id} applies to {amount} {counted(output_count, 'output')}: {criterion.applies}{why}"


def _absent_fields(criterion: Criterion, shards: Sequence[str]) -> list[str]:
    texts = {text for shard in shards for text in pq.read_table(shard, columns=["metadata"])[0].unique().to_pylist()}
    return absent_fields(criterion, texts)


def _condition_key(criterion: Criterion) -> str:
    applies = criterion.applies
    return digest_of(applies if isinstance(applies, str) else canonical_json(applies.model_dump() if applies else None))


def _applied_file(folder: RunFolder, criterion: Criterion, shard_index: int) -> Path:
    return folder.path / "applied" / _condition_key(criterion) / f"shard-{shard_index:05d}.parquet"


def _left_out_file(folder: RunFolder, criterion: Criterion, shard_index: int) -> Path:
    return folder.path / "applied" / _condition_key(criterion) / f"left-out-{shard_index:05d}.parquet"
