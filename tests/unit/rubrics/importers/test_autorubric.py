"""AutoRubric lists: what weights, options and sections become, what is written back, and what is refused where."""

import json
from pathlib import Path

import pytest
import yaml
from hypothesis import HealthCheck, given, settings

from gradebook.rubrics.files.load import read_rubric
from gradebook.rubrics.importers.autorubric import read_autorubric, write_autorubric
from gradebook.rubrics.importers.registry import Imported
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.rubric import Rubric, effective_weights
from tests.support.law_over import law_over
from tests.support.rubric_strategies import rubrics

EXAMPLE = Path(__file__).parent / "examples" / "autorubric.yaml"
WEIGHTED = "expected at least one criterion with a weight above 0"
SECTIONS = """\
rubric:
  sections:
    - name: Facts
      note: from the desk
      criteria:
        - requirement: Names the quarter.
    - criteria:
        - requirement: Is polite.
          weight: 2
author: the desk
"""


def example() -> Imported:
    return read_autorubric(EXAMPLE.read_text(encoding="utf-8"), "quarter.yaml")


def rubric_of(imported: Imported) -> Rubric:
    return Rubric.model_validate(imported.rubric)


def faults_of(text: str, path: str = "f.yaml") -> list[str]:
    with pytest.raises(RubricError) as caught:
        read_autorubric(text, path)
    return [str(fault) for fault in caught.value.faults]


def test_a_list_becomes_a_rubric_of_the_files_name():
    rubric = rubric_of(example())
    assert (rubric.id, rubric.version) == ("quarter", "1.0.0")
    assert [(criterion.id, criterion.weight, criterion.method.type) for criterion in rubric.criteria] == [
        ("margin", 10, "judge"),
        ("cause", 6, "judge"),
        ("is_the_answer_as_long_as_the_question_needs", 4, "judge"),
        ("gives_advice_to_buy_or_to_sell", -8, "judge"),
    ]


def test_options_become_levels_and_a_bare_requirement_is_met_or_not():
    margin, _, length, _ = rubric_of(example()).criteria
    assert [(level.id, level.score) for level in margin.levels] == [("not_met", 0), ("met", 1)]
    assert [(level.id, level.score, level.description) for level in length.levels] == [
        ("too_short", 0, "Too short"),
        ("too_long", 0, "Too long"),
        ("just_right", 1, "Just right"),
    ]


def test_the_kind_of_scale_and_the_option_without_a_score_are_kept_and_named():
    imported = example()
    assert imported.kept == ("scale_type (2)", "na_options")
    assert imported.rubric["criteria"][1]["metadata"]["autorubric"] == {
        "scale_type": "ordinal",
        "na_options": [{"label": "The question asks for no cause.", "na": True}],
    }


def test_the_example_comes_back():
    exported = write_autorubric(rubric_of(example()))
    original = yaml.safe_load(EXAMPLE.read_text(encoding="utf-8"))
    again = yaml.safe_load(exported.text)
    assert [{**entry, "name": None} for entry in again] == [{**entry, "name": None} for entry in original]


def test_a_criterion_without_a_weight_has_the_formats_own():
    assert rubric_of(read_autorubric("- requirement: Is polite.", "f.yaml")).criteria[0].weight == 10


def test_json_is_read_too():
    listed = [
        {"weight": 1, "requirement": "Is polite.", "options": [{"label": "1", "value": 0}, {"label": "2", "value": 1}]}
    ]
    for path in ("f.json", "f.yaml", "f"):
        levels = rubric_of(read_autorubric(json.dumps(listed, indent=1), path)).criteria[0].levels
        assert [level.id for level in levels] == ["1", "2"]


def test_sections_become_categories_and_come_back():
    imported = read_autorubric(SECTIONS, "f.yaml")
    rubric = rubric_of(imported)
    assert [criterion.category for criterion in rubric.criteria] == ["Facts", "section 2"]
    assert imported.kept == ("sections.note", "author")
    assert read_autorubric(write_autorubric(rubric).text, "f.yaml") == imported


def test_bare_criteria_and_sections_may_stand_in_one_list():
    text = "- requirement: a\n- {name: s, criteria: [{requirement: b}]}\n- requirement: c\n"
    imported = read_autorubric(text, "f.yaml")
    assert [criterion.get("category") for criterion in imported.rubric["criteria"]] == [None, "s", None]
    assert read_autorubric(write_autorubric(rubric_of(imported)).text, "f.yaml") == imported


@pytest.mark.parametrize("start", ["", "# a comment\n\n---\n", "\ufeff", "--- # the list\n"])
def test_a_list_is_read_whatever_stands_above_it(start: str):
    assert len(rubric_of(read_autorubric(start + "- requirement: Is polite.", "f.yaml")).criteria) == 1


@law_over(
    ("text", "message"),
    [
        ("polite", "f.yaml:1: found a single value at the top of the file, expected lines of `key: value`"),
        ("criteria: []", "f.yaml:1: found a mapping without rubric or sections, expected a list of criteria"),
        ("a: 1\nrubric: 5", "f.yaml:2: rubric: found 5, expected a list of criteria"),
        ("rubric: []", "f.yaml:1: rubric: found an empty list, expected at least one criterion"),
        ("- requirement: a\n- 5", "f.yaml:2: [1]: found 5, expected a mapping of keys to values"),
        ("- weight: 1", "f.yaml:1: [0]: found no 'requirement', expected one"),
        (
            "- requirement: a\n  weight: yes",
            "f.yaml:2: [0].weight: found true (a bare yes, no, on or off is read so), expected a number",
        ),
        (
            "- requirement: a\n  weight: .nan",
            "f.yaml:2: found .nan, expected a plain decimal number, or quotes around text",
        ),
        (
            "- requirement: a\n  weight: 1\n  weight: 2",
            "f.yaml:3: found the key 'weight' again (first in line 2), expected each key once",
        ),
        (
            "- requirement: a\n  scale_type: odd",
            "f.yaml:2: [0].scale_type: found 'odd', expected one of 'ordinal', 'nominal'",
        ),
        (
            "- requirement: a\n  options: []",
            "f.yaml:2: [0].options: found 0 with a value, expected none or at least two",
        ),
        ("- name: s\n  criteria: 5", "f.yaml:2: [0].criteria: found 5, expected a list"),
        ("- name: s\n  criteria: []", "f.yaml:2: [0].criteria: found an empty list, expected at least one criterion"),
        (
            "- &s\n  name: s\n  criteria: [{requirement: a}]\n- *s",
            "f.yaml:2: [1].name: found 's' again, expected each section once",
        ),
        ("- [[\n", "f.yaml:2: expected YAML: while parsing a flow node, did not find expected node content"),
        (
            "- requirement: a\n  weight: -1",
            f"f.yaml: in the rubric made of it: criteria: found a weight sum of 0, {WEIGHTED}",
        ),
    ],
)
def test_a_list_that_does_not_fit_is_refused_at_its_line(text: str, message: str):
    assert faults_of(text) == [message]


def test_every_fault_is_told_at_once():
    text = "- requirement: 5\n  options:\n    - {label: a, value: 2}\n    - {label: b}\n- {requirement: c, weight: x}\n"
    assert faults_of(text) == [
        "f.yaml:1: [0].requirement: found 5, expected text (quotes make it so)",
        "f.yaml:3: [0].options[0].value: found 2, expected a number from 0 to 1",
        "f.yaml:4: [0].options[1].value: found nothing, expected a number from 0 to 1",
        "f.yaml:5: [1].weight: found 'x', expected a number",
    ]


def test_what_a_list_can_not_say_is_named():
    lost = write_autorubric(read_rubric("general_answer")).lost
    assert {"name", "description", "owner", "pass_threshold", "criteria.threshold (5)"} <= set(lost)
    assert {"criteria.levels.indicators (12)", "criteria.method check"} <= set(lost)


def test_two_options_with_one_label_come_back_as_they_were():
    options = "[{label: Yes., value: 0}, {label: Yes., value: 1}]"
    imported = read_autorubric(f"- {{requirement: Is polite., options: {options}}}", "f.yaml")
    exported = write_autorubric(rubric_of(imported))
    assert (exported.lost, read_autorubric(exported.text, "f.yaml")) == ((), imported)


def test_two_levels_of_one_description_are_told_apart_and_their_new_ids_are_named():
    levels = [{"id": name, "score": score, "description": "Polite."} for name, score in (("a", 0), ("b", 1))]
    criterion = {"id": "c", "description": "Polite?", "levels": levels, "method": {"type": "judge"}}
    exported = write_autorubric(Rubric.model_validate({"id": "f", "version": "1.0.0", "criteria": [criterion]}))
    assert [option["label"] for option in yaml.safe_load(exported.text)[0]["options"]] == ["a: Polite.", "b: Polite."]
    assert exported.lost == ("criteria.levels.id (made anew of the option's label) (2)",)


def test_a_tree_is_written_flat_with_the_weights_that_it_comes_to():
    rubric = read_rubric("general_answer")
    categories = [{"id": "substance", "weight": 3}, {"id": "form", "weight": 1}]
    tree = Rubric.model_validate(rubric.model_dump(by_alias=True) | {"categories": categories})
    again = rubric_of(read_autorubric(write_autorubric(tree).text, "f.yaml"))
    assert list(effective_weights(again).values()) == pytest.approx(list(effective_weights(tree).values()))


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(rubrics())
def test_any_rubric_is_written_as_yaml_with_all_of_its_criteria(rubric: Rubric):
    written = yaml.safe_load(write_autorubric(rubric).text)
    listed = written["rubric"] if isinstance(written, dict) else written
    entries = [criterion for entry in listed for criterion in entry.get("criteria", [entry])]
    assert sorted(entry["requirement"] for entry in entries) == sorted(c.description for c in rubric.criteria)


@pytest.mark.parametrize("line_break", ["\x85", "\u2028", "\u2029"])
def test_a_strange_line_break_stays_in_a_text(line_break: str):
    text = json.dumps([{"weight": 1, "requirement": f"Is{line_break}polite."}])
    exported = write_autorubric(rubric_of(read_autorubric(text, "f.json")))
    assert yaml.safe_load(exported.text)[0]["requirement"] == f"Is{line_break}polite."


OPTIONS = [
    {"label": "1 - Dissatisfied", "value": 0},
    {"label": "2 - Satisfied", "value": 1},
    {"label": "n/a", "na": True},
]
DATA = {
    "prompt": "Explain rain.",
    "rubric": [
        {"name": "causes", "weight": 30, "requirement": "Names a cause."},
        {"name": "satisfaction", "requirement": "How satisfied?", "options": OPTIONS},
    ],
}


def data_set(*items: object) -> Imported:
    return read_autorubric(json.dumps({**DATA, "items": items}), "essays.json")


def test_a_data_set_is_a_rubric_outputs_and_ratings():
    labels = {"ground_truth": ["MET", "2 - Satisfied"], "ground_truth_reasons": ["Says why.", None]}
    imported = data_set(
        {"submission": "Clouds.", **labels},
        {"submission": {"a": 1}, "ground_truth": ["CANNOT_ASSESS", "n/a"], "prompt": "Explain snow."},
        {"submission": "Rain."},
    )
    assert [(row["case_id"], row["output"], row["prompt"]) for row in imported.cases] == [
        ("case_1", "Clouds.", "Explain rain."),
        ("case_2", '{"a": 1}', "Explain snow."),
        ("case_3", "Rain.", "Explain rain."),
    ]
    found = [(row["criterion_id"], row["level_id"], row.get("notes")) for row in imported.ratings]
    assert found == [("causes", "met", "Says why."), ("satisfaction", "level_2_satisfied", None)]
    assert imported.rubric and "metadata" not in imported.rubric


@pytest.mark.parametrize(
    ("item", "words"),
    [
        ({"submission": "x", "ground_truth": ["MET"]}, "items[0].ground_truth: found 1 label, expected 2"),
        (
            {"submission": "x", "ground_truth": ["YES", None]},
            "items[0].ground_truth[0]: found 'YES', expected one of UNMET, MET",
        ),
        ({"ground_truth": []}, "items[0]: found no 'submission'"),
    ],
)
def test_a_wrong_item_is_refused_with_its_place(item: object, words: str):
    with pytest.raises(RubricError) as caught:
        data_set(item)
    assert words in str(caught.value)


def test_rubrics_of_items_are_criteria_of_their_rows():
    own = {"rubric": [{"name": "cold", "weight": 2, "requirement": "Names the cold."}], "ground_truth": ["UNMET"]}
    items = [{"submission": "Flakes.", "reference_submission": "Frozen rain.", **own}, {"submission": "Clouds."}]
    imported = data_set(*items)
    assert imported.rubric is None
    assert [[criterion["id"] for criterion in row["criteria"]] for row in imported.cases] == [
        ["cold"],
        ["causes", "satisfaction"],
    ]
    assert [row.get("reference") for row in imported.cases] == ["Frozen rain.", None]
    assert [(row["criterion_id"], row["level_id"]) for row in imported.ratings] == [("cold", "not_met")]
    alone = read_autorubric(json.dumps({"prompt": "Why?", "rubric": None, "items": items[:1]}), "d.json")
    assert alone.cases[0]["criteria"] == imported.cases[0]["criteria"]
    without = "items without a criterion (neither they nor the data set have a rubric)"
    some = read_autorubric(json.dumps({"items": [*items, items[1]]}), "d.json")
    assert (imported.kept, alone.kept, some.kept) == (("na_options",), (), (f"{without} (2)",))
