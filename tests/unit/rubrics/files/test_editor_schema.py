"""The JSON Schema of a rubric file: what an editor accepts and what it underlines."""

import json
from functools import cache
from pathlib import Path
from typing import Any

from jsonschema import Draft202012Validator

from gradebook.rubrics.checks.registry import check_names, find_check
from gradebook.rubrics.files.editor_schema import editor_schema
from gradebook.rubrics.files.load import shipped_rubrics
from gradebook.rubrics.text.yaml_lines import read_yaml
from tests.support.law_over import law_over

ROOT = Path(__file__).parents[4]
FILES = [f"rubrics/definitions/{name}.yaml" for name in shipped_rubrics()] + ["examples/support_replies/rubric.yaml"]
LEVELS = [{"id": 1, "score": 0}, {"id": "good", "score": 1}]
TONE = {"id": "tone", "description": "Kind?", "method": {"type": "judge"}, "levels": LEVELS}
LENGTH = {"id": "length", "description": "Short?", "method": {"type": "check", "check": "length_words"}}
HEAD = {"id": "reply", "version": "1.0.0"}
COMPOSED = HEAD | {"extends": "reference_dimensions"}


@cache
def _editor() -> Draft202012Validator:
    """Validator of the editor schema, made by the first test that asks: in the module's head each worker would."""
    return Draft202012Validator(editor_schema())


def is_accepted(values: dict[str, Any]) -> bool:
    return _editor().is_valid(values)


def tone(**changes: Any) -> dict[str, Any]:
    return HEAD | {"criteria": [TONE | changes]}


def check(name: str, **settings: Any) -> dict[str, Any]:
    return HEAD | {"criteria": [LENGTH | {"method": {"type": "check", "check": name, "settings": settings}}]}


def used(**keys: Any) -> dict[str, Any]:
    return COMPOSED | {"criteria": [{"use": "tone_fit"} | keys]}


def references_in(node: Any) -> list[str]:
    if isinstance(node, dict):
        own = [node["$ref"]] if isinstance(node.get("$ref"), str) else []
        return own + [found for entry in node.values() for found in references_in(entry)]
    return [found for entry in node for found in references_in(entry)] if isinstance(node, list) else []


def test_the_schema_is_one_of_its_draft_and_plain_json():
    schema = json.loads(json.dumps(editor_schema()))
    Draft202012Validator.check_schema(schema)
    assert schema["$schema"] == Draft202012Validator.META_SCHEMA["$id"]


def test_every_reference_stays_inside_the_schema():
    schema = editor_schema()
    assert {name.removeprefix("#/$defs/") for name in references_in(schema)} <= schema["$defs"].keys()


@law_over("file", FILES)
def test_a_rubric_that_ships_is_accepted(file: str):
    values = read_yaml((ROOT / file).read_bytes(), file).values
    assert [error.message for error in _editor().iter_errors(values)] == []


@law_over(
    "values",
    [
        tone(),
        tone(gate=True, weight=None),
        tone(levels=[], scale={"min": 1, "max": 5}),
        tone() | {"missing": None},
        tone() | {"overall": {"levels": LEVELS}, "notes": {"label": "Notes"}},
        tone(method={"type": "judge", "can_abstain": True, "examples": [{"output": "Hi.", "level": 1}]}),
        check("json_valid"),
        COMPOSED,
        COMPOSED | {"extends": ["one", "other.yaml"]},
        COMPOSED | {"criteria": [{"use": "tone_fit"}, TONE]},
        used(weight=0.1, threshold=None, name="Tone"),
    ],
)
def test_what_a_file_may_say_is_accepted(values: dict[str, Any]):
    assert is_accepted(values)


@law_over(
    "values",
    [
        tone(method={"type": "judge", "examples": [{"output": "Hi."}]}),
        tone(method={"type": "judge", "examples": [{"output": "Hi.", "level": "1"}] * 9}),
        HEAD,
        HEAD | {"criteria": []},
        HEAD | {"criteria": [{"use": "tone_fit"}]},
        COMPOSED | {"extends": 1},
        used(weight="heavy"),
        used(wieght=1),
        tone() | {"versoin": "1.0.0"},
        tone() | {"version": "1.0"},
        tone() | {"missing": "never"},
        tone(wieght=1),
        tone(weight="heavy"),
        tone(gate=True, weight=1),
        tone(levels=[]),
        tone(levels=[{"id": True, "score": 0}, LEVELS[1]]),
        tone(levels=[{"id": "a", "score": 2}, LEVELS[1]]),
        tone(method={"type": "guess"}),
        tone(method={"type": "judge", "check": "contains"}),
        tone(scale={"min": 1, "most": 5}, levels=[]),
        check("lenght_words", min=1),
        check("length_words", least=1),
        check("length_words", min="one"),
        check("starts_with", strip=True),
        check("json_valid", kind="number"),
        HEAD | {"criteria": [LENGTH | {"method": {"type": "check", "check": "starts_with"}}]},
    ],
)
def test_what_a_file_may_not_say_is_underlined(values: dict[str, Any]):
    assert not is_accepted(values)


@law_over("name", check_names())
def test_a_check_refuses_a_setting_that_it_does_not_have(name: str):
    errors = _editor().iter_errors(check(name, no_such_setting=1))
    assert any("no_such_setting" in cause.message for error in errors for cause in [error, *_causes(error)])


def test_no_two_settings_share_a_name_in_the_schema():
    models = {find_check(name).settings_model for name in check_names()}
    assert len({model.__name__ for model in models}) == len(models)


def test_the_meaning_of_a_key_is_told_on_one_line_and_without_links():
    criterion = editor_schema()["$defs"]["Criterion"]["properties"]
    assert criterion["gate"]["description"] == "`true`: no weight; failing it fails the output, whatever its score"
    assert "](" not in json.dumps(editor_schema())
    assert "\\n" not in json.dumps(editor_schema())


def _causes(error: Any) -> list[Any]:
    return [cause for inner in error.context or () for cause in [inner, *_causes(inner)]]
