"""Replicates of a judge as runs of their own: verdicts and scores from each replicate alone."""

from dataclasses import dataclass

import duckdb
import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from gradebook.rubrics.files.case_criteria import read_case_criterion
from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.prompts.combine_opinions import AGGREGATES, Aggregate, Opinions, combine_opinions
from gradebook.tasks.comparing.model_pairs import Side
from gradebook.tasks.lake.rows import read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ledger.past_judges import PastJudge, read_past_judge
from gradebook.tasks.marts.models import build_marts
from gradebook.tasks.marts.sources import add_rubric_sources

_OF_RUN = {
    "run_opinions": "select output_id, criterion_id, judge, replicate, level_id, score from opinions "
    "where run_id = ? and not is_swapped",
    "run_verdicts": "select output_id, criterion_id, status, score, reason from verdicts where run_id = ?",
    "run_outputs": "select output_id, case_id, model, checkpoint, sample_index, cluster from output_scores "
    "where run_id = ?",
    "run_own": "select * exclude (run_id) from case_criteria where run_id = ?",
}
_COUNTS = "select judge, max(replicate) + 1 as replicate_count from run_opinions group by judge order by judge"


@dataclass(frozen=True, slots=True)
class Replicates:
    """Replicates of a run. output_count: outputs with enough replies; left_out_count: outputs with fewer."""

    replicate_count: int
    output_count: int
    left_out_count: int


def name_replicate(replicate: int) -> str:
    """Id of the run made from one replicate."""
    return f"replicate {replicate}"


def split_replicates(lake: duckdb.DuckDBPyConnection, memory: duckdb.DuckDBPyConnection, side: Side) -> Replicates:
    """Make a run of each replicate: the tables `output_scores`, `verdicts` and `case_criteria` in memory.

    Verdicts without replies, of checks or people, are the same in all. For a panel, replicate r combines its members'
    replicates r. Raises `InputError` if the judge did not reply twice, or is a cascade.
    """
    run_id = side.run["run_id"]
    for name, select in _OF_RUN.items():
        memory.register(name, lake.execute(select, [run_id]).to_arrow_table())
    (row,) = read_rows(lake, "select run_id, judge, settings from runs where run_id = ?", run_id)
    judge = read_past_judge(lake, row)
    counts = {str(name): int(count) for name, count in memory.execute(_COUNTS).fetchall()}
    _refuse_single(run_id, judge, counts)
    aggregate = _find_aggregate(run_id, judge, len(counts))
    replicate_count = min(counts.values())
    sizes = {"replicate_count": replicate_count, "judge_count": len(counts)}
    memory.execute(f"create table source_outputs as {query('comparing/replicated_outputs')}", sizes)
    cells = memory.execute(query("comparing/replicate_scores"), {"replicate_count": replicate_count}).to_arrow_table()
    if not cells.num_rows:
        raise InputError(
            f"run {run_id}",
            f"no output with {replicate_count} replies to each question",
            "some: raise `replicate_share` in the judge file",
        )
    _add_verdicts(memory, cells, replicate_count, len(counts), aggregate)
    _add_case_criteria(memory, replicate_count)
    _add_scores(memory, side.rubric, replicate_count)
    (kept_count, all_count) = memory.execute(
        "select (select count(*) from source_outputs), (select count(*) from run_outputs)"
    ).fetchone() or (0, 0)
    return Replicates(replicate_count, kept_count, all_count - kept_count)


def _refuse_single(run_id: str, judge: PastJudge | None, counts: dict[str, int]) -> None:
    if judge is None:
        raise InputError(f"run {run_id}", "no judge", "one that replied several times to each question")
    single = [name for name, count in counts.items() if count < 2]
    if counts and not single:
        return
    whose = "the file of each judge of the panel" if len(counts) > 1 else "the judge file"
    raise InputError(
        f"run {run_id}",
        f"one reply of {', '.join(single) or judge.name} to each question",
        f"several: write `replicates: 2` into {whose} and evaluate the outputs again",
        "existing replies are not paid for again",
    )


def _find_aggregate(run_id: str, judge: PastJudge | None, judge_count: int) -> Aggregate:
    """Aggregate of the run's panel; a single judge needs none."""
    identity = (judge.identity if judge else None) or {}
    if identity.get("kind") == "cascade":
        raise InputError(
            f"run {run_id}",
            "a cascade",
            "one judge or a panel: a cascade's choice of judges depends on all replicates, so none has a verdict alone",
        )
    if judge_count == 1:
        return "mean"
    found = next((each for each in AGGREGATES if each == identity.get("aggregate")), None)
    if found is None:
        raise InputError(f"run {run_id}", f"no record of how its {judge_count} judges were combined", "a panel")
    return found


def _add_verdicts(
    memory: duckdb.DuckDBPyConnection, cells: pa.Table, replicate_count: int, judge_count: int, aggregate: Aggregate
) -> None:
    """Make the table `verdicts`: each replicate under its own run id. cells: rows of verdict, judge, replicate."""
    memory.execute(
        "create table verdicts "
        "(run_id varchar, output_id varchar, criterion_id varchar, status varchar, score double, reason varchar)"
    )
    step = judge_count * replicate_count
    firsts = cells.select(["output_id", "criterion_id"]).take(pa.array(np.arange(0, cells.num_rows, step)))
    scores, places = (
        _by_replicate(cells.column(name), judge_count, replicate_count) for name in cells.column_names[2:]
    )
    for replicate in range(replicate_count):
        found = _combine(scores[:, :, replicate], places[:, :, replicate].astype(np.int64), aggregate)
        memory.register("judged", firsts.append_column("score", pa.array(found, mask=np.isnan(found))))
        of_replicate = {"run_id": name_replicate(replicate)}
        memory.execute(f"insert into verdicts {query('comparing/replicate_verdicts')}", of_replicate)


def _by_replicate(column: pa.ChunkedArray, judge_count: int, replicate_count: int) -> NDArray[np.float64]:
    """Reshape to (cell, judge, replicate), NaN for null."""
    values = column.cast(pa.float64()).combine_chunks().to_numpy(zero_copy_only=False)
    found: NDArray[np.float64] = values.reshape(-1, judge_count, replicate_count)
    return found


def _combine(scores: NDArray[np.float64], places: NDArray[np.int64], aggregate: Aggregate) -> NDArray[np.float64]:
    """Combined scores of a panel, (cell,); a single judge's own. scores, places: (cell, judge)."""
    if scores.shape[1] == 1 or not scores.size:
        return scores[:, 0]
    opinions = Opinions(np.ones(scores.shape, dtype=np.bool_), places, scores)
    return combine_opinions(opinions, np.arange(scores.shape[1]), aggregate, int(places.max()) + 1).scores


def _add_case_criteria(memory: duckdb.DuckDBPyConnection, replicate_count: int) -> None:
    """Make the table `case_criteria`: per-case criteria, repeated for each replicate."""
    bodies = [body for (body,) in memory.execute("select distinct body from run_own where is_gate").fetchall()]
    thresholds = [read_case_criterion(body).gate_threshold for body in bodies]
    memory.register(
        "gates", pa.table({"body": pa.array(bodies, pa.string()), "gate_threshold": pa.array(thresholds, pa.float64())})
    )
    run_ids = [name_replicate(replicate) for replicate in range(replicate_count)]
    memory.execute(f"create table case_criteria as {query('comparing/replicate_criteria')}", {"run_ids": run_ids})


def _add_scores(memory: duckdb.DuckDBPyConnection, rubric: Rubric, replicate_count: int) -> None:
    """Make the table `output_scores`: the mart, built from the verdicts of each replicate."""
    for replicate in range(replicate_count):
        run_id = name_replicate(replicate)
        add_rubric_sources(memory, run_id, rubric)
        for name in ("verdicts", "case_criteria"):
            memory.execute(f"create or replace view source_{name} as from {name} where run_id = '{run_id}'")
        build_marts(memory, only="output_scores")
        memory.execute("create table if not exists scores_by_replicate as from output_scores limit 0")
        memory.execute("insert into scores_by_replicate from output_scores")
    memory.execute("create or replace temp table output_scores as from scores_by_replicate")
