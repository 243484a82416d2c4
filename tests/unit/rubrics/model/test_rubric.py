"""What a rubric is and is not, on models built in Python; the words of a file's faults are test_library's."""

from typing import Any

import pytest
from pydantic import ValidationError

from gradebook.rubrics.model.levels import Scale
from gradebook.rubrics.model.rubric import CaseCriterion, Criterion, Level, Rubric
from tests.support.law_over import law_over

LEVELS = [{"id": "bad", "score": 0.0}, {"id": "good", "score": 1.0}]


def criterion(**changes: Any) -> dict[str, Any]:
    return {"id": "tone", "description": "Is it kind?", "method": {"type": "judge"}, "levels": LEVELS} | changes


def rubric(*criteria: dict[str, Any], **changes: Any) -> Rubric:
    return Rubric.model_validate({"id": "reply", "version": "1.0.0", "criteria": criteria or (criterion(),)} | changes)


def check(**changes: Any) -> Criterion:
    method = {"type": "check", "check": "length_words", "settings": {"min": 1}}
    return Criterion.model_validate(criterion(method=method, levels=()) | changes)


def test_a_criterion_without_a_weight_weighs_1():
    only = rubric()
    assert only.criteria[0].own_weight == 1.0


def test_a_gate_weighs_nothing():
    both = rubric(criterion(), criterion(id="safe", gate=True))
    assert both.criterion("safe").own_weight == 0.0


def test_a_gate_with_a_weight_is_refused():
    with pytest.raises(ValidationError, match="found 0.2 on a gate"):
        rubric(criterion(gate=True, weight=0.2))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"criteria": [criterion(gate=True, required=False)]}, "found false on a gate"),
        (
            {"criteria": [criterion(category="voice", required=False)], "categories": [{"id": "voice"}]},
            "found null with categories and `required: false` on tone, expected skip",
        ),
    ],
)
def test_an_optional_criterion_is_no_gate_and_needs_skip_in_a_tree(values, message):
    with pytest.raises(ValidationError, match=message):
        rubric(**values)


def test_a_per_case_criterion_is_required():
    with pytest.raises(ValidationError, match="found false on a per-case criterion"):
        CaseCriterion.model_validate(criterion(required=False))


def test_levels_are_sorted_worst_first():
    turned = Criterion.model_validate(criterion(levels=LEVELS[::-1]))
    assert [level.id for level in turned.ranked_levels] == ["bad", "good"]


def test_a_check_without_levels_fails_with_0_and_passes_with_1():
    assert check().ranked_levels == (Level(id="fail", score=0.0), Level(id="pass", score=1.0))


def test_a_gate_is_passed_at_its_best_level_where_it_has_no_threshold():
    assert check(gate=True).gate_threshold == 1.0


def test_a_gate_is_passed_at_its_threshold():
    assert check(gate=True, threshold=0.5).gate_threshold == 0.5


def test_a_level_may_be_numbered():
    assert Level.model_validate({"id": 3, "score": 0.5}).id == "3"


def test_a_level_named_no_is_refused_where_yaml_made_it_false():
    with pytest.raises(ValidationError, match="valid string"):
        Level.model_validate({"id": False, "score": 0.5})


@pytest.mark.parametrize("score", [-0.01, 1.01, float("nan"), float("inf")])
def test_a_score_outside_0_to_1_is_refused(score: float):
    with pytest.raises(ValidationError):
        Level(id="a", score=score)


@pytest.mark.parametrize("method", ["judge", "ratings"])
def test_a_method_that_chooses_a_level_needs_levels(method: str):
    with pytest.raises(ValidationError, match=f"expected at least two for the method {method}"):
        rubric(criterion(method={"type": method}, levels=[]))


def test_one_level_is_no_scale():
    with pytest.raises(ValidationError, match="found one level, bad"):
        rubric(criterion(levels=LEVELS[:1]))


def test_levels_of_the_same_id_are_refused():
    with pytest.raises(ValidationError, match="expected each id once"):
        rubric(criterion(levels=[LEVELS[0], LEVELS[0]]))


@law_over("point", [".5", "1.", "1.2.3", "-1", "1e3", "x", "", "\u0661", "9" * 16, "9" * 65, "9" * 400])
def test_a_point_of_a_scale_that_is_no_short_number_is_refused(point: str):
    with pytest.raises(ValidationError, match="expected a number, 0 or more, in at most 15 digits"):
        Scale(points={"0": "none", point: "all"})


@pytest.mark.parametrize("highest", [10**15 + 1, 10**70, 10**400])
def test_an_end_of_a_scale_that_is_no_short_number_is_refused(highest: int):
    with pytest.raises(ValidationError, match="min: found a number of more than 15 digits"):
        Scale(min=highest - 1, max=highest)


def test_the_longest_points_are_levels_of_their_own():
    scale = Scale(points=dict.fromkeys(["0.0000000000001", "0.0000000000002", "999999999999999"], ""))
    assert len({level.score for level in scale.levels}) == 3


def test_points_given_as_numbers_are_the_points_of_that_text():
    # 2.0 is 2, and a million stays written out
    scale = Scale.model_validate({"points": {0.5: "", 2.0: "", 1_000_000: ""}})
    assert [level.id for level in scale.levels] == ["0.5", "2", "1000000"]


def test_criteria_of_the_same_id_are_refused():
    with pytest.raises(ValidationError, match="tone more than once"):
        rubric(criterion(), criterion())


def test_weights_that_sum_to_0_are_refused():
    with pytest.raises(ValidationError, match="weight sum of 0"):
        rubric(criterion(weight=0))


def test_a_rubric_of_gates_alone_is_one():
    assert rubric(criterion(gate=True)).criteria[0].gate


@law_over("version", ["1", "1.0", "v1.0.0", "1.0.0-rc1", " 1.0.0", "1.0.0\n"])
def test_a_version_is_three_numbers(version: str):
    with pytest.raises(ValidationError):
        rubric(version=version)


def test_a_bare_null_after_missing_means_the_word():
    assert rubric(missing=None).missing == "null"


def test_a_rubric_can_not_be_changed():
    with pytest.raises(ValidationError, match="frozen"):
        rubric().pass_threshold = 0.5


def test_an_unknown_criterion_is_a_key_error():
    with pytest.raises(KeyError):
        rubric().criterion("speed")


@pytest.mark.parametrize(
    ("method", "needs"),
    [
        ({"type": "judge"}, ("judge",)),
        ({"type": "judge", "sees": "trajectory"}, ("judge", "steps")),
        ({"type": "judge", "unit": "step"}, ("judge", "steps")),
        ({"type": "ratings", "unit": "step"}, ("steps", "raters")),
    ],
)
def test_a_rubric_says_what_it_needs(method: dict[str, Any], needs: tuple[str, ...]):
    assert rubric(criterion(method=method)).needs == needs
