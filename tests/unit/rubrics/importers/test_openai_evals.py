"""OpenAI evals: output items as outputs with the graders' scores, items as cases."""

import json
from typing import Any

import pytest

from gradebook.rubrics.importers.openai_evals import read_openai_evals
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.json_values import Row

ASKED = [{"role": "user", "content": "Capital of Peru?"}]


def output_item(**changes: Any) -> Row:
    sample = {
        "input": ASKED,
        "output": [{"role": "assistant", "content": "Lima"}],
        "model": "small",
        "usage": {"total_tokens": 20},
        "error": None,
    }
    return {
        "object": "eval.run.output_item",
        "datasource_item_id": 4,
        "datasource_item": {"question": "Peru", "ideal": "Lima"},
        "results": [{"name": "match", "passed": True, "score": 1.0}],
        "sample": sample,
    } | changes


def read(*rows: Any) -> Any:
    return read_openai_evals("".join(json.dumps(row) + "\n" for row in rows), "run.jsonl")


def test_an_output_item_is_an_output_with_a_rating_by_openai():
    imported = read(output_item())
    (case,) = imported.cases
    columns = ("case_id", "model", "output", "prompt", "reference", "steps")
    step = {"kind": "model", "name": "small", "tokens": 20}
    assert [case[name] for name in columns] == ["4", "small", "Lima", ASKED, "Lima", [step]]
    place = {"case_id": "4", "model": "small", "sample_index": 0}
    assert imported.ratings == ({**place, "criterion_id": "match", "rater": "openai", "score": 1.0},)
    assert [each["method"] for each in imported.rubric["criteria"]] == [{"type": "ratings"}]


def test_a_page_of_the_api_is_its_data():
    page = {"object": "list", "data": [output_item(), output_item(datasource_item_id=5)], "has_more": False}
    assert [case["case_id"] for case in read(page).cases] == ["4", "5"]


def test_the_name_that_the_api_made_of_a_grader_is_the_grader_s():
    name = "match-a2486074-d803-4445-b431-ad2262e85d47"
    assert read(output_item(results=[{"name": name, "passed": False}])).ratings[0]["criterion_id"] == "match"


@pytest.mark.parametrize(
    ("result", "score"),
    [
        ({"passed": True, "score": 0.25}, 0.25),
        ({"passed": False}, 0.0),
        ({"passed": True, "score": 4}, 1.0),  # of a range that the item does not tell
        ({"passed": False, "score": None, "sample": {"error": {"code": "timeout"}}}, None),
        ({"score": None}, None),
    ],
)
def test_a_score_in_0_to_1_counts_or_else_whether_it_passed(result: Row, score: float | None):
    ratings = read(output_item(results=[{"name": "match", **result}])).ratings
    assert [rating["score"] for rating in ratings] == ([] if score is None else [score])


def test_a_sample_that_failed_is_an_empty_output_with_the_error():
    failed = output_item()["sample"] | {"output": [], "error": {"code": "rate_limit", "message": "later"}}
    (case,) = read(output_item(sample=failed, results=[])).cases
    assert (case["output"], case["steps"][0]["error"]) == ("", "rate_limit: later")


def test_an_answer_of_calls_alone_is_their_text():
    calls = [{"type": "function", "function": {"name": "city_of", "arguments": '{"land": "Peru"}'}}]
    said = output_item()["sample"] | {"output": [{"role": "assistant", "content": None, "tool_calls": calls}]}
    (case,) = read(output_item(sample=said)).cases
    assert json.loads(case["output"]) == calls


def test_runs_of_one_item_by_several_models_are_one_case():
    other = output_item()["sample"] | {"model": "large", "input": [{"role": "user", "content": "Capital? Peru."}]}
    assert [case["case_id"] for case in read(output_item(), output_item(sample=other)).cases] == ["4", "4"]


def test_an_item_of_a_data_set_is_a_case_and_its_output_too_where_it_has_one():
    bare, answered = read(
        {"item": {"ticket": "My screen is dark.", "correct_label": "Hardware"}},
        {"item": {"question": "Why?", "answer": "So.", "output": "Because."}},
    ).cases
    assert (bare["prompt"], bare["reference"], "output" in bare) == (
        '{"ticket": "My screen is dark."}',
        "Hardware",
        False,
    )
    assert (answered["prompt"], answered["output"], answered["model"]) == ("Why?", "Because.", "unknown")


@pytest.mark.parametrize(
    ("row", "words"),
    [
        ({"id": "x"}, "run.jsonl:1: found no 'datasource_item', expected one"),
        (output_item(datasource_item=3), "run.jsonl:1: datasource_item: found 3, expected a mapping"),
        (output_item(results=[{"passed": True}]), "results[0]: found no 'name'"),
        ({"data": []}, "found an empty list, expected output items"),
    ],
)
def test_another_row_is_refused(row: Any, words: str):
    with pytest.raises(RubricError) as caught:
        read(row)
    assert words in str(caught.value)
