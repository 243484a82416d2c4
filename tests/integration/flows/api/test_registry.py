"""Rubrics registered from Python, reviews by them, callables as functions, and summaries in plain JSON."""

import json

import pytest

import gradebook
from tests.support.published_runs import publish
from tests.support.samples import write_lines

CRITERION = {
    "id": "has_id",
    "description": "The record names the ticket's number.",
    "weight": 1,
    "threshold": 1,
    "method": {"type": "schema", "schema": {"type": "object", "required": ["id"]}},
}


def record(**changes):
    head = {"id": "record", "version": "1.0.0", "description": "A record of a ticket.", "target_type": "ticket"}
    return head | {"pass_threshold": 1, "criteria": [CRITERION | changes]}


@pytest.fixture
def registry(tmp_path):
    return gradebook.Registry(f"sqlite:{tmp_path}/lake/catalog.sqlite")


def test_a_changed_rubric_gets_the_version_that_its_changes_need(registry):
    registry.register(record())
    assert registry.update(record()).version == "1.0.0"
    assert registry.update(record(description="The record names the number and nothing else.")).version == "1.0.1"
    assert [row["rubric_version"] for row in registry.list("ticket")] == ["1.0.1", "1.0.0"]
    assert [each.version for each in registry.get_for_target("ticket")] == ["1.0.1"]
    assert registry.get("record@1.0.0").criteria[0].description == CRITERION["description"]
    registry.delete("record")
    with pytest.raises(gradebook.RubricError, match="expected record@VERSION"):
        registry.get("record")


def test_an_unfit_rubric_is_a_draft_alone(registry):
    unfit = record(description="Has id.")
    with pytest.raises(gradebook.RubricError, match="description-repeats-name"):
        registry.register(unfit)
    registry.register(unfit, state="draft")
    assert registry.get_for_target("ticket") == ()
    with pytest.raises(gradebook.InputError, match="target_type: found 'ticket', expected the target_type"):
        registry.review({"id": 1}, target_type="ticket")


def test_a_target_is_reviewed_by_the_rubrics_of_its_type(registry):
    registry.register(record())
    found = registry.review({"id": 1}, target_type="ticket", name="ticket-7")
    assert (found.target, found.status) == ("ticket-7", "approved")
    assert found.summary == "ticket-7: approved; record 1.0.0 approved (1.000)"
    refused = registry.review({"number": 1}, target_type="ticket", name="ticket-7")
    assert (refused.status, "has_id" in refused.feedback) == ("needs_revision", True)
    assert refused.as_json()["summary"] == refused.summary


CALLED = {
    "id": "kind",
    "version": "1.0.0",
    "criteria": [
        {
            "id": "greets",
            "description": "The reply begins with a greeting.",
            "threshold": 1,
            "method": {"type": "function", "function": "house.rules:greets"},
        }
    ],
}


def test_a_callable_is_the_function_that_the_rubric_names():
    seen = []

    def greets(row):
        seen.append(row["metadata"])
        return row["output"].startswith("Hello"), "the first word"

    rows = [
        {"case_id": name, "model": "m", "output": output, "metadata": metadata}
        for name, output, metadata in (("a", "Hello.", {"a": 1}), ("b", "No.", {}))
    ]
    with gradebook.Scorer(CALLED, functions={"house.rules:greets": greets}) as scorer:
        scores = scorer.score_all(rows)
    assert [each.score for each in scores] == [1.0, 0.0]
    assert (seen, scores[1].criteria["greets"].evidence) == ([{"a": 1}, {}], "the first word")


def test_a_callable_that_raises_leaves_its_criterion_unscored():
    found = gradebook.Scorer(CALLED, functions={"house.rules:greets": lambda row: 1 / 0}).score("Hello.")
    assert (found.score, found.unscored) == (None, {"greets": "function raised ZeroDivisionError: division by zero"})


@pytest.mark.parametrize(
    ("functions", "fault"),
    [
        ({"greets": print}, "functions: found 'greets', expected house.rules:greets"),
        ({"house.rules:greets": "greets"}, "functions: house.rules:greets: found a str, expected a callable"),
        ({}, "greets: found the function house.rules:greets, whose package is not allowed"),
    ],
)
def test_a_callable_that_fits_no_criterion_is_refused(functions, fault):
    with pytest.raises(gradebook.GradebookError, match=fault):
        gradebook.Scorer(CALLED, functions=functions)


def test_the_summary_of_a_run_is_plain_json(tmp_path):
    rows = [{"case_id": "a", "model": "m", "output": json.dumps({"id": 1})}]
    path = tmp_path / "record.yaml"
    path.write_text(json.dumps(record()), encoding="utf-8")
    publish(write_lines(tmp_path / "outputs.jsonl", rows), path, run_id="one")
    summary = gradebook.open_lake(f"sqlite:{tmp_path}/lake/catalog.sqlite").run("latest").summary
    assert json.loads(json.dumps(summary)) == summary
    assert (summary["run_id"], summary["scores"][0]["mean"]) == ("one", 1.0)
