"""Runs of a lake: the list, the latest published one, the tables of one, and its scores beside the ids of traces.

The scores by trace have the shapes of other systems:
otlp      OpenTelemetry's log records: an event `gen_ai.evaluation.result` for each score
langfuse  bodies of Langfuse's scores
phoenix   Phoenix's annotations of spans
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from enum import StrEnum
from itertools import islice
from typing import Any

import duckdb
import pyarrow as pa

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.json_values import drop_none
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect, connect_up_to_date
from gradebook.tasks.lake.rows import Row, read_published_run, read_rows
from gradebook.tasks.lake.sql import query
from gradebook.tasks.workspace.folder import LATEST


def latest_run(lake: Lake) -> str:
    """Id of the latest published run, of an evaluation if there is one. Raises `InputError` if there is none."""
    with connect(lake, read_only=True) as connection:
        select = (
            "select run_id from runs where status = 'published' "
            "order by trigger is not distinct from 'review', version desc limit 1"
        )
        rows = read_rows(connection, select)
    if not rows:
        raise InputError("run", f"no published run in {lake.name}", "one", "`gradebook evaluate` makes it")
    return str(rows[0]["run_id"])


def named_run(lake: Lake, name: str | None) -> str:
    """Id of a run by its name; `latest` or None: the latest published run."""
    return latest_run(lake) if name in (None, LATEST) else str(name)


def is_run(lake: Lake, name: str) -> bool:
    """Whether a run, published or not, has this id."""
    with connect(lake, read_only=True) as connection:
        return bool(connection.execute("select 1 from runs where run_id = ?", [name]).fetchall())


def refuse_unknown_run(lake: Lake, run_id: str, option: str) -> None:
    """Raise `InputError`, at an option, unless a published run has this id."""
    with connect(lake, read_only=True) as connection:
        read_published_run(connection, lake, run_id, option=option)


def list_runs(lake: Lake) -> tuple[Row, ...]:
    """All runs, newest first, in the order in which the lake recorded them, not by clock."""
    with connect(lake, read_only=True) as connection:
        return read_runs(connection)


def read_runs(connection: duckdb.DuckDBPyConnection) -> tuple[Row, ...]:
    """All runs, as `list_runs`, over an open connection to the lake."""
    return read_rows(connection, query("published/run_list"))


def is_weighted(lake: Lake, run_id: str) -> bool:
    """Whether the cases of a run were drawn by stratum, so that its means are weighted."""
    select = "select 1 from runs where run_id = ? and (settings ->> '$.stratify') is not null"
    with connect(lake, read_only=True) as connection:
        return bool(connection.execute(select, [run_id]).fetchall())


_ROWS = "select * exclude (run_id) from"


class RunTable(StrEnum):
    """Rows of one run, as a select with `$run_id`."""

    scores = f"{_ROWS} run_scores where run_id = $run_id order by mean desc nulls last, model, checkpoint"
    criteria = f"{_ROWS} criterion_scores where run_id = $run_id order by all"
    verdicts = f"{_ROWS} verdicts where run_id = $run_id order by output_id, criterion_id"
    outputs = query("published/outputs_of_run")


def read_table(lake: Lake, run_id: str, table: RunTable) -> pa.Table:
    """Rows of one table of a run; none for an unknown run."""
    with connect_up_to_date(lake) as connection:
        return connection.execute(str(table), {"run_id": run_id}).to_arrow_table()


MOST_RECORDS = 1_000  # log records of one line
_KINDS = {
    "judge": "LLM",
    "claims": "LLM",
    "preference": "LLM",
    "ratings": "HUMAN",
}  # other methods are code, as Phoenix calls it


def traced_scores(lake: Lake, run_id: str, shape: str) -> list[dict[str, Any]]:
    """Scores of a published run's outputs in one of `SHAPES`, by trace.

    Raises `InputError` if the run is not published, or none of its outputs came from a trace.
    """
    with connect_up_to_date(lake, is_pinned=True) as connection:
        read_published_run(connection, lake, run_id)
        rows = read_rows(connection, query("published/traced_scores"), run_id=run_id)
    if not rows:
        raise InputError("run", f"{run_id}, without a score of an output with a trace_id", "a run of traces")
    return list(SHAPES[shape](rows))


def _otlp(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    resource = {"attributes": [{"key": "service.name", "value": {"stringValue": "gradebook"}}]}
    records = map(_log_record, rows)
    while some := list(islice(records, MOST_RECORDS)):
        scope = {"scope": {"name": "gradebook"}, "logRecords": some}
        yield {"resourceLogs": [{"resource": resource, "scopeLogs": [scope]}]}


def _log_record(row: Row) -> dict[str, Any]:
    texts = {
        "gen_ai.evaluation.name": row["name"],
        "gen_ai.evaluation.score.label": row["label"],
        "gen_ai.evaluation.explanation": row["explanation"],
        "gen_ai.response.model": row["model"],
        "gradebook.output_id": row["output_id"],
    }
    attributes = [{"key": key, "value": {"stringValue": text}} for key, text in texts.items() if text is not None]
    attributes.append({"key": "gen_ai.evaluation.score.value", "value": {"doubleValue": row["score"]}})
    record = {"timeUnixNano": _nanoseconds(row["scored_at"]), "eventName": "gen_ai.evaluation.result"}
    ids = {"traceId": row["trace_id"], "spanId": row["span_id"]}
    return record | drop_none(ids) | {"attributes": attributes}


def _nanoseconds(moment: datetime) -> str:
    return str(int(moment.timestamp() * 1_000_000) * 1_000)


def _langfuse(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    for row in rows:
        score = {"traceId": row["trace_id"], "name": row["name"], "value": row["score"], "dataType": "NUMERIC"}
        comment = ": ".join(text for text in (row["label"], row["explanation"]) if text)
        # The same score sent again replaces itself.
        yield {"id": f"{row['output_id']}-{row['name']}"} | score | drop_none({"comment": comment or None})


def _phoenix(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    for row in rows:
        if row["span_id"] is None:
            continue
        result = drop_none({"label": row["label"], "score": row["score"], "explanation": row["explanation"]})
        kind = _KINDS.get(row["method"] or "", "CODE")
        annotation = {"span_id": row["span_id"], "name": row["name"], "annotator_kind": kind, "result": result}
        yield annotation | {"identifier": "gradebook", "metadata": {"output_id": row["output_id"]}}


SHAPES: Mapping[str, Callable[[Iterable[Row]], Iterator[dict[str, Any]]]] = {
    "otlp": _otlp,
    "langfuse": _langfuse,
    "phoenix": _phoenix,
}
