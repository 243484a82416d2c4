"""Verdicts of a judge: what the ledger holds is taken from it, the rest is asked."""

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from rubrics.model import Criterion
from rubrics.verdicts import verdict_table
from tasks.judging.questions import Answer, Question
from tasks.judging.replay import ReplaySession
from tasks.judging.session import JudgingSession
from tasks.plan import read_cases
from tasks.progress import reporter
from tasks.timings import Timing

Session = JudgingSession | ReplaySession
Row = dict[str, Any]
NO_JUDGE = "no_judge: the run had no --judge"
SLOT_COLUMNS = ("case_id", "model", "checkpoint", "sample_index")


def score_judge(
    run_id: str, criterion: Criterion, shard: str, plan_file: Path, session: Session, timing: Timing
) -> pa.Table:
    """Judge one criterion over one shard. Returns `VERDICT_SCHEMA`, a row an output, in the shard's order.

    Raises `BudgetReached` or `EndpointUnavailable`; what was judged until then is in the journal.
    """
    output_ids = _output_ids(shard)
    verdicts = judge_outputs(run_id, lambda _output_id: (criterion,), shard, plan_file, session, timing)
    return judged_table(run_id, criterion, [verdicts[output_id, criterion.id] for output_id in output_ids])


def score_without_judge(run_id: str, criterion: Criterion, output_ids: Sequence[str]) -> pa.Table:
    """The verdicts of a judged criterion in a run without a judge: all unscored, and why."""
    return judged_table(run_id, criterion, [{"output_id": output_id, "reason": NO_JUDGE} for output_id in output_ids])


def judge_outputs(
    run_id: str,
    criteria_of: Callable[[str], Sequence[Criterion]],
    shard: str,
    plan_file: Path,
    session: Session,
    timing: Timing,
) -> dict[tuple[str, str], Row]:
    """Judge the outputs of a shard, each on the criteria that `criteria_of` its id names.

    Returns the verdicts' columns by output and criterion. Raises as `score_judge`.
    """
    planned: dict[tuple[str, str], Row] = {
        (row["output_id"], row["criterion_id"]): row for row in pq.read_table(plan_file).to_pylist()
    }
    answers: dict[tuple[str, str], Answer] = {}

    def keep(answer: Answer) -> None:
        answers[answer.question.output_id, answer.question.criterion.id] = answer
        reporter().advance("judge", 1)

    session.ask(_questions(criteria_of, shard, planned), keep)
    is_recorded = isinstance(session, ReplaySession)
    verdicts = {key: _verdict(plan, answers.get(key)) for key, plan in planned.items()}
    for row in verdicts.values():
        row["is_replayed"] = row.get("level_id") is not None and (is_recorded or row.get("paid_by", run_id) != run_id)
    _count_replays(timing, list(verdicts.values()))
    return verdicts


def judged_table(run_id: str, criterion: Criterion, rows: Sequence[Row]) -> pa.Table:
    """The verdicts of one criterion, as `VERDICT_SCHEMA`. rows: as `judge_outputs` has them."""
    scores = {level.id: level.score for level in criterion.ranked_levels}

    def texts(name: str) -> pa.Array:
        return pa.array([row.get(name) for row in rows], pa.string())

    return verdict_table(
        run_id,
        criterion,
        texts("output_id"),
        texts("level_id"),
        pa.array([scores.get(row.get("level_id") or "") for row in rows], pa.float64()),
        reasons=texts("reason"),
        evidence=texts("evidence"),
        rationales=texts("rationale"),
        request_keys=texts("request_key"),
        is_replayed=pa.array([bool(row.get("is_replayed")) for row in rows]),
    )


def _questions(
    criteria_of: Callable[[str], Sequence[Criterion]], shard: str, planned: dict[tuple[str, str], Row]
) -> Iterator[Question]:
    slots = zip(*(pq.read_table(shard, columns=[name]).column(0).to_pylist() for name in SLOT_COLUMNS), strict=True)
    for (output_id, case), slot in zip(read_cases(shard), slots, strict=True):
        for criterion in criteria_of(output_id):
            plan = planned[output_id, criterion.id]
            if plan["status"] is None:
                yield Question(output_id, criterion, case, plan["request_key"], 0, *slot)


def _output_ids(shard: str) -> list[str]:
    output_ids: list[str] = pq.read_table(shard, columns=["output_id"]).column(0).to_pylist()
    return output_ids


def _verdict(plan: Row, answer: Answer | None) -> Row:
    if plan["status"] is not None:
        return dict(plan)
    if answer is None:
        return {"output_id": plan["output_id"], "request_key": plan["request_key"], "reason": "not_asked"}
    return {
        "output_id": plan["output_id"],
        "request_key": plan["request_key"],
        "level_id": answer.level_id,
        "evidence": answer.evidence,
        "rationale": answer.rationale,
        "reason": answer.reason,
    }


def _count_replays(timing: Timing, rows: list[Row]) -> None:
    """What other runs paid for is saved; what this run paid before it was interrupted is not."""
    timing.row_count = len(rows)
    replayed = [row for row in rows if row["is_replayed"]]
    timing.replayed_count = len(replayed)
    saved = [row.get("cost_usd", 0.0) for row in replayed]
    timing.saved_usd = None if None in saved else sum(saved, 0.0)
