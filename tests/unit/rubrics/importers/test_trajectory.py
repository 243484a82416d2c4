"""Potato's trajectories: the running score as a points rubric."""

from pathlib import Path

import pytest

from gradebook.rubrics.importers.potato import read_potato, write_potato
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.rubric import Rubric
from tests.support.law_over import law_over

EXAMPLE = (Path(__file__).parent / "examples" / "trajectory.yaml").read_text(encoding="utf-8")
SHIPPED = """\
annotation_schemes:
  - annotation_type: trajectory_eval
    name: stops
    correctness_options: [correct, incorrect, skipped]
    error_types:
      - name: order
        subtypes: [back_and_forth]
      - name: time
    severities:
      - {name: small, weight: -3}
      - {name: tiny, weight: -0.25}
    max_score: 50
"""
START = "max_score: 50"
LABELS = "[correct, incorrect, skipped]"


def rubric_of(text: str) -> Rubric:
    return Rubric.model_validate(read_potato(text, "runs.yaml").rubric)


def score_of(rubric: Rubric, errors: dict[str, int]) -> float:
    """sum(weight * score) / sum of positive weights; a criterion without an entry has no such error."""
    points = 0.0
    for criterion in rubric.criteria:
        weight = criterion.own_weight
        scores = {level.id: level.score for level in criterion.ranked_levels}
        level_id = "pass" if criterion.method.type == "check" else str(errors.get(criterion.id, 0))
        points += weight * scores[level_id] if weight else 0
    return points / sum(max(0.0, criterion.own_weight) for criterion in rubric.criteria)


def faults_of(text: str) -> list[str]:
    with pytest.raises(RubricError) as caught:
        read_potato(text, "runs.yaml")
    return [str(fault) for fault in caught.value.faults]


def test_one_minor_and_one_major_error_leave_94_of_100_points():
    rubric = rubric_of(EXAMPLE)
    errors = {"planning_missing_step_minor": 1, "tool_use_wrong_tool_major": 1}
    # (100 * 1 - 100 * 1/100 - 100 * 1/20) / 100 = (100 - 1 - 5) / 100
    assert score_of(rubric, errors) == pytest.approx(0.94)


def test_errors_of_one_kind_are_counted():
    errors = {"planning_missing_step_minor": 3, "planning_missing_step_major": 2, "planning_missing_step_critical": 1}
    # 100 - 3 * 1 - 2 * 5 - 10 = 77
    assert score_of(rubric_of(EXAMPLE), errors) == pytest.approx(0.77)


def test_a_trajectory_without_errors_keeps_its_start():
    assert score_of(rubric_of(EXAMPLE), {}) == 1


def test_a_count_ends_where_the_start_is_used_up():
    rubric = rubric_of(EXAMPLE)
    # 100 / 10 = 10 critical errors: 100 - 10 * 10 = 0
    assert rubric.criterion("tool_use_wrong_tool_critical").ranked_levels[-1].id == "10"
    assert score_of(rubric, {"tool_use_wrong_tool_critical": 10}) == pytest.approx(0)


def test_a_severity_that_does_not_divide_the_start_takes_its_points_all_the_same():
    rubric = rubric_of(SHIPPED)
    # ceil(50 / 3) = 17 counts under the weight 17 * -3 = -51: 4 errors take 51 * 4 / 17 = 12 of 50
    assert rubric.criterion("time_small").weight == -51
    assert score_of(rubric, {"time_small": 4}) == pytest.approx(38 / 50)


def test_counts_beyond_a_scale_are_named_as_lost():
    imported = read_potato(SHIPPED, "runs.yaml")
    # 50 / 0.25 = 200 errors, and a scale has 101 points
    assert "severity tiny: more than 100 errors of one kind, rated as that many" in imported.kept


def test_each_kind_of_error_and_severity_is_a_penalty_that_people_rate():
    penalties = [criterion for criterion in rubric_of(EXAMPLE).criteria if (criterion.weight or 0) < 0]
    assert len(penalties) == 4 * 3
    assert {criterion.method.type for criterion in penalties} == {"ratings"}


def test_a_category_without_types_is_a_kind_of_error():
    assert rubric_of(SHIPPED).criterion("time_small").metadata["potato"]["category"] == "time"


def test_the_running_score_needs_no_rating():
    start = rubric_of(EXAMPLE).criterion("running_score")
    assert (start.weight, start.method.type) == (100, "check")


def test_the_labels_of_steps_are_levels_that_move_no_score():
    steps = rubric_of(EXAMPLE).criterion("step_correctness")
    assert steps.weight == 0
    assert [(level.id, level.score) for level in steps.levels] == [
        ("incorrect", 0),
        ("partially_correct", 0.5),
        ("correct", 1),
    ]


def test_a_label_that_says_no_score_is_named():
    imported = read_potato(SHIPPED, "runs.yaml")
    assert "step label skipped: no score in the format, taken for 0.5" in imported.kept


@pytest.mark.parametrize("label", ["Not wrong", "never correct", "error-prone", "good", "right on time"])
def test_a_label_of_which_only_a_word_is_known_is_named_too(label: str):
    imported = read_potato(SHIPPED.replace("skipped", label), "runs.yaml")
    assert f"step label {label}: no score in the format, taken for 0.5" in imported.kept


@pytest.mark.parametrize(
    ("label", "score"), [("No error", 1), ("error-free", 1), ("Not correct", 0), ("Partly_correct", 0.5), ("PASS", 1)]
)
def test_a_label_is_known_whole_in_any_case_and_with_any_blank(label: str, score: float):
    imported = read_potato(SHIPPED.replace("skipped", label), "runs.yaml")
    steps = Rubric.model_validate(imported.rubric).criterion("step_correctness")
    assert [level.score for level in steps.levels if level.label == label] == [score]
    assert not [words for words in imported.kept if words.startswith("step label")]


def test_a_scheme_that_names_no_severities_has_potato_s():
    text = SHIPPED[: SHIPPED.index("    severities")]
    weights = [rubric_of(text).criterion(f"time_{name}").weight for name in ("minor", "major", "critical")]
    assert weights == [-100, -100, -100]


def test_the_shipped_spelling_comes_back_as_it_was_written():
    imported = read_potato(SHIPPED, "runs.yaml")
    exported = write_potato(Rubric.model_validate(imported.rubric))
    assert "error_types:" in exported.text and "error_taxonomy" not in exported.text
    assert read_potato(exported.text, "runs.yaml") == imported


def test_what_an_error_type_says_more_comes_back():
    text = write_potato(rubric_of(EXAMPLE)).text
    assert "description: A step without which the goal can't be reached is left out." in text
    assert "color: yellow" in text


def test_an_export_takes_the_weights_that_the_rubric_has_now():
    rubric = rubric_of(SHIPPED)
    halved = [
        criterion.model_copy(update={"weight": -25.5}) if criterion.id.endswith("small") else criterion
        for criterion in rubric.criteria
    ]
    # -25.5 over 17 counts is -1.5 an error
    assert "name: small\n    weight: -1.5\n" in write_potato(rubric.model_copy(update={"criteria": (*halved,)})).text


@law_over(
    ("found", "wanted", "line", "expected"),
    [
        ("weight: -3", "weight: 3", 10, ".severities[0].weight: found 3, expected a number of at most 0"),
        ("weight: -3", "weight: much", 10, ".severities[0].weight: found 'much', expected a number"),
        (START, "max_score: 0", 12, ".max_score: found 0, expected a number above 0"),
        (START, "max_score: [50]", 12, ".max_score: found a list, expected a number"),
        (START, "running_score: {initial: 50}", 12, ".running_score: found it next to error_types, expected max_score"),
        ("[back_and_forth]", "[1]", 7, ".error_types[0].subtypes[0]: found 1, expected a mapping of keys to values"),
        ("[back_and_forth]", "[a, a]", 7, ".error_types[0].subtypes[1].name: found 'a' again, expected each name once"),
        ("- name: time", "- name: order", 8, ".error_types[1].name: found 'order' again, expected each name once"),
        ("name: tiny", "name: small", 11, ".severities[1].name: found 'small' again, expected each name once"),
        (LABELS, "[correct]", 4, ".correctness_options: found a list, expected at least 2 entries"),
        (LABELS, "right", 4, ".correctness_options: found 'right', expected a list"),
        ("name: stops", "title: stops", 2, ": found no 'name', expected one"),
    ],
)  # fmt: skip
def test_a_wrong_value_of_a_trajectory_is_told_at_its_line(found: str, wanted: str, line: int, expected: str):
    assert f"runs.yaml:{line}: annotation_schemes[0]{expected}" in faults_of(SHIPPED.replace(found, wanted))


def test_a_trajectory_without_kinds_of_error_is_a_fault():
    text = SHIPPED[: SHIPPED.index("    error_types")]
    assert faults_of(text) == ["runs.yaml:2: annotation_schemes[0]: found no 'error_taxonomy', expected one"]


def test_more_counts_than_a_person_could_give_are_a_fault():
    many = ", ".join(f"kind_{number}" for number in range(600))
    # 600 kinds and "time", by two severities
    expected = "runs.yaml:5: annotation_schemes[0].error_types: found 1202 kinds with a severity, expected at most 1000"
    assert faults_of(SHIPPED.replace("back_and_forth", many)) == [expected]
