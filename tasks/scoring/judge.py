"""Verdicts of a judge: taken from the ledger if stored there, otherwise asked output by output."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.verdicts import verdict_table
from gradebook.tasks.judging.opinions.cascade import used_rows
from gradebook.tasks.judging.opinions.rows import (
    OpinionRows,
    combined_verdicts,
    first_judge_unsure,
    opinion_rows,
    opinion_scores,
    place_keys,
    rows_of,
)
from gradebook.tasks.judging.settings.panels import CascadeSettings, has_several, wanted_opinions
from gradebook.tasks.scoring.judge_shard import JudgedShards, SavedCosts
from gradebook.tasks.system.files import write_parquet
from gradebook.tasks.workspace.folder import RunFolder
from gradebook.tasks.workspace.timings import Timing

NO_JUDGE = "no_judge: the run had no --judge"


def score_judge(
    folder: RunFolder, criterion: Criterion, shard: str, shard_index: int, judged: JudgedShards, timing: Timing
) -> pa.Table:
    """Judge one criterion over one shard. Returns `VERDICT_SCHEMA`, one row per output, in the shard's order.

    Raises as `JudgedShards.answers`.
    """
    output_ids = pq.read_table(shard, columns=["output_id"]).column(0)
    wanted = [(criterion, output_ids)]
    return judge_outputs(folder, wanted, criterion.id, shard, shard_index, judged, timing)


def judge_outputs(
    folder: RunFolder,
    wanted: Sequence[tuple[Criterion, pa.ChunkedArray]],
    plan_name: str,
    shard: str,
    shard_index: int,
    judged: JudgedShards,
    timing: Timing,
) -> pa.Table:
    """Judge outputs of a shard, each on its own criterion: `VERDICT_SCHEMA`, in the given order.

    wanted: criteria, each with the ids of its outputs. plan_name: of the plan files that contain them all. Raises as
    `JudgedShards.answers`.
    """
    output_ids = pa.chunked_array([chunk for _, ids in wanted for chunk in ids.chunks], pa.string())
    criterion_ids = pa.concat_arrays([pa.repeat(criterion.id, len(ids)) for criterion, ids in wanted])
    keys = place_keys(output_ids, criterion_ids)
    rows = _rows_by_opinion(folder, keys, plan_name, shard, shard_index, judged)
    timing.row_count = len(keys)
    _count_replays(timing, judged.saved, used_rows(judged.judge, rows))
    if has_several(judged.judge):
        return _combined(folder, wanted, plan_name, shard_index, judged, rows)
    (only,) = rows.values()
    tables, start = [], 0
    for criterion, ids in wanted:
        tables.append(_judged_table(folder.run_id, criterion, ids, only.slice(start, len(ids))))
        start += len(ids)
    return pa.concat_tables(tables)


def _rows_by_opinion(
    folder: RunFolder, keys: pa.Array, plan_name: str, shard: str, shard_index: int, judged: JudgedShards
) -> OpinionRows:
    """Values of each vote for each key, with is_replayed."""
    planned = pq.read_table(folder.plan_file(plan_name, shard_index))
    answers = judged.answers(shard, shard_index)
    rows: OpinionRows = {}
    for opinion in wanted_opinions(judged.judge):
        found = opinion_rows(keys, rows_of(planned, opinion), answers.get(opinion))
        is_replayed = _is_replayed(found, folder.run_id, judged.is_recorded(opinion.judge_index))
        rows[opinion] = found.append_column("is_replayed", is_replayed)
    return rows


def _combined(
    folder: RunFolder,
    wanted: Sequence[tuple[Criterion, pa.ChunkedArray]],
    plan_name: str,
    shard_index: int,
    judged: JudgedShards,
    rows: OpinionRows,
) -> pa.Table:
    """Verdicts combined from several votes; the votes are written to the run's folder."""
    judge = judged.judge
    is_unsure = first_judge_unsure(judge, rows) if isinstance(judge, CascadeSettings) else None
    verdicts, opinions, start = [], [], 0
    for criterion, ids in wanted:
        end = start + len(ids)
        own_rows = {opinion: table.slice(start, len(ids)) for opinion, table in rows.items()}
        unsure = None if is_unsure is None else is_unsure[start:end]
        combined = combined_verdicts(folder.run_id, judge, criterion, ids, own_rows, unsure)
        verdicts.append(combined[0])
        opinions.append(combined[1])
        start = end
    write_parquet(folder.detail_file("opinions", plan_name, shard_index), pa.concat_tables(opinions))
    return pa.concat_tables(verdicts)


def score_without_judge(run_id: str, criterion: Criterion, output_ids: pa.ChunkedArray) -> pa.Table:
    """Verdicts of a judged criterion in a run without a judge: all unscored, with the reason."""
    count = len(output_ids)
    return verdict_table(
        run_id,
        criterion,
        output_ids,
        pa.nulls(count, pa.string()),
        pa.nulls(count, pa.float64()),
        reasons=pa.repeat(NO_JUDGE, count),
    )


def _is_replayed(rows: pa.Table, run_id: str, is_recorded: bool) -> pa.ChunkedArray:
    """Whether a scored verdict was recorded, or paid for by another run."""
    is_of_others = pc.fill_null(pc.not_equal(rows.column("paid_by"), run_id), is_recorded)
    return pc.and_(rows.column("level_id").is_valid(), pc.or_(is_of_others, is_recorded))


def _judged_table(run_id: str, criterion: Criterion, output_ids: pa.ChunkedArray, rows: pa.Table) -> pa.Table:
    """Verdicts of one criterion with one vote each, as `VERDICT_SCHEMA`. rows: with is_replayed."""
    return verdict_table(
        run_id,
        criterion,
        output_ids,
        rows.column("level_id"),
        opinion_scores(criterion, rows),
        reasons=rows.column("reason"),
        evidence=rows.column("evidence"),
        rationales=rows.column("rationale"),
        request_keys=rows.column("request_key"),
        is_replayed=rows.column("is_replayed"),
    )


def _count_replays(timing: Timing, saved: SavedCosts, rows: OpinionRows) -> None:
    """Count as saved the cost of other runs, but not this run's cost before an interruption."""
    for table in rows.values():
        replayed = table.filter(table.column("is_replayed"))
        costs = (replayed.column(name).to_pylist() for name in ("request_key", "saved_usd"))  # 0 for recorded replies
        saved.count(timing, replayed.num_rows, dict(zip(*costs, strict=True)))
