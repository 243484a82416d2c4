"""deepeval: test runs and data sets as outputs, G-Eval metrics as a rubric."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.importers.deepeval import read_deepeval
from gradebook.rubrics.model.errors import RubricError
from tests.support.law_over import law_over

EXAMPLE = Path(__file__).parent / "examples" / "deepeval.json"
METRIC = {"name": "Correctness", "criteria": "Is the output right?", "threshold": 0.7}


def read(value: Any) -> Any:
    return read_deepeval(json.dumps(value), "run.json")


def example() -> Any:
    return read_deepeval(EXAMPLE.read_text(encoding="utf-8"), "run.json")


def test_a_test_case_is_an_output_with_its_context_tools_tokens_cost_and_time():
    first = example().cases[0]
    assert [first[name] for name in ("case_id", "model", "prompt", "output", "reference", "context")] == [
        "test_peru",
        "gpt-4o-mini",
        "Capital of Peru?",
        "Lima",
        "Lima",
        ["Peru's capital is Lima."],
    ]
    tool, call = first["steps"]
    assert tool == {"kind": "tool", "name": "search", "input": {"q": "Peru"}, "output": "Lima"}
    assert (call["tokens"], call["cost_usd"], call["latency_ms"]) == (20, 0.0001, 400.0)


def test_metrics_are_ratings_by_deepeval_and_one_that_failed_is_none():
    imported = example()
    found = [(row["case_id"], row["criterion_id"], row["score"], row.get("notes")) for row in imported.ratings]
    assert found == [
        ("test_peru", "correctness_geval", 0.8, "Right."),
        ("test_peru", "faithfulness", 1.0, None),
        ("test_chile", "correctness_geval", 0.1, "Wrong."),
        ("talk", "role_adherence", 1.0, None),
    ]
    assert {each["id"]: each["threshold"] for each in imported.rubric["criteria"]}["faithfulness"] == 0.5


def test_a_conversation_ends_with_the_assistant_s_last_turn():
    talk = example().cases[2]
    assert (talk["prompt"], talk["output"]) == ([{"role": "user", "content": "Hi"}], "Hello.")


def test_what_evaluate_returns_and_a_data_set_have_other_names_and_the_same_content():
    case = {"name": "a", "input": "Why?", "actual_output": "So.", "metrics_data": [{"name": "m", "score": 1}]}
    assert [row["score"] for row in read({"test_results": [case]}).ratings] == [1.0]
    bare = read([{"input": "Why?", "actual_output": "So."}, {"input": "When?", "expected_output": "Now."}])
    assert [("output" in row, row["case_id"]) for row in bare.cases] == [(True, "case_1"), (False, "case_2")]
    assert bare.rubric is None


def test_equal_inputs_of_one_name_are_samples_of_one_case():
    case = {"name": "a", "input": "Why?", "actual_output": "So."}
    assert [row.get("sample_index", 0) for row in read([case, case]).cases] == [0, 1]
    assert [row["case_id"] for row in read([case, {**case, "input": "Who?"}]).cases] == ["case_1", "case_2"]


def test_a_g_eval_metric_is_a_question_with_the_points_of_its_rubric():
    ranges = [
        {"score_range": [0, 4], "expected_outcome": "It is wrong."},
        {"score_range": [5, 10], "expected_outcome": "It is right."},
    ]
    (criterion,) = read([{**METRIC, "evaluation_steps": ["Read it.", "Judge it."], "rubric": ranges}]).rubric[
        "criteria"
    ]
    assert (criterion["description"], criterion["threshold"]) == ("Is the output right?", 0.7)
    assert criterion["method"] == {"type": "judge", "guidance": "1. Read it.\n2. Judge it."}
    points = criterion["scale"]["points"]
    assert (criterion["scale"]["max"], points["4"], points["5"]) == (10, "It is wrong.", "It is right.")


@law_over(
    ("value", "words"),
    [
        ({"testCases": []}, "found no test cases, expected at least one"),
        ({"testCases": 3}, "testCases: found 3, expected a list of test cases"),
        ({"testCases": [{"actualOutput": "x"}]}, "testCases[0].input: found no input and no turns"),
        ({"testCases": [{"input": "x", "metricsData": [{"score": 1}]}]}, "metricsData[0]: found no 'name'"),
        ([{**METRIC, "criteria": " "}], "found neither criteria nor evaluation_steps"),
        (
            [{**METRIC, "rubric": [{"score_range": [0, 11], "expected_outcome": "x"}]}],
            "found ranges that overlap or leave 0 to 10",
        ),
    ],
)
def test_another_file_is_refused_with_its_place(value: Any, words: str):
    with pytest.raises(RubricError) as caught:
        read(value)
    assert words in str(caught.value)
