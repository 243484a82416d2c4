"""Trees of tasks: what groups and leaves become, what is written back, and which trees are refused."""

import json
import re
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings

from gradebook.rubrics.files.load import read_rubric
from gradebook.rubrics.importers.registry import Imported
from gradebook.rubrics.importers.tree import read_tree, write_tree
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.rubric import Rubric, effective_weights
from tests.support.bounded import bounded_work
from tests.support.law_over import law_over
from tests.support.rubric_strategies import rubrics

CHECK = {"type": "check", "check": "json_valid"}
EXAMPLE = Path(__file__).parent / "examples" / "tree.json"


def task(task_id: str, weight: Any = 1, *sub_tasks: Any, **keys: Any) -> dict[str, Any]:
    requirement = f"The task {task_id} is done."
    return {"id": task_id, "requirements": requirement, "weight": weight, "sub_tasks": list(sub_tasks), **keys}


def read(tree: Any) -> Imported:
    return read_tree(json.dumps(tree), "tree.json")


def rubric_of(tree: Any) -> Rubric:
    return Rubric.model_validate(read(tree).rubric)


def faults_of(text: str) -> list[str]:
    with pytest.raises(RubricError) as caught:
        read_tree(text, "tree.json")
    return [str(fault).removeprefix("tree.json:").strip() for fault in caught.value.faults]


def nested(depth: int) -> str:
    opened = '{"id": "a", "requirements": "r", "weight": 1, "sub_tasks": ['
    return opened * depth + json.dumps(task("leaf")) + "]}" * depth


def example() -> Imported:
    return read_tree(EXAMPLE.read_text(encoding="utf-8"), "tree.json")


def test_groups_become_categories_and_leaves_criteria():
    rubric = Rubric.model_validate(example().rubric)
    assert [(category.id, category.weight) for category in rubric.categories] == [
        ("the_three_sorting_networks_are_built", 2)
    ]
    assert [(criterion.id, criterion.category, criterion.weight) for criterion in rubric.criteria] == [
        ("the_bitonic_network_sorts_any_list_of_64_numbers", "the_three_sorting_networks_are_built", 3),
        ("odd_even_network", "the_three_sorting_networks_are_built", 1),
        ("the_lists_of_the_study_are_downloaded", None, 0),
        ("the_measured_times_agree_with_the_study_s_second", None, 2),
    ]


def test_a_leaf_weighs_its_share_of_each_group_around_it():
    weights = effective_weights(Rubric.model_validate(example().rubric))
    # the group has 2 of 2 + 0 + 2, its leaves 3 and 1 of 4: 1/2 * 3/4 and 1/2 * 1/4; the last leaf has the other half
    assert list(weights.values()) == [0.375, 0.125, 0, 0.5]


def test_a_leaf_is_met_or_not_and_a_judge_says_so():
    criterion = Rubric.model_validate(example().rubric).criteria[0]
    assert [(level.id, level.score) for level in criterion.ranked_levels] == [("not_met", 0), ("met", 1)]
    assert criterion.method.type == "judge"


def test_ids_and_kinds_of_work_are_kept_and_named():
    imported = example()
    assert imported.kept == ("id (6)", "task_category (4)", "finegrained_task_category (4)")
    assert imported.rubric["criteria"][2]["metadata"]["tree"] == {
        "id": "a4c3e2d1-6b5f-4e7a-9c8d-1f2e3d4c5b04",
        "task_category": "Code Execution",
        "finegrained_task_category": "Dataset and Model Acquisition",
    }


def test_the_example_comes_back_as_the_same_json():
    exported = write_tree(Rubric.model_validate(example().rubric))
    assert json.loads(exported.text) == json.loads(EXAMPLE.read_text(encoding="utf-8"))


def test_groups_and_leaves_keep_their_order():
    tree = task("root", 1, task("first"), task("group", 2, task("inner", 1, task("deep")), task("side")), task("last"))
    imported = read(tree)
    assert read_tree(write_tree(Rubric.model_validate(imported.rubric)).text, "x.json") == imported
    assert [criterion["id"] for criterion in imported.rubric["criteria"]] == ["first", "deep", "side", "last"]


def test_a_root_without_tasks_is_the_one_criterion():
    imported = read(task("only", 3))
    rubric = Rubric.model_validate(imported.rubric)
    assert [criterion.description for criterion in rubric.criteria] == ["The task only is done."]
    assert read_tree(write_tree(rubric).text, "x.json") == imported


def test_a_grade_is_kept_with_its_task():
    grade = {"score": 0.0, "valid_score": True, "explanation": "No script was found.", "judge_metadata": None}
    imported = read(task("root", 1, task("leaf", 1, **grade)))
    kept = imported.rubric["criteria"][0]["metadata"]["tree"]
    assert kept == {"id": "leaf", "score": 0.0, "valid_score": True, "explanation": "No script was found."}
    assert imported.kept == ("id (2)", "score", "valid_score", "explanation")


def test_valid_grades_of_leaves_are_ratings_of_one_output():
    grades = [{"score": 0.0, "explanation": "No script."}, {"score": 1.0, "valid_score": True}, {"score": 0.5}]
    leaves = [task(f"leaf_{place}", 1, **grade) for place, grade in enumerate(grades)]
    group = task("group", 1, *leaves, task("doubtful", 1, score=1.0, valid_score=False), score=0.5)
    place = {"case_id": "root", "model": "unknown", "rater": "tree"}
    assert read(task("root", 1, group, score=0.5)).ratings == (
        {**place, "criterion_id": "leaf_0", "level_id": "not_met", "notes": "No script."},
        {**place, "criterion_id": "leaf_1", "level_id": "met"},
    )


def test_the_same_requirement_twice_makes_two_ids():
    twice = [task(str(number), 1) | {"requirements": "The log is written."} for number in (1, 2)]
    assert [criterion.id for criterion in rubric_of(task("root", 1, *twice)).criteria] == [
        "the_log_is_written",
        "the_log_is_written_2",
    ]


@pytest.mark.parametrize("depth", [50, 300, 10_000])
def test_a_tree_without_measure_is_a_fault(depth: int):
    assert len(faults_of(nested(depth))) == 1


def test_a_tree_of_forty_groups_is_read():
    assert len(Rubric.model_validate(read_tree(nested(40), "x.json").rubric).categories) == 39


def test_three_thousand_leaves_are_a_rubric():
    groups = [task(f"g{g}", 1, *(task(f"{g * 10 + n}", n) for n in range(10))) for g in range(300)]
    text = json.dumps(task("root", 1, *groups))
    with bounded_work():
        assert len(Rubric.model_validate(read_tree(text, "x.json").rubric).criteria) == 3000


def test_more_than_ten_thousand_tasks_are_refused():
    wide = task("root", 1, *(task(f"t{number}") for number in range(10_001)))
    assert faults_of(json.dumps(wide)) == ["sub_tasks: found 10,001 tasks, expected at most 10,000"]


@law_over(
    ("text", "messages"),
    [
        ("{}", [f"found no '{key}', expected one" for key in ("id", "requirements", "weight")]),
        (json.dumps(task("a", -1)), ["weight: found -1, expected a number of at least 0"]),
        (json.dumps(task("a", "heavy")), ["weight: found 'heavy', expected a number"]),
        (json.dumps(task("a") | {"id": 7}), ["id: found 7, expected text (quotes make it so)"]),
        (json.dumps(task("a") | {"requirements": ""}), ["requirements: found '', expected at least 1 character"]),
        (json.dumps(task("a") | {"sub_tasks": {}}), ["sub_tasks: found an empty mapping, expected a list"]),
        (json.dumps(task("a", 1, 3)), ["sub_tasks[0]: found 3, expected a mapping of keys to values"]),
        (
            json.dumps(task("a", 1, task("b", 2, task("c", 0), task("d", 0)))),
            ["sub_tasks[0].sub_tasks: found the weight 0 on each of them, expected at least one above 0"],
        ),
        (
            json.dumps(task("a", 1, task("b"), task("c", 0, task("d")))),
            ["sub_tasks[1].weight: found 0 on a task with sub_tasks, expected a number above 0"],
        ),
    ],
)
def test_a_tree_that_does_not_fit_is_refused_at_its_place(text: str, messages: list[str]):
    assert faults_of(text) == messages


def test_faults_of_several_tasks_are_told_at_once():
    tree = task("a", 1, task("b", -1), task("c", 1, task("d", "x"), None))
    assert [fault.partition(":")[0] for fault in faults_of(json.dumps(tree))] == [
        "sub_tasks[0].weight",
        "sub_tasks[1].sub_tasks[0].weight",
        "sub_tasks[1].sub_tasks[1]",
    ]


def test_what_a_tree_can_not_say_is_named():
    lost = write_tree(read_rubric("general_answer")).lost
    assert {"name", "owner", "pass_threshold", "criteria.threshold (5)", "criteria.levels (4)"} <= set(lost)
    assert {"criteria.category (5)", "criteria.method check"} <= set(lost)


def test_what_a_tree_can_not_say_of_a_judge_is_named():
    values = rubric_of(task("root", 1, task("a"))).model_dump(by_alias=True)
    values["criteria"][0]["method"] = {"type": "judge", "guidance": "Thanks count.", "can_abstain": True}
    lost = write_tree(Rubric.model_validate(values)).lost
    assert {"criteria.method.guidance", "criteria.method.can_abstain"} <= set(lost)


def test_a_penalty_has_no_place_in_a_tree():
    rubric = rubric_of(task("root", 1, task("a"), task("b")))
    values = rubric.model_dump() | {"criteria": [rubric.criteria[0], rubric.criteria[1].model_dump() | {"weight": -1}]}
    exported = write_tree(Rubric.model_validate(values))
    assert [entry["id"] for entry in json.loads(exported.text)["sub_tasks"]] == ["a"]
    assert exported.lost == ("criteria.b (a penalty)",)


def test_an_id_that_two_tasks_have_is_the_first_one_s_and_named():
    tree = task("root", 1, task("same"), task("same") | {"requirements": "Another task."})
    exported = write_tree(rubric_of(tree))
    assert [entry["id"] for entry in json.loads(exported.text)["sub_tasks"]] == ["same", "same_2"]
    assert exported.lost == ("the id of a task that another task has (it gets another)",)


def test_a_criterion_with_the_id_of_its_group_gets_another():
    criterion = {"id": "form", "category": "form", "description": "Short?", "method": CHECK}
    values = {"id": "form", "version": "1.0.0", "categories": [{"id": "form"}], "criteria": [criterion]}
    exported = write_tree(Rubric.model_validate(values))
    # the criterion is named before the group that it opens, and after the root
    assert re.findall(r'"id": "(\w+)"', exported.text) == ["form", "form_3", "form_2"]
    assert "the id of a task that another task has (it gets another) (2)" in exported.lost


def test_a_group_whose_criteria_lie_apart_says_that_their_order_changes():
    rubric = rubric_of(task("root", 1, task("group", 1, task("a"), task("b")), task("c")))
    a, b, c = rubric.criteria
    exported = write_tree(Rubric.model_validate(rubric.model_dump() | {"criteria": [a, c, b]}))
    assert exported.lost == ("the order of criteria (those of a group stand together)",)


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(rubrics())
def test_any_rubric_with_a_weight_makes_a_tree_that_can_be_read(rubric: Rubric):
    text = write_tree(rubric).text
    wanted = sum(criterion.own_weight >= 0 for criterion in rubric.criteria)
    assert text.count('"sub_tasks": []') == wanted
    read_tree(text, "tree.json")
