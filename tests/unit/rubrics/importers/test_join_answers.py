"""The join of cases with a file of answers."""

from typing import Any

import pytest

from gradebook.rubrics.importers.case_rows import join_answers
from gradebook.rubrics.model.errors import RubricError
from tests.support.law_over import law_over

CASES = (
    {"case_id": "a", "prompt": "Name a tree.", "criteria": [{"id": "q1"}]},
    {"case_id": "b", "prompt": [{"role": "user", "content": "Name a bird."}]},
)


def test_an_answer_finds_its_case_by_id():
    rows, unmatched = join_answers(CASES[:1], [{"prompt_id": "a", "response": "Oak", "model": "m"}])
    assert (rows, unmatched) == (({**CASES[0], "model": "m", "output": "Oak"},), ())


def test_an_answer_finds_its_case_by_the_prompt_be_it_text_or_a_lone_message():
    rows, unmatched = join_answers(CASES, [{"prompt": "Name a bird.", "completion": "Wren"}])
    assert [row.get("output") for row in rows] == [None, "Wren"] and unmatched == ("case 'a': no answer",)


def test_an_answer_without_a_model_is_by_an_unknown_one():
    rows, _ = join_answers(CASES[:1], [{"id": "a", "output": "Oak"}])
    assert rows[0]["model"] == "unknown"


def test_a_case_has_a_row_for_each_model_and_each_of_its_samples():
    answers = [
        {"id": "a", "output": text, "model": model} for model, text in (("m", "Oak"), ("n", "Elm"), ("m", "Ash"))
    ]
    rows, _ = join_answers(CASES[:1], answers)
    assert [(row["model"], row.get("sample_index"), row["output"]) for row in rows] == [
        ("m", None, "Oak"),
        ("n", None, "Elm"),
        ("m", 1, "Ash"),
    ]


def test_an_answer_without_a_case_is_named():
    _, unmatched = join_answers(CASES[:1], [{"id": "a", "output": "Oak"}, {"id": "z", "output": "Fir"}])
    assert unmatched == ("answer 2 ('z'): no case has its id or prompt",)


def test_a_case_without_a_prompt_is_no_match_for_the_word_null():
    _, unmatched = join_answers([{"case_id": "a"}], [{"prompt": "null", "output": "Oak"}])
    assert unmatched == ("answer 1: no case has its id or prompt", "case 'a': no answer")


def test_an_id_with_another_prompt_is_not_taken_for_a_match():
    _, unmatched = join_answers(CASES[:1], [{"id": "a", "prompt": "Name a stone.", "output": "Flint"}])
    assert unmatched == ("answer 1 ('a'): no case has its id or prompt", "case 'a': no answer")


def test_the_rest_of_an_answer_is_kept_in_its_metadata():
    rows, _ = join_answers(CASES[:1], [{"id": "a", "output": "Oak", "seconds": 2}])
    assert rows[0]["metadata"] == {"answer": {"seconds": 2}}


def test_a_case_with_an_answer_keeps_it_beside_the_new_one():
    rows, _ = join_answers([{**CASES[0], "model": "m", "output": "Oak"}], [{"id": "a", "output": "Elm", "model": "n"}])
    assert [(row["model"], row["output"]) for row in rows] == [("m", "Oak"), ("n", "Elm")]


@law_over(
    ("answer", "words"),
    [
        (3, "[0]: found 3, expected a mapping"),
        ({"id": "a"}, "[0]: found no answer"),
        ({"id": "a", "output": 3}, "[0].output: found 3, expected text"),
        ({"id": ["a"], "output": "x"}, "[0].id: found a list, expected text"),
        ({"id": "a", "output": "x", "model": " "}, "[0].model: found blank text"),
        ({"id": "a", "output": "x", "prompt": 3}, "[0].prompt: found 3"),
        ({"id": "a", "output": "x", "response": "y"}, "found output and response, expected one of them"),
        ({"id": "a", "output": "x", "sample_index": -1}, "[0].sample_index: found -1"),
    ],
)
def test_what_is_no_answer_is_refused(answer: Any, words: str):
    with pytest.raises(RubricError) as caught:
        join_answers(CASES, [answer])
    assert words in str(caught.value)
