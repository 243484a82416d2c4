"""How large a step each change needs, and what is said of a version that is too small."""

from typing import Any

import pytest

from gradebook.rubrics.files.versions import Step, StepFault, next_version, required_step, step_between, step_fault
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.rubric import Rubric
from tests.support.law_over import law_over

LEVELS = [{"id": "1", "score": 0}, {"id": "2", "score": 0.5}, {"id": "3", "score": 1}]
TONE = {
    "id": "tone",
    "description": "Kind?",
    "weight": 0.6,
    "threshold": 0.5,
    "method": {"type": "judge"},
    "levels": LEVELS,
}
SIZE = {"type": "check", "check": "length_words", "settings": {"max": 200}}
LENGTH = {"id": "length", "description": "Short?", "weight": 0.4, "method": SIZE}
SAFE = {"id": "safe", "description": "Safe?", "gate": True, "method": {"type": "schema", "schema": {"type": "object"}}}
TREE = [{"id": "voice", "weight": 3}, {"id": "form", "weight": 1}]


def rubric(*criteria: dict[str, Any], **changes: Any) -> Rubric:
    return Rubric.model_validate(
        {"id": "reply", "version": "1.0.0", "criteria": criteria or (TONE, LENGTH, SAFE)} | changes
    )


def tone(**changes: Any) -> Rubric:
    return rubric(TONE | changes, LENGTH, SAFE)


def length(**changes: Any) -> Rubric:
    return rubric(TONE, LENGTH | {"method": SIZE | changes}, SAFE)


def tree(*categories: dict[str, Any], home: str = "voice") -> Rubric:
    return rubric(TONE | {"category": home}, LENGTH | {"category": "form"}, SAFE, categories=categories or TREE)


def levels(**changes: Any) -> list[dict[str, Any]]:
    return [LEVELS[0], LEVELS[1] | changes, LEVELS[2]]


def step(new: Rubric, old: Rubric | None = None) -> Step:
    return required_step(old or rubric(), new).step


@law_over(
    "new",
    [
        tone(description="Warm?"),
        tone(
            method={"type": "judge", "guidance": "A thank you counts.", "examples": [{"output": "Hi.", "level": "2"}]}
        ),
        tone(name="Tone", rationale="It is what people read first.", metadata={"a": 1}),
        tone(levels=levels(description="So so.", label="Fair", indicators=["curt"])),
        rubric(TONE, SAFE, LENGTH),
        rubric(name="Reply", owner="support", notes={"label": "Notes"}, target_type="reply", weight_sum=1),
    ],
)
def test_wording_is_a_patch(new: Rubric):
    assert step(new) == "patch"


def test_a_threshold_moved_by_5_hundredths_is_a_patch():
    assert step(tone(threshold=0.55)) == "patch"
    assert step(rubric(pass_threshold=0.75), rubric(pass_threshold=0.7)) == "patch"


@pytest.mark.parametrize("threshold", [0.56, 0.44, None])
def test_a_threshold_moved_further_or_taken_away_is_minor(threshold: float | None):
    assert step(tone(threshold=threshold)) == "minor"


def test_a_pass_threshold_that_is_new_is_minor():
    assert step(rubric(pass_threshold=0.01)) == "minor"


def test_a_criterion_more_or_less_is_minor():
    assert step(rubric(TONE, LENGTH)) == "minor"
    assert step(rubric(), rubric(TONE, LENGTH)) == "minor"


def test_a_criterion_more_moves_no_share_of_the_others():
    # 0.6 : 0.4 before and after, though tone falls from 60% to 30% of the whole
    more = rubric(TONE, LENGTH, SAFE, LENGTH | {"id": "form", "weight": 1})
    assert required_step(rubric(), more).reasons == (("minor", "criteria[form]: added"),)


def test_a_criterion_more_in_a_group_moves_no_share_of_the_others():
    # tone falls from 75% to 28% of the whole, and is alone in its group again once `warmth` is left out
    warmth = TONE | {"id": "warmth", "category": "voice", "weight": 1}
    voice, form = TONE | {"category": "voice"}, LENGTH | {"category": "form"}
    found = required_step(tree(), rubric(voice, form, SAFE, warmth, categories=TREE))
    assert found.reasons == (("minor", "criteria[warmth]: added"),)


def test_a_group_that_only_a_new_criterion_holds_up_is_left_out_of_the_comparison():
    # without `warmth`, the group of the penalty has no positive weight, and so no shares
    penalty, warmth = TONE | {"weight": -1, "threshold": None}, TONE | {"id": "warmth"}
    old = rubric(penalty | {"category": "voice"}, warmth | {"category": "voice"}, LENGTH, categories=TREE[:1])
    new = rubric(
        penalty | {"category": "voice"}, TONE | {"id": "calm", "category": "voice"}, LENGTH, categories=TREE[:1]
    )
    assert [sentence for _, sentence in required_step(old, new).reasons][:2] == [
        "criteria[warmth]: removed",
        "criteria[calm]: added",
    ]


def test_a_share_that_moves_by_more_than_5_thousandths_is_minor():
    # 0.6 / 1.0 = 60.0% before, 0.62 / 1.02 = 60.8% after
    moved = required_step(rubric(), tone(weight=0.62))
    assert moved.reasons == (
        ("minor", "criteria[tone].weight: 0.6 -> 0.62"),
        ("minor", "criteria[length]: share of the whole 40.0% -> 39.2%"),
    )


def test_weights_that_keep_their_ratio_are_a_patch():
    # 6 : 4 = 0.6 : 0.4
    assert step(rubric(TONE | {"weight": 6}, LENGTH | {"weight": 4}, SAFE)) == "patch"


def test_a_share_that_moves_by_less_is_a_patch():
    # 0.61 / 1.01 = 60.4% after 60.0%
    assert step(tone(weight=0.61)) == "patch"


def test_a_weight_of_a_category_moves_the_shares_of_its_criteria():
    # voice 3 of 4 = 75%, then 1 of 2 = 50%
    found = required_step(tree(), tree(TREE[0] | {"weight": 1}, TREE[1]))
    assert found.step == "minor"
    assert ("minor", "criteria[tone]: share of the whole 75.0% -> 50.0%") in found.reasons


@pytest.mark.parametrize(
    "new",
    [
        length(settings={"max": 100}),
        tone(method={"type": "judge", "max_tokens": 9}),
        tone(method={"type": "judge", "can_abstain": True}),
    ],
)
def test_other_settings_of_a_method_are_minor(new: Rubric):
    assert step(new) == "minor"


def test_another_schema_is_minor():
    other = SAFE | {"method": {"type": "schema", "schema": {"type": "array"}}}
    assert step(rubric(TONE, LENGTH, other)) == "minor"


@law_over(
    "new",
    [
        tone(method={"type": "ratings"}),
        length(check="length_characters"),
        tone(levels=LEVELS[:2]),
        tone(levels=levels(id="middle")),
        tone(levels=levels(score=0.4)),
        tone(gate=True, weight=None),
        tone(weight=-0.6, threshold=None),
        rubric(missing="skip"),
        rubric(require_thresholds=True),
        rubric(id="answer"),
    ],
)
def test_another_way_of_scoring_is_major(new: Rubric):
    assert step(new) == "major"


@pytest.mark.parametrize("kind", ["claims", "similarity"])
def test_what_a_method_compares_against_is_major(kind: str):
    old, new = (rubric(LENGTH | {"method": {"type": kind, "against": column}}) for column in ("context", "reference"))
    assert step(new, old) == "major"


def test_levels_of_equal_score_in_another_order_are_major():
    old, new = ([LEVELS[0], LEVELS[2], LEVELS[2] | {"id": "4"}], [LEVELS[0], LEVELS[2] | {"id": "4"}, LEVELS[2]])
    assert step(tone(levels=new), tone(levels=old)) == "major"


def test_levels_written_best_first_score_the_same():
    assert step(tone(levels=LEVELS[::-1])) == "patch"


def test_a_scale_in_the_place_of_equal_levels_is_a_patch():
    # points 1, 2, 3 score 0, 0.5, 1
    assert step(tone(levels=[], scale={"min": 1, "max": 3})) == "patch"


def test_a_longer_scale_is_major_and_told_once():
    old, new = (tone(levels=[], scale={"min": 1, "max": most}) for most in (2, 3))
    found = required_step(old, new)
    assert found.reasons == (("major", "criteria[tone].levels: 1 0, 2 1 -> 1 0, 2 0.5, 3 1"),)


def test_another_method_is_told_once():
    assert required_step(rubric(), tone(method={"type": "ratings"})).reasons == (
        ("major", "criteria[tone].method: judge -> ratings"),
    )


def test_a_category_within_another_parent_is_major():
    assert step(tree(TREE[0], TREE[1] | {"parent": "voice"}), tree()) == "major"


def test_a_criterion_in_another_group_is_major():
    both = [LENGTH | {"id": f"in_{group}", "category": group} for group in ("voice", "form")]
    old, new = (rubric(TONE | {"category": group}, *both, categories=TREE) for group in ("voice", "form"))
    assert step(new, old) == "major"


def test_another_label_without_a_tree_is_minor():
    assert step(tone(category="voice")) == "minor"


def test_groups_where_there_were_labels_are_major_and_told_once():
    labels = rubric(TONE | {"category": "voice"}, LENGTH | {"category": "form"}, SAFE)
    majors = [sentence for size, sentence in required_step(labels, tree()).reasons if size == "major"]
    assert majors == ["categories: none -> voice, form: the scores of groups make up the whole"]


def test_the_words_of_a_category_are_a_patch():
    assert step(tree(TREE[0] | {"name": "Voice", "rationale": "First impression."}, TREE[1]), tree()) == "patch"


def test_the_overall_row_is_minor_and_its_text_a_patch():
    old = rubric(overall={"label": "All in all", "scale": {"min": 1, "max": 5}})
    assert step(old) == "minor"
    assert step(rubric(overall={"label": "All in all", "scale": {"min": 1, "max": 7}}), old) == "minor"
    assert step(rubric(overall={"label": "Altogether", "scale": {"min": 1, "max": 5}}), old) == "patch"


def test_a_rubric_that_only_bears_another_version_needs_no_step():
    assert required_step(rubric(), rubric(version="2.0.0")).reasons == ()


def test_the_reasons_are_sorted_by_size():
    found = required_step(rubric(), rubric(TONE | {"description": "Warm?"}, LENGTH, missing="zero"))
    assert [size for size, _ in found.reasons] == ["major", "minor", "patch"]


@law_over(
    ("old", "new", "taken"),
    [
        ("1.2.3", "1.2.3", "none"),
        ("1.2.3", "1.2.10", "patch"),
        ("1.2.3", "1.10.0", "minor"),
        ("9.2.3", "10.0.0", "major"),
        ("1.2.3", "1.1.9", "back"),
        ("2.0.0", "1.9.9", "back"),
    ],
)
def test_a_step_is_named_by_the_first_number_that_rose(old: str, new: str, taken: str):
    assert step_between(old, new) == taken


@pytest.mark.parametrize(
    ("size", "version"), [("none", "1.2.3"), ("patch", "1.2.4"), ("minor", "1.3.0"), ("major", "2.0.0")]
)
def test_a_next_version_has_zeros_after_the_number_that_rose(size: Step, version: str):
    assert next_version("1.2.3", size) == version


@pytest.mark.parametrize("version", ["1.0", "1.0.x", "1.0.0.0", "1.0." + "9" * 5000, "1.0.²"])
def test_what_is_no_version_is_refused_in_words(version: str):
    with pytest.raises(RubricError, match="expected three numbers such as 1.0.0"):
        next_version(version, "patch")


def test_a_version_that_is_too_small_is_told_with_the_reason():
    fault = step_fault(rubric(), rubric(TONE, LENGTH, version="1.0.1"))
    message = "found 1.0.1 after 1.0.0, expected a minor step, 1.1.0 (criteria[safe]: removed)"
    assert fault == StepFault(message, "1.1.0")


@pytest.mark.parametrize("version", ["1.1.0", "1.2.0", "2.0.0"])
def test_a_version_that_is_large_enough_has_no_fault(version: str):
    assert step_fault(rubric(), rubric(TONE, LENGTH, version=version)) is None


def test_a_change_under_the_same_version_is_a_fault():
    fault = step_fault(rubric(), tone(description="Warm?"))
    why = "criteria[tone].description: Kind? -> Warm?"
    assert fault == StepFault(f"found 1.0.0 after 1.0.0, expected a patch step, 1.0.1 ({why})", "1.0.1")


def test_a_version_that_goes_back_is_a_fault():
    fault = step_fault(rubric(), rubric(version="0.9.0"))
    assert fault == StepFault("found 0.9.0 after 1.0.0, expected 1.0.0 or later", "1.0.0")


def test_a_version_that_goes_back_with_a_change_is_told_the_step_after_the_old_one():
    fault = step_fault(rubric(), tone(description="Warm?").model_copy(update={"version": "0.9.0"}))
    assert fault is not None and fault.expected == "1.0.1"


def test_a_fault_names_three_reasons_and_counts_the_others():
    more = [LENGTH | {"id": f"more_{number}"} for number in range(5)]
    fault = step_fault(rubric(), rubric(TONE, LENGTH, SAFE, *more))
    assert fault is not None and fault.message.endswith("criteria[more_2]: added; and 2 more)")
