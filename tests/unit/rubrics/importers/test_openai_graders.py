"""OpenAI graders: each type as a criterion, and what can not be one is refused with what to do."""

import json
from typing import Any

import pytest

from gradebook.rubrics.importers.openai_graders import formula_weights, read_openai_graders
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.json_values import Row
from tests.support.law_over import law_over

OUTPUT, IDEAL = "{{ sample.output_text }}", "{{ item.ideal }}"


def string_check(**changes: Any) -> Row:
    return {"type": "string_check", "name": "match", "input": OUTPUT, "reference": IDEAL, "operation": "eq"} | changes


def similarity(**changes: Any) -> Row:
    base = {"type": "text_similarity", "name": "near", "input": OUTPUT, "reference": IDEAL}
    return {**base, "evaluation_metric": "fuzzy_match", "pass_threshold": 0.85} | changes


def asked(kind: str, **changes: Any) -> Row:
    messages = [{"role": "user", "content": f"Is {OUTPUT} polite to {{{{ item.name }}}}?"}]
    return {"type": kind, "name": "polite", "model": "gpt-4o-mini", "input": messages} | changes


def read(value: Any) -> Any:
    return read_openai_graders(json.dumps(value), "graders.json")


def criterion_of(grader: Row) -> Row:
    (criterion,) = read([grader]).rubric["criteria"]
    return criterion


def fault_of(value: Any) -> str:
    with pytest.raises(RubricError) as caught:
        read(value)
    return str(caught.value)


@pytest.mark.parametrize(
    ("grader", "check", "settings", "description"),
    [
        (string_check(), "matches_reference", {}, "The output is the reference."),
        (string_check(reference="Lima"), "matches_reference", {"expected": "Lima"}, "The output is 'Lima'."),
        (string_check(operation="ne"), "edit_similarity", {"max": 0.9999995}, "The output is not the reference."),
        (string_check(operation="ilike"), "contains_reference", {}, "The output contains the reference, in any case."),
        (
            string_check(operation="like", reference=OUTPUT, input="Lima"),
            "contains_reference",
            {"expected": "Lima", "case_sensitive": True},
            "The output contains 'Lima'.",
        ),
    ],
)
def test_a_string_check_is_a_check_of_the_same_comparison(grader, check, settings, description):
    criterion = criterion_of(grader)
    assert criterion["method"] == {
        "type": "check",
        "check": check,
        "settings": {"fold_whitespace": False, **settings},
    }
    assert (criterion["threshold"], criterion["description"]) == (1, description)


def test_a_similarity_gives_tenths_and_its_threshold_is_one_of_the_points():
    criterion = criterion_of(similarity())
    assert criterion["threshold"] == 0.85
    assert [level["score"] for level in criterion["levels"]][-4:] == [0.8, 0.85, 0.9, 1.0]
    assert criterion["method"]["settings"]["levels"]["0.85"] == 0.85


def test_a_similarity_by_embeddings_is_the_method_similarity():
    method = {"type": "similarity", "against": "reference", "is_rescaled": False}
    assert criterion_of(similarity(evaluation_metric="cosine"))["method"] == method


def test_a_score_model_is_judged_on_its_range():
    five = criterion_of(asked("score_model", range=[1, 5], pass_threshold=4))
    assert (five["scale"], five["threshold"]) == ({"min": 1, "max": 5}, 0.75)  # (4 - 1) / (5 - 1)
    share = criterion_of(asked("score_model"))
    assert [(level["id"], level["score"]) for level in share["levels"]][1:3] == [("0.25", 0.25), ("0.5", 0.5)]
    below = criterion_of(asked("score_model", range=[-1, 1]))
    assert [level["label"] for level in below["levels"]] == ["-1", "-0.5", "0", "0.5", "1"]


def test_labels_are_levels_and_those_that_pass_are_the_best():
    labels = {"labels": ["good", "bad", "so so"], "passing_labels": ["good"]}
    levels = criterion_of(asked("label_model", **labels))["levels"]
    assert [(level["id"], level["score"]) for level in levels] == [("bad", 0), ("so_so", 0), ("good", 1)]


def test_a_question_names_its_slots_and_the_messages_are_stored():
    criterion = criterion_of(asked("score_model"))
    assert criterion["description"] == "Is [the output] polite to [item.name]?"
    assert criterion["metadata"]["openai-graders"]["input"] == asked("x")["input"]


def test_an_eval_is_a_rubric_of_its_name_and_a_page_of_evals_one_each():
    one = {"object": "eval", "id": "eval_1", "name": "Capital cities", "testing_criteria": [string_check()]}
    rubric = read(one).rubric
    assert (rubric["id"], rubric["metadata"]) == ("capital_cities", {"openai-graders": {"id": "eval_1"}})
    page = read({"object": "list", "data": [one, {**one, "name": "Rivers"}]})
    assert [each["id"] for each in page.rubrics] == ["capital_cities", "rivers"]


@pytest.mark.parametrize(
    ("formula", "weights"),
    [
        ("(a + b) / 2", {"a": 0.5, "b": 0.5}),
        ("0.7 * a + b * 0.3", {"a": 0.7, "b": 0.3}),
        ("a - 0.5 * b", {"a": 1, "b": -0.5}),
        ("-(-a)", {"a": 1, "b": 0}),
    ],
)
def test_the_formula_of_a_multigrader_gives_its_weights(formula: str, weights: dict[str, float]):
    assert formula_weights(formula, ("a", "b")) == pytest.approx(weights)


@law_over(
    "formula",
    ["max(a, b)", "a * b", "a ** 2", "1 / a", "a / 0", "a + 1", "a +", "a.b", "c", "(" * 900 + "a", "9" * 900 + "*a"],
)
def test_another_formula_is_refused(formula: str):
    with pytest.raises(ValueError, match="expected"):
        formula_weights(formula, ("a", "b"))


def test_a_multigrader_is_weighted_by_its_formula():
    multi = {"type": "multi", "name": "both", "graders": {"exact": string_check(), "near": similarity()}}
    rubric = read({**multi, "calculate_output": "0.8 * exact + 0.2 * near"}).rubric
    assert {each["id"]: each["weight"] for each in rubric["criteria"]} == {"exact": 0.8, "near": 0.2}
    twice = read({"grader": {**multi, "calculate_output": "exact + near"}})
    assert any("its weights add up to 2" in words for words in twice.kept)
    assert "calculate_output: found 'max(exact, near)'" in fault_of({**multi, "calculate_output": "max(exact, near)"})


@law_over(
    ("value", "words"),
    [
        (
            [string_check(), {"type": "python", "name": "p", "source": "def grade(sample, item): return 1.0"}],
            "label_model: gradebook runs no code of a file: write this test as a check or a function of your own",
        ),
        ([{"type": "string_chek"}], "[0].type: found 'string_chek', expected one of"),
        ([{"name": "x"}], "[0].type: found nothing, expected one of"),
        ([string_check(), {"type": "multi"}], "[1].type: found 'multi', expected one of"),
        ([string_check(operation="contains")], "[0].operation: found 'contains'"),
        ([string_check(input="{{ sample.output_json.a }}")], "expected {{ sample.output_text }}: the whole text"),
        ([string_check(reference="It is {{ item.ideal }}")], "expected a text or one field, {{ item.NAME }}"),
        ([string_check(), string_check(reference="{{ item.other }}")], "expected {{ item.ideal }} as before"),
        ([similarity(evaluation_metric="meteor")], "found 'meteor', which is not measured here"),
        ([similarity(evaluation_metric="rouge")], "found 'rouge', expected one of"),
        ([similarity(pass_threshold=80)], "pass_threshold: found 80, expected a number of at most 1"),
        ([asked("score_model", range=[5, 1])], "range: found 5 and 1, expected the lower number first"),
        ([asked("score_model", pass_threshold=3)], "pass_threshold: found 3, expected a score from 0 to 1"),
        ([asked("score_model", input=[])], "[0].input: found an empty list"),
        ([asked("label_model", labels=["a", "b"], passing_labels=["c"])], "passing_labels: found 'c', expected one"),
        ([asked("label_model", labels=["a", "b"], passing_labels=["a", "b"])], "found every label"),
        ({"testing_criteria": []}, "testing_criteria: found an empty list, expected at least one grader"),
        ({"name": "x"}, "found a mapping, expected a grader with a type, a list of graders, or an eval"),
        ({"data": []}, "data: found an empty list, expected evals"),
    ],
)
def test_what_is_no_grader_is_refused_with_its_place(value: Any, words: str):
    assert words in fault_of(value)


def test_every_fault_is_reported_at_once():
    faults = fault_of([string_check(operation="x"), similarity(evaluation_metric="gleu"), {"type": "python"}])
    assert [f"[{place}]." in faults for place in range(3)] == [True] * 3
