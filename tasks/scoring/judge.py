"""Verdicts of a judge: what the ledger holds is taken from it, the rest is asked."""

from collections.abc import Iterator
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
NO_JUDGE = "no_judge: the run had no --judge"


def score_judge(
    run_id: str, criterion: Criterion, shard: str, plan_file: Path, session: Session, timing: Timing
) -> pa.Table:
    """Judge one criterion over one shard. Returns `VERDICT_SCHEMA`, a row an output, in the shard's order.

    Raises `BudgetReached` or `EndpointUnavailable`; what was judged until then is in the journal.
    """
    planned = {row["output_id"]: row for row in pq.read_table(plan_file).to_pylist()}
    answers: dict[str, Answer] = {}

    def keep(answer: Answer) -> None:
        answers[answer.question.output_id] = answer
        reporter().advance("judge", 1)

    session.ask(_questions(criterion, shard, planned), keep)
    is_recorded = isinstance(session, ReplaySession)
    rows = [_verdict(planned[output_id], answers.get(output_id)) for output_id in _output_ids(shard)]
    for row in rows:
        row["is_replayed"] = row.get("level_id") is not None and (is_recorded or row.get("paid_by", run_id) != run_id)
    _count_replays(timing, rows)
    return _table(run_id, criterion, rows)


def score_without_judge(run_id: str, criterion: Criterion, shard: str) -> pa.Table:
    """The verdicts of a judged criterion in a run without a judge: all unscored, and why."""
    return _table(run_id, criterion, [{"output_id": output_id, "reason": NO_JUDGE} for output_id in _output_ids(shard)])


def _questions(criterion: Criterion, shard: str, planned: dict[str, dict[str, Any]]) -> Iterator[Question]:
    slots = zip(*(pq.read_table(shard, columns=[name]).column(0).to_pylist() for name in SLOT_COLUMNS), strict=True)
    for (output_id, case), slot in zip(read_cases(shard), slots, strict=True):
        plan = planned[output_id]
        if plan["status"] is None:
            yield Question(output_id, criterion, case, plan["request_key"], 0, *slot)


SLOT_COLUMNS = ("case_id", "model", "checkpoint", "sample_index")


def _output_ids(shard: str) -> list[str]:
    output_ids: list[str] = pq.read_table(shard, columns=["output_id"]).column(0).to_pylist()
    return output_ids


def _verdict(plan: dict[str, Any], answer: Answer | None) -> dict[str, Any]:
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


def _count_replays(timing: Timing, rows: list[dict[str, Any]]) -> None:
    """What other runs paid for is saved; what this run paid before it was interrupted is not."""
    timing.row_count = len(rows)
    replayed = [row for row in rows if row["is_replayed"]]
    timing.replayed_count = len(replayed)
    saved = [row.get("cost_usd", 0.0) for row in replayed]
    timing.saved_usd = None if None in saved else sum(saved, 0.0)


def _table(run_id: str, criterion: Criterion, rows: list[dict[str, Any]]) -> pa.Table:
    scores = {level.id: level.score for level in criterion.scale}

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
