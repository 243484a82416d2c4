"""Scores of a run beside the ids of the traces that its outputs came from, in the shapes of other systems.

otlp      OpenTelemetry's log records: an event `gen_ai.evaluation.result` for each score
langfuse  bodies of Langfuse's scores
phoenix   Phoenix's annotations of spans
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from itertools import islice
from typing import Any

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import Lake
from gradebook.tasks.lake.connections import connect_up_to_date
from gradebook.tasks.lake.rows import Row, read_published_run, read_rows
from gradebook.tasks.lake.sql import query

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
    return record | _given(ids) | {"attributes": attributes}


def _nanoseconds(moment: datetime) -> str:
    return str(int(moment.timestamp() * 1_000_000) * 1_000)


def _langfuse(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    for row in rows:
        score = {"traceId": row["trace_id"], "name": row["name"], "value": row["score"], "dataType": "NUMERIC"}
        comment = ": ".join(text for text in (row["label"], row["explanation"]) if text)
        # The same score sent again replaces itself.
        yield {"id": f"{row['output_id']}-{row['name']}"} | score | _given({"comment": comment or None})


def _phoenix(rows: Iterable[Row]) -> Iterator[dict[str, Any]]:
    for row in rows:
        if row["span_id"] is None:
            continue
        result = _given({"label": row["label"], "score": row["score"], "explanation": row["explanation"]})
        kind = _KINDS.get(row["method"] or "", "CODE")
        made = {"span_id": row["span_id"], "name": row["name"], "annotator_kind": kind, "result": result}
        yield made | {"identifier": "gradebook", "metadata": {"output_id": row["output_id"]}}


def _given(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in fields.items() if value is not None}


SHAPES: Mapping[str, Callable[[Iterable[Row]], Iterator[dict[str, Any]]]] = {
    "otlp": _otlp,
    "langfuse": _langfuse,
    "phoenix": _phoenix,
}
