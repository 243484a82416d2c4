"""Potato's configurations: what is read of them, written back and refused."""

import re
from pathlib import Path

import pytest
import yaml

from gradebook.rubrics.files.load import parse_rubric, read_rubric, shipped_rubrics
from gradebook.rubrics.importers.potato import read_potato, write_potato
from gradebook.rubrics.importers.registry import Imported
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.json_values import Row
from gradebook.rubrics.model.rubric import Rubric
from tests.support.law_over import law_over

EXAMPLES = Path(__file__).parent / "examples"
BARE = "(a bare yes, no, on or off is read so)"
TEXTS = ".criteria[0].scale_descriptions"
TYPES = "rubric_eval, trajectory_eval, likert, slider, radio"
RADIO = "of radio with whole numbers in sequence as labels"
SCALE = "scale: {min: 1, max: 5}"
POINTS = "{1: of the box, 5: of the leaf}"

SMALL = """\
annotation_schemes:
  - annotation_type: rubric_eval
    name: tea
    scale: {min: 1, max: 5}
    criteria:
      - name: aroma
        weight: 2
        scale_descriptions: {1: of the box, 5: of the leaf}
"""


def read_example(name: str) -> Imported:
    return read_potato((EXAMPLES / name).read_text(encoding="utf-8"), name)


def rubric_of(imported: Imported) -> Rubric:
    return Rubric.model_validate(imported.rubric)


def faults_of(text: str) -> list[str]:
    with pytest.raises(RubricError) as caught:
        read_potato(text, "form.yaml")
    return [str(fault) for fault in caught.value.faults]


def test_a_scheme_becomes_a_rubric_of_its_name():
    rubric = rubric_of(read_example("potato.yaml"))
    assert (rubric.id, rubric.name, rubric.version) == ("answer_quality", "answer_quality", "1.0.0")
    assert rubric.description == "Rate the help desk's answer on each row."


def test_the_criteria_are_rated_by_people_under_their_weights():
    rubric = rubric_of(read_example("potato.yaml"))
    found = [(criterion.id, criterion.name, criterion.weight, criterion.method.type) for criterion in rubric.criteria]
    assert found == [
        ("solves_it", "Solves the problem", 3, "ratings"),
        ("evidence", "Names its source", 2, "ratings"),
        ("brevity", None, 1.5, "ratings"),
    ]


def test_a_point_has_the_criterion_s_description_and_the_scheme_s_label():
    levels = rubric_of(read_example("potato.yaml")).criterion("evidence").ranked_levels
    # (point - 1) / (5 - 1)
    assert [level.score for level in levels] == [0, 0.25, 0.5, 0.75, 1]
    assert (levels[4].id, levels[4].label, levels[4].description) == (
        "5",
        "flawless",
        "The manual and the page are named.",
    )


def test_the_overall_row_and_the_notes_have_their_place():
    rubric = rubric_of(read_example("potato.yaml"))
    assert rubric.overall is not None and rubric.overall.label == "All in all"
    assert rubric.overall.ranked_levels[4].description == "I would send it as it is."
    assert rubric.notes is not None and rubric.notes.placeholder == "What would you change first?"


def test_what_has_no_place_is_kept_and_named():
    imported = read_example("potato.yaml")
    assert imported.kept == (
        "criteria.name",
        "criteria.tooltip",
        "annotation_task_name",
        "data_files",
        "item_properties (evaluate the items with --map case_id=id --map output=answer)",
        "annotation_schemes of the type radio",
    )
    kept = rubric_of(imported).metadata["potato"]
    assert kept["config"]["data_files"] == ["answers.json"]
    assert kept["other_schemes"][0]["labels"] == ["English", "Dutch"]


QUESTIONS = """
annotation_task_name: Replies
annotation_schemes:
  - {annotation_type: likert, name: tone, description: Is it kind?, size: 5, min_label: rude, max_label: kind, key: q}
  - {annotation_type: slider, name: sure-fit, min_value: 0, max_value: 10}
"""


def test_a_likert_scale_and_a_slider_are_criteria():
    imported = read_potato(QUESTIONS, "form.yaml")
    rubric = rubric_of(imported)
    tone, fit = rubric.criteria
    assert (rubric.id, rubric.categories, imported.kept) == ("replies", (), ("criteria.key", "criteria.name"))
    assert (tone.id, tone.method.type, tone.description) == ("tone", "ratings", "Is it kind?")
    assert [(level.id, level.label) for level in tone.ranked_levels[:: len(tone.ranked_levels) - 1]] == [
        ("1", "rude"),
        ("5", "kind"),
    ]
    assert (fit.id, [level.id for level in fit.ranked_levels]) == ("sure_fit", [str(point) for point in range(11)])


def test_a_radio_of_numbers_is_a_criterion_and_another_is_stored():
    radio = "\n  - {annotation_type: radio, name: %s, labels: %s}"
    radios = radio % ("depth", "['3', {name: '2'}, 1]") + radio % ("topic", "[tea, pans]") + radio % ("gaps", "[1, 3]")
    imported = read_potato(QUESTIONS.rstrip() + radios, "form.yaml")
    depth = rubric_of(imported).criterion("depth")
    assert [(level.id, level.score) for level in depth.ranked_levels] == [("1", 0), ("2", 0.5), ("3", 1)]
    assert "annotation_schemes of the type radio (2)" in imported.kept
    assert [scheme["name"] for scheme in imported.rubric["metadata"]["potato"]["other_schemes"]] == ["topic", "gaps"]


def test_likert_scales_beside_a_scheme_have_a_category():
    beside = read_potato(SMALL + QUESTIONS.split("annotation_schemes:\n")[1], "form.yaml")
    assert [(each.id, each.category) for each in rubric_of(beside).criteria[-2:]] == [
        ("tone", "questions"),
        ("sure_fit", "questions"),
    ]


def test_a_slider_of_too_many_points_is_refused():
    message = "form.yaml:5: annotation_schemes[1].scale: found 0 to 1000, expected 2 to 101 points from min to max"
    with pytest.raises(RubricError, match=re.escape(message)):
        read_potato(QUESTIONS.replace("max_value: 10", "max_value: 1000"), "form.yaml")


def test_a_criterion_without_a_description_is_described_by_its_name():
    assert rubric_of(read_potato(SMALL, "form.yaml")).criterion("aroma").description == "aroma"


def test_scale_points_and_labels_are_a_scale_from_1():
    imported = read_potato(SMALL.replace(SCALE, "scale_points: 5\n    scale_labels: [a, b, c, d, e]"), "f")
    levels = rubric_of(imported).criterion("aroma").ranked_levels
    assert [(level.id, level.label) for level in levels] == [("1", "a"), ("2", "b"), ("3", "c"), ("4", "d"), ("5", "e")]


def test_a_scheme_that_names_no_scale_has_five_points():
    assert (
        len(rubric_of(read_potato(SMALL.replace("    scale: {min: 1, max: 5}\n", ""), "f")).criteria[0].ranked_levels)
        == 5
    )


def test_show_overall_is_an_overall_row_on_the_same_scale():
    rubric = rubric_of(read_potato(SMALL + "    show_overall: true\n", "f"))
    assert rubric.overall is not None and len(rubric.overall.ranked_levels) == 5


def test_an_overall_row_that_is_switched_off_is_kept_and_not_asked():
    imported = read_potato(SMALL + "    overall: {enabled: false, label: All in all}\n", "f")
    assert rubric_of(imported).overall is None
    assert imported.kept == ("overall.enabled", "overall.label")


def test_several_schemes_are_the_categories_of_one_rubric():
    rubric = rubric_of(read_example("potato_points.yaml"))
    assert (rubric.id, rubric.name) == ("museum_guide", "Museum guide")
    assert [category.id for category in rubric.categories] == ["guide_text", "guide_voice", "route"]
    assert {category.weight for category in rubric.categories} == {1}


FORMS = """
annotation_schemes:
  - annotation_type: trajectory_eval
    name: errors
    error_types: [{name: tool, subtypes: [wrong_tool]}]
  - annotation_type: rubric_eval
    name: quality
    scale: {min: 1, max: 5}
    criteria: [{name: tone}]
    overall: {label: All in all}
    notes: {placeholder: "What is wrong?"}
  - annotation_type: rubric_eval
    name: verdict
    scale: {min: 0, max: 1, labels: {"0": fail, "1": pass}}
    criteria: [{name: tone}]
    overall: {label: Ship it, scale_descriptions: {"1": It may be sent as it is.}}
"""


def test_the_second_overall_row_is_a_criterion_without_weight_on_its_own_scale():
    imported = read_potato(FORMS, "forms.yaml")
    rubric = rubric_of(imported)
    assert rubric.overall is not None and rubric.overall.label == "All in all" and rubric.notes is not None
    ship = rubric.criterion("verdict_overall")
    assert (ship.name, ship.category, ship.weight) == ("Ship it", "verdict", 0)
    assert [(level.id, level.label) for level in ship.ranked_levels] == [("0", "fail"), ("1", "pass")]
    assert "overall" not in imported.kept


@pytest.mark.parametrize(
    ("row", "expected"),
    [
        (
            "overall: {label: Ship it, tooltip: Now}",
            {"overall": {"enabled": True, "label": "Ship it", "tooltip": "Now"}},
        ),
        ("show_overall: true", {"show_overall": True}),
        ("show_overall: false", {}),
    ],
)
def test_the_overall_rows_of_two_schemes_come_back(row: str, expected: Row):
    forms = (
        FORMS.partition("    scale: {min: 0")[0] + f"    scale_points: 2\n    criteria: [{{name: tone}}]\n    {row}\n"
    )
    rubric = rubric_of(read_potato(forms, "forms.yaml"))
    written = write_potato(rubric).text
    assert rubric_of(read_potato(written, "forms.yaml")) == rubric
    _, first, second = yaml.safe_load(written)["annotation_schemes"]
    assert first["overall"] == {"enabled": True, "label": "All in all"}
    assert {key: second[key] for key in ("overall", "show_overall") if key in second} == expected


def test_a_name_that_two_schemes_use_gives_two_ids_and_is_kept():
    rubric = rubric_of(read_example("potato_points.yaml"))
    again = rubric.criterion("looks_2")
    assert (again.category, again.metadata["potato"]["name"]) == ("guide_voice", "looks")


def test_several_schemes_without_a_task_name_are_named_after_the_file():
    text = (EXAMPLES / "potato_points.yaml").read_text(encoding="utf-8").partition("\n")[2]
    assert rubric_of(read_potato(text, "forms/Night tour.yaml")).id == "night_tour"


@pytest.mark.parametrize("name", ["potato.yaml", "potato_points.yaml", "trajectory.yaml"])
def test_an_imported_rubric_is_a_rubric_file(name: str):
    imported = read_example(name)
    assert parse_rubric(yaml.safe_dump(imported.rubric), "out.yaml") == rubric_of(imported)


def test_an_export_writes_the_descriptions_of_a_point_under_whole_numbers():
    assert "\n      5: of the leaf\n" in write_potato(rubric_of(read_potato(SMALL, "form.yaml"))).text


def test_an_export_names_what_a_form_of_people_can_t_say():
    lost = write_potato(read_rubric("general_answer")).lost
    assert {"pass_threshold", "criteria.method judge (4)", "criteria.threshold (5)"} <= {*lost}
    assert "one form for all criteria (a scheme has one scale)" in lost


def test_levels_are_exported_as_points_worst_first():
    text = write_potato(read_rubric("general_answer")).text
    clarity = rubric_of(read_potato(text, "f")).criterion("clarity")
    assert [level.description for level in clarity.ranked_levels] == [
        level.description for level in read_rubric("general_answer").criterion("clarity").ranked_levels
    ]


@law_over("name", shipped_rubrics())
def test_every_shipped_rubric_is_exported_as_a_form_that_reads(name: str):
    rubric = read_rubric(name)
    assert len(rubric_of(read_potato(write_potato(rubric).text, "f")).criteria) == len(rubric.criteria)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("a: b\n", "form.yaml:1: annotation_schemes: found nothing, expected a list of schemes"),
        (
            "annotation_schemes:\n  - annotation_type: radio\n",
            f"form.yaml:1: annotation_schemes: found radio, expected one of {TYPES}, {RADIO}",
        ),
        (
            "annotation_schemes:\n  - 7\n",
            "form.yaml:2: annotation_schemes[0].annotation_type: found 7, expected a scheme's type",
        ),
        (
            "annotation_schemes:\n  - annotation_type: [rubric_eval]\n",
            "form.yaml:2: annotation_schemes[0].annotation_type: found a list, expected a scheme's type",
        ),
    ],
)
def test_a_file_that_is_no_form_is_refused(text: str, expected: str):
    assert faults_of(text) == [expected]


@law_over(
    ("found", "wanted", "line", "expected"),
    [
        ("weight: 2", "weight: heavy", 7, ".criteria[0].weight: found 'heavy', expected a number"),
        ("weight: 2", "weight: yes", 7, f".criteria[0].weight: found true {BARE}, expected a number"),
        ("weight: 2", "weight: -1", 7, ".criteria[0].weight: found -1, expected a number of at least 0"),
        ("name: aroma", "label: aroma", 6, ".criteria[0]: found no 'name', expected one"),
        ("name: tea", "name: ''", 3, ".name: found '', expected at least 1 character"),
        ("max: 5", "max: five", 4, ".scale.max: found 'five', expected a whole number"),
        ("min: 1", "min: -1", 4, ".scale.min: found -1, expected a number of at least 0"),
        ("max: 5", "max: 1", 4, ".scale: found 1 to 1, expected 2 to 101 points from min to max"),
        ("max: 5}", "max: 5, labels: {7: most}}", 4, ".scale.labels.7: found the point '7', expected 1 to 5"),
        ("5: of the leaf", "9: of the leaf", 8, f"{TEXTS}.9: found the point '9', expected 1 to 5"),
        (POINTS, "[box]", 8, f"{TEXTS}: found a list, expected a mapping of keys to values"),
        (SCALE, "scale: 5", 4, ".scale: found 5, expected a mapping of keys to values"),
        (SCALE, "scale_points: 1", 4, ".scale_points: found 1, expected a number of at least 2"),
        (SCALE, "scale_labels: [a, b]", 4, ".scale_labels: found 2 labels, expected 5, one per point"),
    ],
)  # fmt: skip
def test_a_wrong_value_is_told_at_its_line(found: str, wanted: str, line: int, expected: str):
    assert f"form.yaml:{line}: annotation_schemes[0]{expected}" in faults_of(SMALL.replace(found, wanted))


def test_two_scales_are_a_fault():
    expected = "form.yaml:9: annotation_schemes[0].scale_points: found it next to scale, expected one of them"
    assert faults_of(SMALL + "    scale_points: 5\n") == [expected]


def test_a_criterion_s_name_stands_once_in_a_scheme():
    expected = "form.yaml:9: annotation_schemes[0].criteria[1].name: found 'aroma' again, expected each name once"
    assert faults_of(SMALL + "      - name: aroma\n") == [expected]


def test_a_scheme_s_name_stands_once_in_a_file():
    second = SMALL.partition("\n")[2]
    expected = "form.yaml:10: annotation_schemes[1].name: found 'tea' again, expected each name once"
    assert faults_of(SMALL + second) == [expected]


def test_criteria_that_are_no_list_are_a_fault():
    text = SMALL[: SMALL.index("      - name")].replace("criteria:", "criteria: []")
    assert faults_of(text) == [
        "form.yaml:5: annotation_schemes[0].criteria: found an empty list, expected at least 1 entry"
    ]


def test_weights_of_nothing_are_a_fault():
    assert len(faults_of(SMALL.replace("weight: 2", "weight: 0"))) == 1


def test_every_fault_of_a_file_is_told_at_once():
    text = SMALL.replace("weight: 2", "weight: []").replace("max: 5", "max: x") + "    notes: 3\n"
    assert [fault.split(":")[1] for fault in faults_of(text)] == ["4", "7", "9"]
