"""Whatever a rubric holds, it is the same version after it was written and read again."""

import pytest
from hypothesis import HealthCheck, given, settings
from jsonschema import Draft202012Validator

from gradebook.rubrics.files.dump import rubric_yaml
from gradebook.rubrics.files.editor_schema import editor_schema
from gradebook.rubrics.files.load import parse_rubric
from gradebook.rubrics.files.versions import (
    canonical_body,
    describe_difference,
    required_step,
    rubric_digest,
    rubric_from_body,
)
from gradebook.rubrics.model.rubric import Rubric
from gradebook.rubrics.text.yaml_lines import read_yaml
from tests.support.rubric_strategies import rubrics

EDITOR = Draft202012Validator(editor_schema())
any_rubric = settings(
    derandomize=True,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large],
)


@any_rubric
@given(rubrics())
def test_a_rubric_comes_back_from_its_yaml_as_the_same_version(original: Rubric):
    again = parse_rubric(rubric_yaml(original), "rubric.yaml")
    assert rubric_digest(again) == rubric_digest(original)


@any_rubric
@given(rubrics())
def test_a_rubric_comes_back_from_its_body_as_the_same_version(original: Rubric):
    assert rubric_digest(rubric_from_body(canonical_body(original))) == rubric_digest(original)


@any_rubric
@given(rubrics())
def test_a_rubric_needs_no_step_from_itself(original: Rubric):
    assert required_step(original, original).step == "none"


@pytest.mark.slow
@any_rubric
@given(rubrics(), rubrics())
def test_a_step_is_none_only_where_nothing_but_the_version_differs(old: Rubric, new: Rubric):
    same_version = new.model_copy(update={"version": old.version})
    assert (required_step(old, new).step == "none") == (describe_difference(old, same_version) == [])


@pytest.mark.slow
@any_rubric
@given(rubrics())
def test_the_editor_schema_accepts_the_yaml_of_any_rubric(original: Rubric):
    written = read_yaml(rubric_yaml(original), "rubric.yaml").values
    assert [error.message for error in EDITOR.iter_errors(written)] == []
