"""Files of dimensions: what is read of them, written back and refused."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.files.load import parse_rubric, read_rubric, shipped_rubrics
from gradebook.rubrics.importers.dimensions import read_dimensions, write_dimensions
from gradebook.rubrics.importers.registry import Imported
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.rubric import Rubric
from tests.support.law_over import law_over

EXAMPLE = (Path(__file__).parent / "examples" / "dimensions.json").read_text(encoding="utf-8")
METHODS = "one of 'deterministic', 'semantic_similarity', 'llm_judge', 'claim_pipeline', 'groundedness', 'human'"


def read_small(*, file: dict[str, Any] | None = None, gates: list[Any] | None = None, **dimension: Any) -> Imported:
    """A file with one dimension, in which some keys are others."""
    entry = {"id": "house_voice", "method": "llm_judge", "weight": 1, "threshold": 60, **dimension}
    values = {"id": "notes", "version": "1.0", "dimensions": [entry], "safety_gates": gates or [], **(file or {})}
    return read_dimensions(json.dumps(values), "notes.json")


def rubric_of(imported: Imported) -> Rubric:
    return Rubric.model_validate(imported.rubric)


def faults_of(text: str) -> list[str]:
    with pytest.raises(RubricError) as caught:
        read_dimensions(text, "notes.json")
    return [str(fault) for fault in caught.value.faults]


def test_the_file_s_head_becomes_the_rubric_s():
    rubric = rubric_of(read_dimensions(EXAMPLE, "recipes.json"))
    assert (rubric.id, rubric.version, rubric.owner, rubric.weight_sum) == (
        "recipe_helper_v1_2",
        "1.2.0",
        "kitchen-team",
        1,
    )


def test_weights_stay_and_thresholds_are_shares():
    rubric = rubric_of(read_dimensions(EXAMPLE, "recipes.json"))
    # 57 / 100
    assert (rubric.criterion("taste").weight, rubric.criterion("taste").threshold) == (0.05, 0.57)


@law_over(
    ("criterion_id", "method"),
    [
        ("units_are_metric", {"type": "function", "function": "dimensions:units_are_metric"}),
        ("steps_in_order", {"type": "judge"}),
        ("close_to_house_recipe", {"type": "similarity"}),
        ("no_made_up_ingredients", {"type": "claims"}),
        ("grounded", {"type": "claims"}),
        ("taste", {"type": "ratings"}),
        ("allergen_named", {"type": "judge", "prefer": "human"}),
    ],
)
def test_a_method_becomes_the_nearest_one(criterion_id: str, method: dict[str, str]):
    found = rubric_of(read_dimensions(EXAMPLE, "recipes.json")).criterion(criterion_id).method
    assert found.model_dump(exclude_defaults=True) == method


def test_a_prompt_is_the_question_that_the_judge_is_asked():
    asked = rubric_of(read_small(prompt="Is the tone that of the house?")).criteria[0]
    assert asked.description == "Is the tone that of the house?"
    assert [level.id for level in asked.ranked_levels] == ["not_met", "partly_met", "met"]


def test_a_prompt_with_slots_is_kept_beside_its_question():
    imported = read_small(prompt="Does {{ output }} fit {tone}?{% if x %}")
    asked = rubric_of(imported).criteria[0]
    assert asked.description == "Does output fit tone?"
    assert asked.metadata == {"dimensions": {"prompt": "Does {{ output }} fit {tone}?{% if x %}"}}
    assert imported.kept == ("dimensions.prompt",)


def test_a_dimension_that_says_nothing_is_described_by_its_name():
    assert rubric_of(read_small()).criteria[0].description == "House voice"


def test_a_dimension_named_like_a_reference_dimension_has_its_question_and_levels():
    reference = read_rubric("reference_dimensions").criterion("completeness")
    rubric = rubric_of(read_small(id="completeness"))
    found = rubric.criteria[0]
    assert (found.description, found.levels, found.method) == (
        reference.description,
        reference.levels,
        reference.method,
    )
    exported = write_dimensions(rubric)
    assert exported.lost == () and "description" not in json.loads(exported.text)["dimensions"][0]
    asked = rubric_of(read_small(id="completeness", prompt="Is all of it there?")).criteria[0]
    assert (asked.description, asked.levels[0].id) == ("Is all of it there?", "not_met")


def test_a_rule_that_nothing_decides_is_named():
    imported = read_small(method="deterministic", rule="At most 40 words.")
    assert imported.kept == ("dimensions.method (deterministic: nothing here decides it)",)
    assert rubric_of(imported).criteria[0].metadata == {"dimensions": {"method": "deterministic"}}
    assert rubric_of(imported).criteria[0].description == "At most 40 words."


def test_a_gate_that_is_only_named_is_asked_of_a_judge_and_goes_back_as_its_name():
    imported = read_small(gates=["medical_advice_without_disclaimer", "allergens"])
    words = "safety_gates.method (none: asked of a judge, and people's ratings count before its verdicts) (2)"
    assert imported.kept == (words,)
    gate = rubric_of(imported).criteria[1]
    assert gate.description == "Does the output pass the safety gate 'medical advice without disclaimer'?"
    assert [level.id for level in gate.ranked_levels] == ["fails", "passes"]
    assert gate.metadata == {"dimensions": {"method": None}}
    exported = write_dimensions(rubric_of(imported))
    assert json.loads(exported.text)["safety_gates"] == ["medical_advice_without_disclaimer", "allergens"]
    assert exported.lost == ()


@pytest.mark.parametrize("gate", ["pii_leakage", "PII-leakage", {"id": "no_pii", "method": "deterministic"}])
def test_a_gate_named_after_a_shipped_check_is_decided_by_it(gate: Any):
    imported = read_small(gates=[gate])
    rubric = rubric_of(imported)
    assert (rubric.criteria[1].method.model_dump(exclude_defaults=True), rubric.criteria[1].gate) == (
        {"type": "check", "check": "pii"},
        True,
    )
    assert any(words.endswith(": the check pii)") for words in imported.kept)
    assert json.loads(write_dimensions(rubric).text)["safety_gates"] == [gate]


def test_a_named_check_with_a_rule_of_its_own_is_not_that_check():
    gates = [{"id": "pii_leakage", "rule": "No names of staff."}]
    gate = rubric_of(read_small(gates=gates)).criteria[1]
    assert (gate.method.type, gate.description) == ("judge", "No names of staff.")


def test_safety_gates_are_gates_without_a_weight():
    gates = [criterion for criterion in rubric_of(read_dimensions(EXAMPLE, "recipes.json")).criteria if criterion.gate]
    assert [(gate.id, gate.weight, gate.method.type) for gate in gates] == [
        ("allergen_named", None, "judge"),
        ("no_raw_poultry", None, "judge"),
    ]


def test_a_gate_with_the_name_of_a_dimension_gets_another_id():
    rubric = rubric_of(read_small(gates=["house_voice"]))
    assert rubric.criterion("house_voice_2").metadata == {"dimensions": {"method": None, "id": "house_voice"}}


@pytest.mark.parametrize(
    ("given", "version"), [("1.0", "1.0.0"), ("2.10", "2.10.0"), ("3.0.4", "3.0.4"), (None, "1.0.0")]
)
def test_a_version_gets_three_numbers(given: str | None, version: str):
    imported = read_small(file={"version": given})
    assert (rubric_of(imported).version, imported.kept) == (version, ())


def test_a_version_that_is_no_number_is_kept():
    imported = read_small(file={"version": "spring"})
    assert rubric_of(imported).version == "1.0.0"
    assert (rubric_of(imported).metadata, imported.kept) == ({"dimensions": {"version": "spring"}}, ("version",))


def test_a_version_with_more_digits_than_a_rubric_s_is_kept():
    imported = read_small(file={"version": "1.1234567890"})
    assert (rubric_of(imported).version, imported.kept) == ("1.0.0", ("version",))


def test_an_export_writes_the_file_that_was_imported():
    assert json.loads(write_dimensions(rubric_of(read_dimensions(EXAMPLE, "recipes.json"))).text) == json.loads(EXAMPLE)


def test_imported_dimensions_are_a_rubric_file():
    imported = read_dimensions(EXAMPLE, "recipes.json")
    assert parse_rubric(json.dumps(imported.rubric), "out.yaml") == rubric_of(imported)


def test_an_export_divides_weights_by_their_sum():
    rubric = rubric_of(read_small()).model_copy(update={"weight_sum": None})
    three = rubric.model_copy(
        update={"criteria": tuple(rubric.criteria[0].model_copy(update={"id": c, "weight": 2}) for c in "ab")}
    )
    exported = write_dimensions(three)
    # 2 / (2 + 2)
    assert [entry["weight"] for entry in json.loads(exported.text)["dimensions"]] == [0.5, 0.5]
    assert exported.lost == ("the weights' sum, 4 (each is divided by it)",)


def test_an_export_names_what_dimensions_can_t_say():
    lost = write_dimensions(read_rubric("general_answer")).lost
    assert {"pass_threshold", "criteria.levels (4)"} <= {*lost}


@pytest.mark.parametrize(
    ("method", "lost"),
    [
        ({"function": "my_checks:tone"}, ["criteria.method.function"]),
        (
            {"function": "my_checks:tone", "settings": {"most": 3}},
            ["criteria.method.function", "criteria.method.settings"],
        ),
        ({"function": "dimensions:tone_fit"}, []),
        ({"function": "dimensions:tone_fit", "settings": {"most": 3}}, ["criteria.method.settings"]),
    ],
    ids=str,
)
def test_an_export_names_what_it_loses_of_a_function(method: dict[str, Any], lost: list[str]):
    body = read_small(method="deterministic").rubric
    body["criteria"][0]["method"] = {"type": "function", **method}
    assert sorted(write_dimensions(Rubric.model_validate(body)).lost) == lost


def test_a_rule_in_words_is_no_part_of_the_score_until_something_decides_it():
    (criterion,) = rubric_of(read_small(method="deterministic", rule="Every amount is metric.")).criteria
    assert (criterion.method.type, criterion.required) == ("function", False)


def test_an_export_names_what_it_loses_of_a_judge():
    body = read_small(method="llm_judge").rubric
    body["criteria"][0]["method"] = {"type": "judge", "max_tokens": 9, "guidance": "Thanks count."}
    lost = write_dimensions(Rubric.model_validate(body)).lost
    assert {"criteria.method.max_tokens", "criteria.method.guidance"} <= {*lost}


@law_over("name", shipped_rubrics())
def test_every_shipped_rubric_is_exported_as_dimensions_that_read(name: str):
    rubric = read_rubric(name)
    assert len(rubric_of(read_dimensions(write_dimensions(rubric).text, "f")).criteria) == len(rubric.criteria)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{"id": "a", "dimensions": []}', "notes.json: dimensions: found an empty list, expected at least 1 entry"),
        ('{"id": "a"}', "notes.json: found no 'dimensions', expected one"),
    ],
)  # fmt: skip
def test_a_file_that_holds_no_dimensions_is_refused(text: str, expected: str):
    assert faults_of(text) == [expected]


@law_over(
    ("found", "wanted", "expected"),
    [
        ('"threshold": 90', '"threshold": 900', "dimensions[0].threshold: found 900, expected a number of at most 100"),
        ('"threshold": 90', '"threshold": "90"', "dimensions[0].threshold: found '90', expected a number"),
        ('"weight": 0.2, "threshold": 90', '"threshold": 90', "dimensions[0]: found no 'weight', expected one"),
        ('"weight": 0.25', '"weight": true', "dimensions[1].weight: found true, expected a number"),
        ('"weight": 0.25', '"weight": -1', "dimensions[1].weight: found -1, expected a number of at least 0"),
        ('"method": "human"', '"method": "oracle"', f"dimensions[6].method: found 'oracle', expected {METHODS}"),
        ('"method": "human"', '"method": ["human"]', f"dimensions[6].method: found a list, expected {METHODS}"),
        ('"id": "taste"', '"id": "grounded"', "dimensions[6].id: found 'grounded' again, expected each id once"),
        ('"id": "taste"', '"id": 4', "dimensions[6].id: found 4, expected text (quotes make it so)"),
        ('"version": "1.2"', '"version": 1.2', "version: found 1.2, expected text (quotes make it so)"),
        ('"allergen_named",', '7,', "safety_gates[0]: found 7, expected a mapping of keys to values"),
        ('"owner": "kitchen-team"', '"owner": {}', "owner: found an empty mapping, expected text"),
    ],
)  # fmt: skip
def test_a_wrong_value_of_a_dimension_is_told_at_its_place(found: str, wanted: str, expected: str):
    assert faults_of(EXAMPLE.replace(found, wanted)) == [f"notes.json: {expected}"]


def test_every_fault_of_the_dimensions_is_told_at_once():
    text = EXAMPLE.replace('"threshold": 90', '"threshold": null').replace('"weight": 0.05', '"weight": "x"')
    assert len(faults_of(text)) == 2


def test_weights_of_nothing_make_no_rubric():
    with pytest.raises(RubricError, match="weight"):
        read_small(weight=0)


def test_a_nesting_that_no_rubric_file_holds_is_a_fault():
    deep: Any = "end"
    for _ in range(49):
        deep = [deep]
    with pytest.raises(RubricError, match="more than 50 levels of nesting"):
        read_small(file={"more": deep})
