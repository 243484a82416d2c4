"""Scores beside the ids of the traces that were scored, in each shape."""

import json

import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.tasks.lake.address import Lake, find_lake
from gradebook.tasks.published.runs import traced_scores
from tests.support import agent_traces
from tests.support.published_runs import publish
from tests.support.samples import write_lines

RUBRIC = """
id: agent
version: 1.0.0
pass_threshold: 0.8
criteria:
  - id: searched
    description: Did it search?
    weight: 1
    method: {type: check, check: tool_called, settings: {tools: [search]}}
  - {id: recovered, description: Did it go on?, weight: 1, method: {type: check, check: errors_recovered}}
"""


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Lake:
    folder = tmp_path_factory.mktemp("traced")
    (folder / "rubric.yaml").write_text(RUBRIC, encoding="utf-8")
    (folder / "trace.json").write_text(json.dumps(agent_traces.otlp_messages()), encoding="utf-8")
    publish(folder / "trace.json", folder / "rubric.yaml", run_id="traced")
    publish(
        write_lines(folder / "rows.jsonl", [{"case_id": "a", "model": "m", "output": "b", "steps": []}]),
        folder / "rubric.yaml",
        run_id="plain",
    )
    return find_lake(f"sqlite:{folder}/lake/catalog.sqlite")


@pytest.mark.nightly
def test_otlp_has_an_event_for_each_score(lake: Lake):
    (line,) = traced_scores(lake, "traced", "otlp")
    records = line["resourceLogs"][0]["scopeLogs"][0]["logRecords"]
    assert {(record["traceId"], record["spanId"], record["eventName"]) for record in records} == {
        ("t1", "s0", "gen_ai.evaluation.result")
    }
    found = [{each["key"]: next(iter(each["value"].values())) for each in record["attributes"]} for record in records]
    assert [
        (each["gen_ai.evaluation.name"], each["gen_ai.evaluation.score.value"], each["gen_ai.evaluation.score.label"])
        for each in found
    ] == [("recovered", 0.0, "fail"), ("searched", 1.0, "pass"), ("agent", 0.5, "fail")]


@pytest.mark.nightly
def test_other_systems_get_their_shapes(lake: Lake):
    langfuse, phoenix = (traced_scores(lake, "traced", shape) for shape in ("langfuse", "phoenix"))
    assert [(row["traceId"], row["name"], row["value"]) for row in langfuse] == [
        ("t1", "recovered", 0.0),
        ("t1", "searched", 1.0),
        ("t1", "agent", 0.5),
    ]
    assert len({row["id"] for row in langfuse}) == 3
    assert [(row["span_id"], row["annotator_kind"], row["result"]["score"]) for row in phoenix] == [
        ("s0", "CODE", 0.0),
        ("s0", "CODE", 1.0),
        ("s0", "CODE", 0.5),
    ]


def test_a_run_without_traces_is_refused(lake: Lake):
    with pytest.raises(InputError, match="expected a run of traces"):
        traced_scores(lake, "plain", "otlp")
