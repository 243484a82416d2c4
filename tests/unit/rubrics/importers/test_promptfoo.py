"""promptfoo: results as outputs with the scores of its assertions, configs as cases."""

import json
from pathlib import Path
from typing import Any

import pytest
import yaml

from gradebook.rubrics.importers.promptfoo import read_promptfoo
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.json_values import Row
from tests.support.law_over import law_over

EXACT = {"fold_whitespace": False}
SCHEMA = {"type": "object"}
EXAMPLE = Path(__file__).parent / "examples" / "promptfoo.json"


def example() -> Any:
    return read_promptfoo(EXAMPLE.read_text(encoding="utf-8"), "promptfoo.json")


def result(**changes: Any) -> Row:
    return {
        "promptIdx": 0,
        "testIdx": 0,
        "testCase": {"vars": {"c": "Peru"}, "assert": [{"type": "icontains", "value": "Lima"}]},
        "vars": {"c": "Peru"},
        "prompt": {"raw": "Capital of Peru?", "label": "p"},
        "provider": {"id": "small"},
        "response": {"output": "Lima"},
        "success": True,
        "score": 1,
    } | changes


def read(*results: Any) -> Any:
    return read_promptfoo(json.dumps({"results": {"version": 3, "results": list(results)}}), "r.json")


def config(*assertions: Any, **changes: Any) -> Any:
    test = {"description": "Peru", "vars": {"c": "Peru"}, "assert": list(assertions)}
    whole = {"prompts": ["Capital of {{ c }}?"], "providers": ["small"], "tests": [test]} | changes
    return read_promptfoo(yaml.safe_dump(whole), "promptfooconfig.yaml")


def criterion_of(assertion: Row) -> Row:
    (case,) = config(assertion).cases
    (criterion,) = case["criteria"]
    return criterion


def fault_of(text: str, path: str = "r.json") -> str:
    with pytest.raises(RubricError) as caught:
        read_promptfoo(text, path)
    return str(caught.value)


def test_a_result_is_an_output_with_its_model_tokens_cost_and_time():
    first, failed = example().cases
    assert [first[name] for name in ("case_id", "model", "output", "prompt")] == [
        "Peru",
        "openai:gpt-4o-mini",
        "Lima",
        "Capital of Peru?",
    ]
    step = {"kind": "model", "name": "openai:gpt-4o-mini", "tokens": 20, "cost_usd": 0.0001, "latency_ms": 412.0}
    assert first["steps"] == [step]
    assert (failed["output"], failed["steps"][0]["error"]) == ("", "API call error: 429")
    assert failed["prompt"] == [{"role": "user", "content": "Capital of Chile?"}]


def test_scores_of_assertions_are_ratings_by_promptfoo_and_those_of_a_person_by_human():
    ratings = [(row["criterion_id"], row["rater"], row["score"]) for row in example().ratings]
    assert ratings == [
        ("icontains", "promptfoo", 1.0),
        ("short", "promptfoo", 1.0),
        ("human", "human", 1.0),
        ("llm_rubric", "promptfoo", 0.5),  # its value came back with the variable filled in
    ]


def test_code_is_not_run_and_its_assertion_is_a_criterion_by_ratings():
    criteria = {each["id"]: each["method"]["type"] for each in example().cases[0]["criteria"]}
    assert criteria == {"icontains": "check", "llm_rubric": "judge", "short": "ratings", "human": "ratings"}
    assert "assert javascript (nothing here decides it)" in example().kept


def test_the_score_of_a_result_without_gradings_is_that_of_its_only_assertion():
    assert [rating["score"] for rating in read(result()).ratings] == [1.0]
    assert read(result(error="timeout")).ratings == ()


def test_several_prompts_are_checkpoints_and_models_and_repeats_are_samples():
    other = {"raw": "Peru's capital?", "label": "short"}
    rows = read(result(), result(promptIdx=1, prompt=other), result(), result(provider={"id": "x", "label": "large"}))
    found = [(row["model"], row["checkpoint"], row.get("sample_index", 0)) for row in rows.cases]
    assert found == [("small", "p", 0), ("small", "short", 0), ("small", "p", 1), ("large", "p", 0)]
    assert {row["case_id"] for row in rows.cases} == {"test_0"}


def test_one_prompt_for_two_providers_makes_no_checkpoints():
    rows = read(result(), result(promptIdx=1, provider={"id": "x", "label": "large"}))
    assert ["checkpoint" in row for row in rows.cases] == [False, False]


def test_a_line_of_results_and_a_bare_list_are_read_as_well():
    line = json.dumps(result())
    assert read_promptfoo(f"{line}\n{line}\n", "r.jsonl").cases == read_promptfoo(f"[{line}, {line}]", "r.json").cases


@law_over(
    ("assertion", "check", "settings"),
    [
        ({"type": "icontains", "value": "Lima"}, "contains", {"any": ["Lima"]}),
        ({"type": "contains", "value": 7}, "contains", {"any": ["7"], "case_sensitive": True}),
        ({"type": "icontains-all", "value": "a, b"}, "contains", {"all": ["a", "b"]}),
        ({"type": "not-icontains-any", "value": ["a", "{{ c }}"]}, "not_contains", {"any": ["a", "Peru"]}),
        ({"type": "equals", "value": "Lima"}, "matches_reference", {"expected": "Lima", **EXACT}),
        ({"type": "equals", "value": {"a": 1}}, "json_equals", {"value": {"a": 1}}),
        ({"type": "not-equals", "value": "x"}, "edit_similarity", {"expected": "x", **EXACT, "max": 0.9999995}),
        ({"type": "regex", "value": "L.m"}, "matches_regex", {"pattern": "L.m"}),
        ({"type": "not-regex", "value": "x"}, "matches_regex", {"pattern": "x", "is_negated": True}),
        ({"type": "starts-with", "value": "L"}, "starts_with", {"any": ["L"], "strip": False}),
        ({"type": "not-starts-with", "value": "L."}, "matches_regex", {"pattern": "^L\\.", "is_negated": True}),
        ({"type": "is-json"}, "json_valid", {}),
        ({"type": "contains-json", "value": SCHEMA}, "json_schema", {"schema": SCHEMA, "extract": "found"}),
        ({"type": "is-refusal"}, "no_refusal", {"is_negated": True}),
        ({"type": "not-is-refusal"}, "no_refusal", {}),
        ({"type": "word-count", "value": {"min": 1, "max": 5}}, "length_words", {"min": 1, "max": 5}),
        ({"type": "latency", "threshold": 2000}, "step_total", {"measure": "latency_ms", "max": 2000}),
        ({"type": "cost", "threshold": 0.01}, "step_total", {"measure": "cost_usd", "max": 0.01}),
        ({"type": "rouge-n", "value": "Lima"}, "rouge_n", {"expected": "Lima", "min": 0.75}),
    ],
)  # fmt: skip
def test_an_assertion_without_code_is_a_check(assertion: Row, check: str, settings: Row):
    assert criterion_of(assertion)["method"] == {"type": "check", "check": check, "settings": settings}


def test_a_rubric_for_a_model_is_a_question_with_its_variables_filled_in():
    criterion = criterion_of({"type": "llm-rubric", "value": "Names {{ c }}.", "weight": 2})
    assert (criterion["description"], criterion["weight"]) == ("Names Peru.", 2)
    assert [level["score"] for level in criterion["levels"]] == [0.0, 1.0]
    negated = criterion_of({"type": "not-llm-rubric", "value": "Is rude."})
    assert [(level["id"], level["score"]) for level in negated["levels"]] == [("met", 0.0), ("not_met", 1.0)]


def test_what_similar_and_factuality_compare_with_is_the_reference():
    (case,) = config(
        {"type": "similar", "value": "Lima", "threshold": 0.8}, {"type": "factuality", "value": "Lima"}
    ).cases
    assert case["reference"] == "Lima"
    assert [each["method"]["type"] for each in case["criteria"]] == ["similarity", "judge"]
    other = config({"type": "similar", "value": "Lima"}, {"type": "similar", "value": "Cusco"})
    assert len(other.cases[0]["criteria"]) == 1 and other.kept == ("assert similar (nothing here decides it)",)


def test_members_of_a_set_share_its_weight():
    members = [{"type": "equals", "value": "Lima"}, {"type": "starts-with", "value": "L", "weight": 3}]
    (case,) = config({"type": "assert-set", "weight": 2, "assert": members}).cases
    assert [each["weight"] for each in case["criteria"]] == [0.5, 1.5]


@pytest.mark.parametrize(
    ("assertion", "words"),
    [
        ({"type": "javascript", "value": "true"}, "assert javascript (nothing here decides it)"),
        ({"type": "regex", "value": "(?=x)"}, "assert regex (pattern: found '(?=x)'"),
        ({"type": "equals", "value": "file://x.txt"}, "assert equals (its value is in a file)"),
        ({"type": "equals", "value": "x", "transform": "output.trim()"}, "assert equals (its transform is code)"),
    ],
)
def test_in_a_config_an_assertion_that_nothing_decides_is_stored_and_reported(assertion: Row, words: str):
    imported = config(assertion)
    assert imported.kept[0].startswith(words)
    (case,) = imported.cases
    assert "criteria" not in case
    assert case["metadata"]["promptfoo"]["assert"][0]["type"] == assertion["type"]


def test_tests_share_the_default_and_lists_of_variables_are_combined():
    test = {"description": "Peru", "vars": {"c": ["Peru", "Chile"]}}
    default = {"assert": [{"type": "is-json"}], "vars": {"lang": "en"}}
    cases = config(tests=[test], defaultTest=default).cases
    assert [(case["case_id"], case["prompt"]) for case in cases] == [
        ("Peru/1", "Capital of Peru?"),
        ("Peru/2", "Capital of Chile?"),
    ]
    assert [each["id"] for each in cases[0]["criteria"]] == ["is_json"]
    two = config(prompts=["{{ c }}?", {"raw": "And {{ c }}?", "label": "and"}]).cases
    assert [case["case_id"] for case in two] == ["Peru/prompt_0", "Peru/and"]


@law_over(
    ("whole", "words"),
    [
        ({"results": {"version": 9, "results": []}}, "results.version: found 9, expected one of 1, 2, 3"),
        ({"results": {"version": 3}}, "results: found a mapping, expected a list of results"),
        ({"results": 3}, "results: found 3, expected a list of results"),
        ({"results": []}, "found no rows, expected at least one"),
        ({"results": [{"prompt": "x"}]}, "results[0]: found no 'testIdx'"),
        ({"results": [result(promptId=["a"])]}, "r.json:1: results[0].promptId: found a list, expected text"),
        ({"results": [result(promptId={"a": 1})]}, "results[0].promptId: found a mapping, expected text"),
        ({"prompts": ["x"], "tests": "file://tests.csv"}, "tests: found 'file://tests.csv', expected a list of tests"),
        ({"prompts": ["x"], "tests": []}, "tests: found no tests, expected a list of them: run"),
        ({"prompts": ["file://p.txt"], "tests": [{}]}, "prompts[0]: found 'file://p.txt', expected the prompt's text"),
        ({"prompts": ["x"], "tests": [{"vars": "file://v.yaml"}]}, "tests[0].vars: found 'file://v.yaml'"),
        ({"prompts": ["x"], "tests": [{"assert": [{"value": 3}]}]}, "tests[0].assert[0]: found no 'type'"),
        ({"some": "thing"}, "found no 'testIdx'"),
    ],
)  # fmt: skip
def test_another_file_is_refused_with_what_to_do(whole: Any, words: str):
    assert words in fault_of(json.dumps(whole))
