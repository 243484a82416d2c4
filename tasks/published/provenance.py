"""Provenance of a number: a verdict traced back to its output, prompt, reply, rubric, ratings, versions and price."""

import json
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import duckdb

from gradebook.rubrics.files.case_criteria import read_case_criterion
from gradebook.rubrics.model.errors import GradebookError, InputError
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.prompts.prompt import case_digest, criterion_digest, render_messages, request_key, sees_of
from gradebook.tasks.judging.settings.judge import REPLAY_PREFIX
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, read_published_run, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.ledger.rereading import asked_judges
from gradebook.tasks.ledger.verify_sources import RubricCache, stored_case
from gradebook.tasks.rubric_store.questions import add_questions_of_run

MOST_OUTPUTS = 100
RECORDED = "the reply is a recorded one, and nothing was sent"
NO_JUDGE = "the judge's settings are not recorded"
OTHER_KEY = "the request held further criteria, or was written by another version of gradebook"
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

    def as_json(self) -> dict[str, Any]:
        prompt = {"messages": self.messages, "why_no_messages": self.why_no_messages}
        criterion = {"levels": list(self.levels), "settings": self.settings}
        return self.row | criterion | {"ratings": list(self.ratings)} | prompt


def read_origins(lake: Lake, run_id: str, case: str, criterion_id: str | None = None) -> tuple[Origin, ...]:
    """Origins of a run's verdicts on a case or an output, by output and criterion.

    case: a case's id, or an output's. Raises `InputError` if the run has none, or not this criterion.
    """
    with connect_up_to_date(lake) as connection:
        run = read_published_run(connection, lake, run_id)
        names = {"run_id": run_id, "name": case}
        outputs = connection.execute(query("published/outputs_of_case"), names).fetchall()
        if not outputs:
            expected = "one of the table output_scores, after the id of its run if that is another"
            raise InputError("case", f"no case or output {case!r} in run {run_id}", expected)
        chosen = [name for (name,) in outputs[:MOST_OUTPUTS]]
        rows = read_rows(connection, query("published/provenance_of"), run_id=run_id, output_ids=chosen)
        known = list(dict.fromkeys(row["criterion_id"] for row in rows))
        if criterion_id is not None and criterion_id not in known:
            raise InputError("criterion", repr(criterion_id), f"one of {', '.join(known)}")
        reader = _Reader(connection, run)
        return tuple(reader.origin(row) for row in rows if criterion_id in (None, row["criterion_id"]))


class _Reader:
    def __init__(self, connection: duckdb.DuckDBPyConnection, run: Row) -> None:
        self._connection = connection
        add_questions_of_run(connection, run["run_id"], "ratings")
        self._rubrics = RubricCache(connection)
        self._version = (run["rubric_id"], run["rubric_version"])
        identity = json.loads(run["settings"] or "{}").get("judge")
        self._judges = asked_judges(identity) if identity else ()

    def origin(self, row: Row) -> Origin:
        named = {"output_id": row["output_id"], "criterion_id": row["criterion_id"]}
        ratings = read_rows(self._connection, query("published/ratings_of_verdict"), **named)
        criterion = self._criterion(row)
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

    def _criterion(self, row: Row) -> Criterion | None:
        """The row's own criterion, else the rubric's."""
        named = [row["run_id"], row["output_id"], row["criterion_id"]]
        own = self._connection.execute(_OWN_BODY, named).fetchall()
        return read_case_criterion(own[0][0]) if own else self._rubrics.criterion(self._version, row["criterion_id"])

    def _messages(self, row: Row, criterion: Criterion) -> tuple[Row, ...] | None:
        """Messages of the request, written again: they are those that were sent if their key is the verdict's."""
        (stored,) = (
            self._connection.execute(query("published/stored_output"), [row["output_id"]]).to_arrow_table().to_pylist()
        )
        case = stored_case(stored).seen(sees_of(criterion))
        for judge in self._judges:
            key = request_key(judge.digest, criterion_digest(criterion), case_digest(case), 0)
            if key == row["request_key"] and judge.style is not None:
                return tuple(dict(each) for each in render_messages(case, criterion, key, judge.style))
        return None
