"""Verdicts of many criteria, built together, are those of each alone."""

from typing import Any

import pyarrow as pa

from gradebook.rubrics.check_kit.check import CheckVerdicts
from gradebook.rubrics.checks.grading import CheckedCriterion, grade_checked, grade_outputs
from gradebook.rubrics.model.rubric import Criterion
from gradebook.rubrics.model.verdicts import VERDICT_SCHEMA

LEVELS = [{"id": "bad", "score": 0.2}, {"id": "pass", "score": 0.6}, {"id": "good", "score": 0.9}]


def checked(
    criterion_id: str, ids: list[str], is_passed: list[bool | None], levels: Any = (), **texts: Any
) -> CheckedCriterion:
    method = {"type": "check", "check": "length_words", "settings": {"max": 3}}
    body = {"id": criterion_id, "description": "Is it so?", "method": method, "levels": levels}
    arrays = {"evidence": [None] * len(ids)} | texts
    columns = {name: pa.array(values, pa.string()) for name, values in arrays.items()}
    found = CheckVerdicts(pa.array(is_passed, pa.bool_()), **columns)
    return CheckedCriterion(Criterion.model_validate(body), pa.array(ids, pa.string()), found)


CHECKED = [
    checked("plain", ["a", "b", "c"], [True, False, None]),
    checked("none", [], []),
    checked("levels", ["c"], [False], LEVELS, evidence=["4 words"]),
    checked("graded", ["a", "b"], [True, None], LEVELS, level_ids=["pass", None], reasons=[None, "no reference"]),
    checked("large", ["a"], [True]),
]


def test_verdicts_of_many_criteria_are_those_of_each_alone():
    for criteria in (CHECKED, CHECKED[:3], CHECKED[1:2]):
        each = [grade_outputs("r", one.criterion, one.output_ids, one.verdicts) for one in criteria]
        assert grade_checked("r", criteria).to_pylist() == pa.concat_tables(each).to_pylist()


def test_a_level_that_a_check_names_is_the_one_of_its_own_criterion():
    verdicts = grade_checked("r", CHECKED).select(["criterion_id", "output_id", "level_id", "score", "reason"])
    # "pass" is 1 where a criterion names no levels and 0.6 where these do
    assert [tuple(row.values()) for row in verdicts.to_pylist()] == [
        ("plain", "a", "pass", 1.0, None),
        ("plain", "b", "fail", 0.0, None),
        ("plain", "c", None, None, "the check can't tell"),
        ("levels", "c", "bad", 0.2, None),
        ("graded", "a", "pass", 0.6, None),
        ("graded", "b", None, None, "no reference"),
        ("large", "a", "pass", 1.0, None),
    ]


def test_no_criteria_have_no_verdicts():
    assert grade_checked("r", []).schema == VERDICT_SCHEMA
