"""A lake of published runs of given scores by a judge, and what people said of their outputs, for pages about them."""

import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import Any

from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.agreement.mart import add_statements_of_run, agreement_table
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import commit
from gradebook.tasks.published.summary import summarise
from gradebook.tasks.reporting.report_source import ReportSource, opened_source
from tests.support.scored_lake import write_scores

TEXT = """
id: reply
version: 1.0.0
criteria:
  - id: tone
    description: Is it kind?
    weight: 1
    method: {type: judge}
    levels: [{id: bad, score: 0, label: Unkind}, {id: good, score: 1, label: Kind}]
"""
TONE = parse_rubric(TEXT, "rubric.yaml")
JUDGED = [1.0, 1.0, 1.0, 0.0] * 10  # of forty outputs
RATED = [1.0, 1.0, 0.0, 0.0] * 2  # of the first eight: the judge is too kind to one in four

Row = Mapping[str, Any]


@dataclass(frozen=True)
class JudgedRun:
    """A run of an output a score. prefix: of its outputs' ids, o00 and so on; judge: None: it had none."""

    scores: Sequence[float | None]
    judge: str | None = "one"
    prefix: str = "o"
    rubric: Rubric = TONE


def publish_runs(
    lake: Lake,
    runs: Mapping[str, JudgedRun],
    tables: Mapping[str, Iterable[Row]],
    tell: Callable[[Any], None] = lambda connection: None,
) -> None:
    """Publish runs by their ids, and then the rows of tables. tell: what else is said of them, by a connection."""
    for run_id, run in runs.items():
        rows = [
            {"case_id": f"c{place:02}", "output_id": f"{run.prefix}{place:02}", "scores": {"tone": score}}
            for place, score in enumerate(run.scores)
        ]
        write_scores(lake, run_id, run.rubric, rows)

    def body(connection: Any, _version: int) -> None:
        connection.execute("update outputs set output = 'Gladly.'")
        connection.execute("update verdicts set method = 'judge', request_key = output_id, is_replayed = false")
        connection.execute(
            "update runs set notes = [], dataset_digest = 'd', code_version = '1', finished_at = created_at"
        )
        for run_id, run in runs.items():
            told = [run.judge, json.dumps({"judge": {"model": run.judge}}), run_id]
            connection.execute("update runs set judge = ?, settings = ? where run_id = ?", told)
        add_rows(connection, {"criterion_scores": [_criterion_row(*each) for each in runs.items()], **tables})
        tell(connection)

    commit(lake, "tell", body)


def _criterion_row(run_id: str, run: JudgedRun) -> Row:
    known = [score for score in run.scores if score is not None]
    counts = {"n": len(known), "output_count": len(run.scores), "coverage_rate": len(known) / len(run.scores)}
    mean = sum(known) / len(known) if known else None
    return {"run_id": run_id, "model": "m", "criterion_id": "tone", "weight": 1.0, "mean": mean, **counts}


def ratings_of(scores: Sequence[float], rater: str, prefix: str = "o") -> list[Row]:
    """A rating of each of the first outputs."""
    return [
        {"output_id": f"{prefix}{place:02}", "criterion_id": "tone", "rater": rater, "score": score}
        for place, score in enumerate(scores)
    ]


def add_rows(connection: Any, tables: Mapping[str, Iterable[Row]]) -> None:
    """Add rows to tables of the lake, those with the same columns by one statement."""
    for table, rows in tables.items():
        alike: dict[tuple[str, ...], list[Any]] = {}
        for row in rows:
            alike.setdefault(tuple(row), []).append(tuple(row.values()))
        for names, values in alike.items():
            marks = ", ".join(f"({', '.join('?' for _ in names)})" for _ in values)
            given = [value for row in values for value in row]
            connection.execute(f"insert into {table} ({', '.join(names)}) values {marks}", given)


def publish_agreement(lake: Lake, run_ids: Iterable[str]) -> None:
    """Publish the agreement of runs by the ratings now in the lake, as a run of these ratings does."""

    def body(connection: Any, _version: int) -> None:
        for run_id in run_ids:
            if add_statements_of_run(connection, run_id):
                rows = [row | {"run_id": run_id} for row in agreement_table(connection).to_pylist()]
                add_rows(connection, {"agreement": rows})

    commit(lake, "agree", body)


def source_of(lake: Lake, run_id: str) -> AbstractContextManager[ReportSource]:
    """Source that a report of the run reads."""
    return opened_source(lake, summarise(lake, run_id))
