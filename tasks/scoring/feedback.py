"""Feedback written by the run's judge: a text for each output and each model, paid for once like a judgment.

A text explains the verdicts and changes none. Its judgment is filed under the criterion `(feedback)`; for a model and
checkpoint under the first of their output ids, as each judgment belongs to an output of its run.
"""

import glob
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq

from gradebook.rubrics.files.case_criteria import read_case_criterion
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.prompts.feedback import (
    MOST_CRITERIA_SHOWN,
    MOST_REASONS_SHOWN,
    GroupCriterion,
    GroupVerdicts,
    ShownVerdict,
    best_score,
    feedback_key,
    render_group_feedback,
    render_output_feedback,
    show_verdicts,
)
from gradebook.rubrics.text.wording import counted
from gradebook.tasks.datasets.case_criteria import read_case_criteria
from gradebook.tasks.judging.replies.question import FeedbackAnswer, FeedbackQuestion
from gradebook.tasks.judging.replies.recorded_judge import ReplaySession
from gradebook.tasks.judging.session.session import JudgingSession
from gradebook.tasks.judging.settings.judge import PlainJudge
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect
from gradebook.tasks.lake.rows import make_table
from gradebook.tasks.lake.sql import query
from gradebook.tasks.marts.models import build_marts, connect_marts
from gradebook.tasks.marts.sources import add_score_sources
from gradebook.tasks.planning.cases import read_cases
from gradebook.tasks.system.files import PARQUET_SETTINGS, replaced_file, write_parquet
from gradebook.tasks.workspace.folder import RunFolder

FEEDBACK_SCHEMA = pa.schema(
    [
        pa.field("run_id", pa.string(), nullable=False),
        pa.field("output_id", pa.string()),  # null: about all outputs of the model and checkpoint
        pa.field("model", pa.string(), nullable=False),
        pa.field("checkpoint", pa.string()),
        pa.field("feedback", pa.string(), nullable=False),
    ]
)
RECORDED_NOTE = "--feedback llm: recorded replies hold no feedback, so none was written"
MEMORY_LIMIT = "500MB"
MOST_REASON_LENGTH = 300
_BEST_SCORES_SCHEMA = pa.schema([pa.field("criterion_id", pa.string()), pa.field("best_score", pa.float64())])
_VERDICT_COLUMNS = ["output_id", "criterion_id", "level_id", "score", "reason", "rationale", "evidence"]


@dataclass(frozen=True, slots=True)
class FeedbackCount:
    """Counts of a run's texts by origin. note: sentence for the report, if any."""

    asked_count: int = 0  # new texts by the judge
    replayed_count: int = 0  # from the ledger, or from an equal question
    note: str | None = None


def write_feedback(
    lake: Lake,
    folder: RunFolder,
    rubric: Rubric,
    shards: tuple[str, ...],
    session: JudgingSession | ReplaySession,
    judge: PlainJudge,
) -> FeedbackCount:
    """Let the judge explain the collected verdicts of a run; writes `feedback.parquet`, as `FEEDBACK_SCHEMA`.

    Texts in the ledger are not asked for again. An output whose reply is unusable has no row. Raises `BudgetReached` or
    `EndpointUnavailable`; replies until then are in the journal, and no file is left.
    """
    path = folder.feedback_file
    if isinstance(session, ReplaySession):
        write_parquet(path, FEEDBACK_SCHEMA.empty_table())
        return FeedbackCount(note=RECORDED_NOTE)
    counts = [0, 0, 0]
    with (
        _scored_run(folder, rubric, shards) as connection,
        replaced_file(path) as temporary,
        pq.ParquetWriter(temporary, FEEDBACK_SCHEMA, **PARQUET_SETTINGS) as writer,
    ):
        for questions in _all_questions(connection, folder, rubric, shards, judge.judge_digest):
            rows, written = _answer(lake, folder.run_id, list(questions), session)
            writer.write_table(rows)
            counts = [count + more for count, more in zip(counts, written, strict=True)]
    asked_count, replayed_count, unusable_count = counts
    note = f"--feedback llm: no usable reply for {counted(unusable_count, 'text')}; the plain summary is used there"
    return FeedbackCount(asked_count, replayed_count, note if unusable_count else None)


def _answer(
    lake: Lake, run_id: str, questions: list[FeedbackQuestion], session: JudgingSession
) -> tuple[pa.Table, tuple[int, int, int]]:
    """Rows of some questions, with texts from the ledger or else from the judge; and their counts."""
    texts = _ledger_texts(lake, [question.request_key for question in questions])
    asked_keys: list[str] = []

    def keep(answer: FeedbackAnswer) -> None:
        if answer.request_count:
            asked_keys.append(answer.request_key)
        if answer.text is not None:
            texts[answer.request_key] = answer.text

    session.ask([question for question in questions if question.request_key not in texts], keep)
    stored_questions = [question for question in questions if question.request_key in texts]
    rows = [
        (run_id, None if q.is_group else q.output_id, q.model, q.checkpoint, texts[q.request_key])
        for q in stored_questions
    ]
    useful_count = sum(key in texts for key in asked_keys)
    counts = (len(asked_keys), len(stored_questions) - useful_count, len(questions) - len(stored_questions))
    return _table(rows, FEEDBACK_SCHEMA), counts


def _ledger_texts(lake: Lake, keys: list[str]) -> dict[str, str]:
    """Texts in the ledger, by key; the earliest text of a key is always the one used."""
    with connect(lake, read_only=True) as connection:
        connection.register("wanted_keys", pa.table({"request_key": pa.array(keys, pa.string())}))
        rows = connection.execute(query("scoring/first_texts")).fetchall()
    return dict(rows)


def _all_questions(
    connection: duckdb.DuckDBPyConnection, folder: RunFolder, rubric: Rubric, shards: tuple[str, ...], digest: str
) -> Iterator[Iterator[FeedbackQuestion]]:
    """Questions about the outputs of each shard, then questions about the models. digest: the judge's."""
    for index, shard in enumerate(shards):
        yield _output_questions(connection, shard, _shard_verdicts(folder, rubric, index), digest)
    yield _group_questions(connection, rubric, digest)


def _output_questions(
    connection: duckdb.DuckDBPyConnection, shard: str, verdicts: Mapping[str, Sequence[ShownVerdict]], digest: str
) -> Iterator[FeedbackQuestion]:
    """One question per output of a shard, in order. verdicts: by output."""
    passed = (
        "select output_id, model, checkpoint, is_passed from output_scores "
        "where output_id in (select output_id from read_parquet(?))"
    )
    group_by_output = {row[0]: row[1:] for row in connection.execute(passed, [glob.escape(shard)]).fetchall()}
    for output_id, case in read_cases(shard):
        model, checkpoint, is_passed = group_by_output[output_id]
        messages = render_output_feedback(case, verdicts.get(output_id, ()), is_passed)
        yield FeedbackQuestion(output_id, model, checkpoint, False, messages, feedback_key(digest, messages))


def _shard_verdicts(folder: RunFolder, rubric: Rubric, index: int) -> dict[str, list[ShownVerdict]]:
    rows = pq.read_table(folder.collected_file(index), columns=_VERDICT_COLUMNS).to_pylist()
    own_criteria = {
        (row["output_id"], row["criterion_id"]): read_case_criterion(row["body"])
        for row in read_case_criteria(folder, index).to_pylist()
    }
    return show_verdicts(rubric, rows, own_criteria)


def _group_questions(connection: duckdb.DuckDBPyConnection, rubric: Rubric, digest: str) -> Iterator[FeedbackQuestion]:
    """One question per model and checkpoint, with the criteria that are furthest from their best level."""
    make_table(connection, "scoring/weakest_criteria", most_count=MOST_CRITERIA_SHOWN)
    limits = {"most_count": MOST_REASONS_SHOWN, "length": MOST_REASON_LENGTH}
    reasons: dict[tuple[str, str | None, str], list[tuple[str, int]]] = {}
    frequent = connection.execute(query("scoring/frequent_reasons"), limits).fetchall()
    for model, checkpoint, criterion_id, count, reason in frequent:
        reasons.setdefault((model, checkpoint, criterion_id), []).append((reason, count))
    of_rubric = {criterion.id: criterion for criterion in rubric.criteria}
    group_criteria: dict[tuple[str, str | None], list[GroupCriterion]] = {}
    weakest_first = "from weakest_criteria order by distance desc nulls last, criterion_id"
    for row in connection.execute(weakest_first).to_arrow_table().to_pylist():
        group, criterion_id = (row["model"], row["checkpoint"]), row["criterion_id"]
        criterion: Criterion = of_rubric.get(criterion_id) or read_case_criterion(row["body"])
        criterion_reasons = tuple(reasons.get((*group, criterion_id), ()))
        group_criterion = GroupCriterion(
            criterion, row["mean"], row["scored_count"], row["unscored_count"], criterion_reasons
        )
        group_criteria.setdefault(group, []).append(group_criterion)
    for model, checkpoint, output_id, n, passed, failed in connection.execute(query("scoring/group_counts")).fetchall():
        criteria = tuple(group_criteria.get((model, checkpoint), ()))
        messages = render_group_feedback(GroupVerdicts(n, passed, failed, criteria))
        yield FeedbackQuestion(output_id, model, checkpoint, True, messages, feedback_key(digest, messages))


@contextmanager
def _scored_run(folder: RunFolder, rubric: Rubric, shards: tuple[str, ...]) -> Iterator[duckdb.DuckDBPyConnection]:
    """Mart `output_scores` over the collected verdicts, with its sources, so that passing is defined once."""
    database = folder.path / "feedback.duckdb"
    database.unlink(missing_ok=True)
    try:
        with connect_marts(database, MEMORY_LIMIT) as connection:
            add_score_sources(connection, folder, rubric, shards)
            best = [(criterion.id, best_score(criterion)) for criterion in rubric.criteria]
            connection.register("best_scores", _table(best, _BEST_SCORES_SCHEMA))
            build_marts(connection, only="output_scores")
            yield connection
    finally:
        database.unlink(missing_ok=True)


def _table(rows: Sequence[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema=schema)
