"""Provenance of a number: a verdict traced back to its output, prompt, reply, rubric, ratings, versions and price."""

import json
import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import duckdb
import orjson

from gradebook.rubrics.files.case_criteria import read_case_criterion
from gradebook.rubrics.model.errors import GradebookError, InputError
from gradebook.rubrics.model.methods import JudgeMethod
from gradebook.rubrics.model.rubric import Criterion, Rubric
from gradebook.rubrics.prompts.decisions import question_digest, render_state, typed_question
from gradebook.rubrics.prompts.prompt import (
    case_digest,
    criterion_digest,
    render_messages,
    request_key,
    view_of,
)
from gradebook.tasks.judging.settings.files import read_judge
from gradebook.tasks.judging.settings.judge import REPLAY_PREFIX
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, read_published_run, read_rows
from gradebook.tasks.lake.schema import copy_small_tables, narrow_to_outputs
from gradebook.tasks.lake.sql import query, read_sql
from gradebook.tasks.ledger.verify import RubricCache, asked_judges, is_typed, stored_case
from gradebook.tasks.rewards.outputs import CriterionScore
from gradebook.tasks.rewards.scorer import RubricScorer
from gradebook.tasks.rubric_store.questions import add_questions_of_run

MOST_OUTPUTS = 100
RECORDED = "the reply is a recorded one, and nothing was sent"
NO_JUDGE = "the judge's settings are not recorded"
OTHER_KEY = "the request held further criteria, or was written by another version of gradebook"
# Tables that the queries name again and again, or that most lakes leave empty.
_COPIED = ("runs", "rubrics", "criteria", "case_criteria", "written_feedback", "ratings")
_OWN_BODY = "select body from case_criteria where run_id = ? and output_id = ? and criterion_id = ?"


@dataclass(frozen=True, slots=True)
class Origin:
    """Origin of one verdict. row: of the view `provenance`; levels: of the criterion, worst first; settings: of its
    method.

    messages: the prompt as it was sent, None if it is not known; why_no_messages says why. ratings: people's.
    """

    row: Row
    levels: tuple[Row, ...]
    settings: Row
    messages: tuple[Row, ...] | None = None
    why_no_messages: str | None = None
    ratings: tuple[Row, ...] = ()
    asked: CriterionScore | None = None  # another judge's score on the same question; changes no verdict

    def as_json(self) -> dict[str, Any]:
        prompt = {"messages": self.messages, "why_no_messages": self.why_no_messages}
        criterion = {"levels": list(self.levels), "settings": self.settings}
        asked_score = {} if self.asked is None else {"asked": self.asked._asdict()}
        return self.row | criterion | {"ratings": list(self.ratings)} | prompt | asked_score


def read_origins(lake: Lake, run_id: str, case: str, criterion_id: str | None = None) -> tuple[Origin, ...]:
    """Origins of a run's verdicts on a case or an output, by output and criterion.

    case: a case's id, or an output's. Raises `InputError` if the run has none, or not this criterion.
    """
    with connect_up_to_date(lake, is_pinned=True) as connection:
        if lake.at is None:  # an earlier version may lack tables
            copy_small_tables(connection, _COPIED, stays_open=True)
        run = read_published_run(connection, lake, run_id)
        names = {"run_id": run_id, "name": case}
        outputs = connection.execute(query("published/outputs_of_case"), names).fetchall()
        if not outputs:
            expected = "one of the table output_scores, after the id of its run if that is another"
            raise InputError("case", f"no case or output {case!r} in run {run_id}", expected)
        output_ids = [name for (name,) in outputs[:MOST_OUTPUTS]]
        narrow_to_outputs(connection, run_id, output_ids)
        connection.execute(f"create or replace temp view provenance as {read_sql('views/provenance.sql')}")
        rows = read_rows(connection, query("published/provenance_of"), run_id=run_id, output_ids=output_ids)
        criterion_ids = list(dict.fromkeys(row["criterion_id"] for row in rows))
        if criterion_id is not None and criterion_id not in criterion_ids:
            raise InputError("criterion", repr(criterion_id), f"one of {', '.join(criterion_ids)}")
        reader = _Reader(connection, run)
        return tuple(reader.origin(row) for row in rows if criterion_id in (None, row["criterion_id"]))


def ask_reasons(
    lake: Lake, origins: Sequence[Origin], judge: str, budget_usd: float | None = None
) -> tuple[Origin, ...]:
    """Origins with another judge's level and reasons for the same questions.

    Its replies go through the ledger, so that the same question is paid once. origins: of one criterion that a judge
    scored. Raises `InputError` for a judge that gives no reasons or a criterion that it can't be asked, and as the
    scorer does where the judge fails or the budget is reached.
    """
    model = read_judge(judge, os.environ).as_model
    if model is None or model.is_decision or model.mode == "logprobs":
        raise InputError("--ask", judge, "one model that writes its reasons")
    with connect_up_to_date(lake) as connection:
        asked_rows = [_asked_row(connection, lake, origin) for origin in origins]
    (criterion,) = {asked_criterion.id: asked_criterion for asked_criterion, _ in asked_rows}.values()
    single_criterion = criterion.model_copy(
        update={"gate": False, "weight": None, "max_failure_rate": None, "required": True}
    )
    rubric = Rubric.model_validate(
        {"id": "why", "version": "1.0.0", "criteria": [single_criterion.model_dump(mode="json", exclude_defaults=True)]}
    )
    with RubricScorer(rubric, judge, budget_usd=budget_usd, on_fault="raise", lake=lake) as scorer:
        scores = scorer.score_all([row for _, row in asked_rows])
    return tuple(
        replace(origin, asked=score.criteria[criterion.id]) for origin, score in zip(origins, scores, strict=True)
    )


def _asked_row(connection: duckdb.DuckDBPyConnection, lake: Lake, origin: Origin) -> tuple[Criterion, Row]:
    """Criterion of a verdict, and its output as the scorer takes it."""
    row = origin.row
    criterion = _Reader(connection, read_published_run(connection, lake, row["run_id"])).criterion(row)
    if criterion is None or not isinstance(criterion.method, JudgeMethod) or view_of(criterion).sees != "answer":
        expected = "one of the method judge, about the output alone"
        raise InputError("--ask", f"the criterion {row['criterion_id']}", expected)
    (output,) = connection.execute(query("published/stored_output"), [row["output_id"]]).to_arrow_table().to_pylist()
    fields = {name: output[name] for name in ("prompt", "output", "reference", "context") if output.get(name)}
    return criterion, fields | {"case_id": row["case_id"], "model": row["model"]}


class _Reader:
    def __init__(self, connection: duckdb.DuckDBPyConnection, run: Row) -> None:
        self._connection = connection
        add_questions_of_run(connection, run["run_id"], "ratings")
        self._rubrics = RubricCache(connection)
        self._version = (run["rubric_id"], run["rubric_version"])
        identity = json.loads(run["settings"] or "{}").get("judge")
        self._judges = asked_judges(identity) if identity else ()

    def origin(self, row: Row) -> Origin:
        parameters = {"output_id": row["output_id"], "criterion_id": row["criterion_id"]}
        ratings = read_rows(self._connection, query("published/ratings_of_verdict"), **parameters)
        criterion = self.criterion(row)
        levels = tuple(level.model_dump() for level in criterion.levels) if criterion else ()
        settings = criterion.method.model_dump(exclude_none=True) if criterion else {}
        if row["request_key"] is None:
            return Origin(row, levels, settings, None, None, ratings)
        messages = None
        with suppress(GradebookError):  # a picture that is gone
            messages = None if criterion is None else self._messages(row, criterion)
        is_recorded = str(row["asked_judge"]).startswith(REPLAY_PREFIX)
        why = None if messages else RECORDED if is_recorded else OTHER_KEY if self._judges else NO_JUDGE
        return Origin(row, levels, settings, messages, why, ratings)

    def criterion(self, row: Row) -> Criterion | None:
        """The row's own criterion, else the rubric's."""
        parameters = [row["run_id"], row["output_id"], row["criterion_id"]]
        case_bodies = self._connection.execute(_OWN_BODY, parameters).fetchall()
        return (
            read_case_criterion(case_bodies[0][0])
            if case_bodies
            else self._rubrics.criterion(self._version, row["criterion_id"])
        )

    def _messages(self, row: Row, criterion: Criterion) -> tuple[Row, ...] | None:
        """Messages of the request, rebuilt; None unless their key is that of the verdict."""
        (judgment,) = (
            self._connection.execute(query("published/stored_output"), [row["output_id"]]).to_arrow_table().to_pylist()
        )
        case = stored_case(judgment).seen(view_of(criterion))
        for judge in self._judges:
            is_asked_typed = is_typed(judge.identity)
            digest = question_digest(criterion) if is_asked_typed else criterion_digest(criterion)
            key = request_key(judge.digest, digest, case_digest(case), 0)
            if key == row["request_key"] and is_asked_typed:
                typed = orjson.dumps(typed_question(criterion, key)).decode()
                return (*render_state(case, criterion), {"role": "question", "content": typed})
            if key == row["request_key"] and judge.style is not None:
                return tuple(dict(message) for message in render_messages(case, criterion, key, judge.style))
        return None
