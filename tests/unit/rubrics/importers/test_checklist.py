"""Checklists: yes/no questions for each case."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.importers.checklist import read_checklist, write_checklist
from gradebook.rubrics.model.errors import RubricError
from tests.support.law_over import law_over

EXAMPLE = Path(__file__).parent / "examples" / "checklist.jsonl"


def row(*questions: Any, **changes: Any) -> dict[str, Any]:
    return {"id": "a", "prompt": "Greet me.", "checklist": list(questions) or ["Is it kind?"]} | changes


def read(*rows: Any) -> Any:
    return read_checklist(json.dumps(rows), "list.json")


def test_a_question_is_a_criterion_judged_by_no_or_yes():
    (criterion,) = read(row()).cases[0]["criteria"]
    assert criterion == {
        "id": "q1",
        "description": "Is it kind?",
        "method": {"type": "judge"},
        "levels": [{"id": "no", "score": 0.0}, {"id": "yes", "score": 1.0}],
    }


def test_a_question_may_have_a_weight_and_an_id():
    criteria = read(row({"question": "Is it kind?", "weight": 2, "id": "kind"}, "Is it short?")).cases[0]["criteria"]
    assert [(each["id"], each.get("weight")) for each in criteria] == [("kind", 2), ("q2", None)]


@pytest.mark.parametrize("form", ["list", "lines", "alone"])
def test_a_list_lines_and_a_lone_object_are_read_alike(form: str):
    text = {"list": json.dumps([row()]), "lines": json.dumps(row()) + "\n", "alone": json.dumps(row(), indent=1)}[form]
    assert read_checklist(text, "p") == read(row())


def test_the_other_names_of_the_columns_mean_the_same():
    other = {
        "case_id": "a",
        "instruction": "Greet me.",
        "questions": ["Is it kind?"],
        "completion": "Hi.",
        "model": "m",
    }
    assert read(other).cases == read(row(response="Hi.", model="m")).cases


def test_a_column_given_under_both_names_is_kept():
    imported = read(row(instruction="Say hello."))
    assert imported.cases[0]["prompt"] == "Greet me." and imported.kept == ("instruction",)


def test_a_case_has_a_row_for_each_model_that_answered_it():
    rows = read_checklist(EXAMPLE.read_text(encoding="utf-8"), "checklist.jsonl").cases
    assert [(each["case_id"], each.get("model")) for each in rows] == [
        ("trip-1", "small-model"),
        ("trip-1", "large-model"),
        ("trip-2", None),
    ]


def test_cases_without_ids_are_numbered_beside_those_that_have_one():
    rows = [row(id=None), row(id="case_1", prompt="Thank me."), row(id=None, prompt="Thank her.")]
    assert [each["case_id"] for each in read(*rows).cases] == ["case_2", "case_1", "case_3"]


def test_a_reference_is_a_column_of_the_case():
    assert read(row(reference="Dear Ana")).cases[0]["reference"] == "Dear Ana"


def test_what_has_no_place_is_kept_and_named():
    imported = read_checklist(EXAMPLE.read_text(encoding="utf-8"), "checklist.jsonl")
    assert imported.kept == ("questions[].source (2)", "topic")
    assert imported.cases[2]["metadata"] == {"checklist": {"topic": "packing"}}


def test_an_export_names_what_a_question_can_not_say():
    scale = {"id": "q1", "description": "How kind?", "method": {"type": "judge"}, "scale": {"min": 1, "max": 5}}
    exported = write_checklist([{"case_id": "a", "prompt": "Hm?", "criteria": [scale], "metadata": {"own": 1}}])
    assert set(exported.lost) == {"metadata.own", "criteria[].scale"}


def test_an_export_of_a_case_without_criteria_is_refused():
    with pytest.raises(RubricError, match="checklist: found an empty list, expected at least 1 entry"):
        write_checklist([{"case_id": "a", "prompt": "Hm?"}])


@law_over(
    ("wrong", "words"),
    [
        (["x"], "list.json: [0]: found a list, expected a mapping"),
        (row(id=1.5), "[0].id: found 1.5, expected text"),
        (row(id=""), "[0].id: found blank text"),
        (row(prompt=None), "[0].prompt: found nothing, expected text or a list of chat messages"),
        ({"checklist": ["Is it kind?"]}, "[0]: found no 'prompt', expected one"),
        ({"prompt": "Greet me."}, "[0]: found no 'checklist', expected one"),
        ({"prompt": "Greet me.", "questions": "Is it kind?"}, "[0].questions: found 'Is it kind?', expected a list"),
        ({"prompt": "Greet me.", "questions": []}, "[0].questions: found an empty list"),
        (row(3), "[0].checklist[0]: found 3, expected a mapping"),
        (row("Is it kind?", " "), "[0].checklist[1].question: found blank text"),
        (row({"question": "Why?", "weight": "2"}), "[0].checklist[0].weight: found '2', expected a number"),
        (
            row({"question": "Why?", "weight": 1e7}),
            "[0].checklist[0].weight: found 10000000.0, expected a number of at",
        ),
        (row({"question": "Why?", "id": "1 x"}), "[0].checklist[0].id: found '1 x', expected letters, digits"),
        (row("Is it kind?", {"question": "Why?", "id": "q1"}), "[0].questions: found the id 'q1' again"),
        (row(response=3), "[0].response: found 3, expected text"),
        (row(output="a", response="b"), "[0]: found output and response, expected one of them"),
        (row(model=3, output="a"), "[0].model: found 3, expected text"),
    ],
)
def test_a_wrong_part_is_named_at_its_place(wrong: Any, words: str):
    with pytest.raises(RubricError) as caught:
        read(wrong)
    assert words in str(caught.value)
