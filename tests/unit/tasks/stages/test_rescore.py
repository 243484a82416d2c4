"""Rubrics that an old run can be rescored with."""

from typing import Any

import pytest

from gradebook.rubrics.model.errors import InputError
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.published.stored_run import StoredRun
from gradebook.tasks.stages.rescore import refuse_other_questions
from tests.support.law_over import law_over

TONE: dict[str, Any] = {
    "id": "tone",
    "description": "Is it warm?",
    "method": {"type": "judge"},
    "levels": [{"id": "bad", "score": 0}, {"id": "good", "score": 1}],
}
SHAPE: dict[str, Any] = {"id": "shape", "description": "Is it one?", "method": {"type": "schema", "schema": {}}}


def rubric_of(*criteria: dict[str, Any], version: str = "1.0.0", **keys: Any) -> Rubric:
    return Rubric.model_validate({"id": "reply", "version": version, "criteria": list(criteria)} | keys)


OLD = StoredRun({"run_id": "old"}, rubric_of(TONE, SHAPE))
HELD = {"tone": 3, "shape": 3}


@pytest.mark.parametrize(
    "criterion",
    [
        TONE | {"weight": 9},
        TONE | {"gate": True},
        TONE | {"threshold": 0.5, "rationale": "It counts.", "metadata": {"a": 1}},
        TONE | {"levels": TONE["levels"][::-1]},  # the order of levels does not matter: they are ranked by score
    ],
)
def test_a_criterion_with_another_weight_is_accepted(criterion):
    refuse_other_questions(OLD, rubric_of(criterion, version="2.0.0"), HELD)


@law_over(
    ("criterion", "words"),
    [
        (TONE | {"name": "Warm tone"}, "tone: another name"),  # the judge is shown it
        (TONE | {"description": "Is it cold?"}, "tone: another description"),
        (TONE | {"method": {"type": "judge", "guidance": "Think."}}, "tone: another method"),
        (TONE | {"levels": [*TONE["levels"], {"id": "fair", "score": 0.5}]}, "tone: another scale of levels"),
        (TONE | {"description": "No.", "method": {"type": "ratings"}}, "tone: another description and method"),
        (TONE | {"id": "warmth"}, "warmth: not in reply 1.0.0"),
    ],
)
def test_a_changed_criterion_is_refused_by_name(criterion, words):
    with pytest.raises(InputError, match=words):
        refuse_other_questions(OLD, rubric_of(criterion, version="2.0.0"), HELD)


def test_a_schema_is_compared_with_the_schemas_that_it_may_refer_to():
    new = rubric_of(SHAPE, version="2.0.0", schemas={"town": {"type": "string"}})
    with pytest.raises(InputError, match="shape: another set of schemas"):
        refuse_other_questions(OLD, new, HELD)


def test_each_of_several_faults_is_named():
    with pytest.raises(InputError, match="tone: no verdicts; warmth: not in reply"):
        refuse_other_questions(OLD, rubric_of(TONE, TONE | {"id": "warmth"}), {})
