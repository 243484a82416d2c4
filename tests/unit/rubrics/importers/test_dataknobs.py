"""dataknobs rubrics: what is read of them, what rides along, and that both ways lose nothing."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from gradebook.rubrics.files.load import read_rubric, shipped_rubrics
from gradebook.rubrics.files.versions import describe_difference, rubric_digest
from gradebook.rubrics.importers.dataknobs import read_dataknobs, write_dataknobs
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.rubric import Rubric
from tests.support.law_over import law_over
from tests.support.rubric_strategies import SHARES, json_values, mappings, rubrics, some_texts, texts

EXAMPLE = Path(__file__).parent / "examples" / "dataknobs.json"
TWO_LEVELS = [{"id": "no", "score": 0}, {"id": "yes", "score": 1}]

thorough = settings(suppress_health_check=[HealthCheck.too_slow])


def foreign_rubric(**keys: Any) -> dict[str, Any]:
    criterion = {"id": "tone", "weight": 1, "levels": TWO_LEVELS, "scoring_method": {"type": "llm_decode"}}
    return {"id": "reply", "criteria": [criterion | keys]}


def read(foreign: Any) -> Rubric:
    return Rubric.model_validate(read_dataknobs(json.dumps(foreign), "reply.json").rubric)


def written(rubric: Rubric) -> Any:
    return json.loads(write_dataknobs(rubric).text)


def edited(rubric: Rubric, **keys: Any) -> Rubric:
    return Rubric.model_validate(rubric.model_dump(by_alias=True) | keys)


def faults_of(text: str) -> list[str]:
    with pytest.raises(RubricError) as caught:
        read_dataknobs(text, "reply.json")
    return [str(fault).removeprefix("reply.json:").strip() for fault in caught.value.faults]


def faults_of_criterion(**keys: Any) -> list[str]:
    return faults_of(json.dumps(foreign_rubric(**keys)))


def assert_nothing_is_lost(rubric: Rubric) -> None:
    again = Rubric.model_validate(read_dataknobs(write_dataknobs(rubric).text, "x.json").rubric)
    assert rubric_digest(again) == rubric_digest(rubric), describe_difference(rubric, again)


def test_the_rubric_has_the_ids_that_gradebook_can_take():
    rubric = read(json.loads(EXAMPLE.read_text(encoding="utf-8")))
    assert (rubric.id, rubric.version, rubric.pass_threshold) == ("ticket_reply", "1.2.0", 0.7)
    assert [criterion.id for criterion in rubric.criteria] == ["ownership", "plain_words", "ticket_update", "is_json"]


def test_the_scoring_methods_are_judge_schema_and_check():
    rubric = read(json.loads(EXAMPLE.read_text(encoding="utf-8")))
    methods = [criterion.method.model_dump(by_alias=True, exclude_defaults=True) for criterion in rubric.criteria]
    assert methods == [
        {"type": "judge", "template": "Ticket: {{ prompt }}\nReply: {{ output }}"},
        {"type": "judge", "template": "Reply: {{ output }}"},
        {"type": "schema", "schema": {"type": "object", "required": ["status"]}},
        {"type": "check", "check": "json_valid"},
    ]


def test_what_has_no_place_is_kept_and_named():
    imported = read_dataknobs(EXAMPLE.read_text(encoding="utf-8"), "x.json")
    assert imported.kept == (
        "id",
        "version",
        "scoring_method.decode_output_schema",
        "criteria.id",
        "levels.id",
    )
    notes = imported.rubric["criteria"][1]["metadata"]["dataknobs"]
    assert imported.rubric["criteria"][1]["required"] is False
    assert notes["levels"] == {"insider_talk": {"id": "insider talk"}}


def test_the_example_comes_back_as_the_same_json():
    text = EXAMPLE.read_text(encoding="utf-8")
    imported = read_dataknobs(text, "x.json")
    exported = write_dataknobs(Rubric.model_validate(imported.rubric))
    assert json.loads(exported.text) == json.loads(text)


def test_a_prompt_outside_the_language_of_templates_is_kept_unused():
    method = {"type": "llm_decode", "decode_prompt": "Grade {{ output.__class__ }}"}
    foreign = foreign_rubric(scoring_method=method)
    imported = read_dataknobs(json.dumps(foreign), "x.json")
    assert "scoring_method.decode_prompt" in imported.kept
    assert imported.rubric["criteria"][0]["method"] == {"type": "judge"}


def test_a_function_keeps_its_reference():
    method = read(foreign_rubric(scoring_method={"type": "deterministic", "function_ref": "graders.tone:grade"}))
    found = method.criteria[0].method.model_dump(exclude_defaults=True)
    assert found == {"type": "function", "function": "graders.tone:grade", "takes": "content"}


@pytest.mark.parametrize(
    ("method", "stand_in"),
    [
        ({"type": "schema", "schema_ref": "schemas/ticket.json"}, "dataknobs:schema_ref"),
        ({"type": "deterministic", "function_ref": "a registered name"}, "dataknobs:function_ref"),
    ],
)
def test_what_can_not_be_scored_here_stands_as_a_function_and_comes_back(method: dict[str, Any], stand_in: str):
    foreign = foreign_rubric(scoring_method=method)
    rubric = read(foreign)
    assert rubric.criteria[0].method.model_dump(exclude_defaults=True) == {"type": "function", "function": stand_in}
    assert written(rubric) == foreign


def test_a_version_that_is_none_is_kept_beside_the_first_one():
    rubric = read(foreign_rubric() | {"version": "spring draft"})
    assert rubric.version == "1.0.0"
    assert written(rubric)["version"] == "spring draft"


def test_a_version_with_more_digits_than_a_rubric_s_is_kept_beside_the_first_one():
    assert read(foreign_rubric() | {"version": "2.0.1234567890"}).version == "1.0.0"


def test_an_edit_since_the_import_is_not_undone_by_what_was_kept():
    rubric = read(foreign_rubric() | {"version": "1.2"})
    assert rubric.metadata["dataknobs"]["version"] == "1.2"
    assert written(edited(rubric, version="1.3.0"))["version"] == "1.3.0"


def test_a_changed_method_does_not_fall_back_to_the_schema_that_was_named():
    rubric = read(foreign_rubric(scoring_method={"type": "schema", "schema_ref": "ticket.json"}))
    criterion = rubric.criteria[0].model_dump() | {"method": {"type": "judge"}}
    changed = edited(rubric, criteria=[criterion])
    assert written(changed)["criteria"][0]["scoring_method"]["type"] == "llm_decode"
    assert_nothing_is_lost(changed)


def test_a_copied_criterion_does_not_take_the_foreign_id_along():
    rubric = read(foreign_rubric(id="Tone of voice"))
    criterion = rubric.criteria[0].model_dump()
    twice = edited(rubric, criteria=[criterion, criterion | {"id": "tone_of_voice_2"}])
    assert [entry["id"] for entry in written(twice)["criteria"]] == ["Tone of voice", "tone_of_voice_2"]


def test_gates_and_categories_ride_along_and_are_named_as_what_dataknobs_passes_over():
    rubric = read_rubric("general_answer")
    exported = write_dataknobs(
        edited(
            rubric,
            missing="skip",
            criteria=[{**rubric.criteria[0].model_dump(), "gate": True, "weight": None}, *rubric.criteria[1:]],
        )
    )
    riding = json.loads(exported.text)["metadata"]["gradebook"]
    assert riding["missing"] == "skip" and riding["criteria"]["accuracy"]["gate"] is True
    (words,) = exported.lost
    before, _, names = words.partition(": ")
    assert before == "not seen by dataknobs, comes back on import"
    assert {"owner", "missing", "criteria.gate", "criteria.method", "criteria.category (5)"} <= set(names.split(", "))


def test_what_dataknobs_sees_in_other_words_is_not_named_as_unseen():
    # a scale is written as levels, a name that is the id as the name, and the weights 3 and 1 as 0.75 and 0.25
    method, two = {"type": "judge"}, [{"id": "x", "weight": 3}, {"id": "y"}]
    scale = {"min": 1, "max": 2, "points": {"1": "Curt.", "2": "Kind."}}
    criteria = [
        {"id": name, "name": name, "category": group, "description": "d", "scale": scale, "method": method}
        for name, group in (("tone", "x"), ("size", "y"))
    ]
    rubric = Rubric.model_validate({"id": "r", "version": "1.0.0", "categories": two, "criteria": criteria})
    unseen = "not seen by dataknobs, comes back on import: categories, criteria.category (2)"
    assert write_dataknobs(rubric).lost == (unseen,)


def test_a_rubric_that_dataknobs_sees_whole_loses_nothing():
    assert write_dataknobs(read(foreign_rubric())).lost == ()


def test_the_weights_of_a_tree_are_written_as_what_they_come_to():
    levels, method = [{"id": "no", "score": 0}, {"id": "yes", "score": 1}], {"type": "judge"}
    keys = {"description": "d", "levels": levels, "method": method}
    criteria = [
        {"id": "a", "category": "x", **keys},
        {"id": "b", "category": "x", **keys},
        {"id": "c", "weight": 3, **keys},
    ]
    rubric = Rubric.model_validate({"id": "r", "version": "1.0.0", "categories": [{"id": "x"}], "criteria": criteria})
    # x weighs 1 of 4, and each of its two criteria half of that; c weighs 3 of 4
    assert [entry["weight"] for entry in written(rubric)["criteria"]] == [0.125, 0.125, 0.75]


def test_a_penalty_weighs_nothing_in_dataknobs_and_is_a_penalty_again_here():
    rubric = read_rubric("general_answer")
    penalty = rubric.criteria[3].model_dump() | {"weight": -0.1, "threshold": None}
    rubric = edited(rubric, criteria=[*rubric.criteria[:3], penalty])
    assert written(rubric)["criteria"][3]["weight"] == 0
    assert "criteria.weight" in write_dataknobs(rubric).lost[0]
    assert_nothing_is_lost(rubric)


@pytest.mark.parametrize("wrap", [lambda rubric: [rubric], lambda rubric: {"rubrics": [rubric]}])
def test_a_list_or_a_config_of_one_rubric_is_that_rubric(wrap: Any):
    assert read(wrap(foreign_rubric())) == read(foreign_rubric())


def test_what_a_config_says_beside_its_rubric_is_kept():
    imported = read_dataknobs(json.dumps({"rubrics": [foreign_rubric()], "registry": "main"}), "x.json")
    assert imported.rubric["metadata"]["dataknobs_config"] == {"registry": "main"}
    assert imported.kept == ("config.registry",)


def test_every_rubric_of_a_config_is_imported():
    several = {"rubrics": [foreign_rubric(), foreign_rubric() | {"id": "plan"}], "name": "bot"}
    found = read_dataknobs(json.dumps(several), "a.json")
    assert [rubric["id"] for rubric in found.rubrics] == ["reply", "plan"]
    assert [rubric["metadata"]["dataknobs_config"] for rubric in found.rubrics] == [{"name": "bot"}] * 2


def test_two_rubrics_of_one_id_are_refused():
    assert faults_of(json.dumps([foreign_rubric()] * 2)) == ["found the rubrics reply, reply, expected each id once"]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("3", "found 3, expected a rubric, or a list of rubrics"),
        ("[3]", "[0]: found 3, expected a rubric"),
        ('{"rubrics": []}', "rubrics: found no rubric, expected at least one"),
        ('{"id": "a", "criteria": []}', "criteria: found an empty list, expected at least 1 entry"),
        ('{"id": "a", "criteria": [7]}', "criteria[0]: found 7, expected a mapping of keys to values"),
    ],
)
def test_a_file_that_is_no_rubric_is_refused(text: str, message: str):
    assert faults_of(text) == [message]


@law_over(
    ("keys", "message"),
    [
        ({"weight": -1}, "criteria[0].weight: found -1, expected a number of at least 0"),
        ({"weight": "1"}, "criteria[0].weight: found '1', expected a number"),
        ({"required": "yes"}, "criteria[0].required: found 'yes', expected true or false"),
        ({"levels": {"no": 0}}, "criteria[0].levels: found a mapping, expected a list"),
        ({"levels": [3]}, "criteria[0].levels[0]: found 3, expected a mapping of keys to values"),
        (
            {"levels": []},
            "in the rubric made of it: criteria[0].levels: found none, expected at least two for the method judge",
        ),
        (
            {"levels": TWO_LEVELS[:1]},
            "in the rubric made of it: criteria[0].levels: found one level, no, expected at least two",
        ),
        ({"levels": TWO_LEVELS[:1] * 2}, "criteria[0].levels[1].id: found 'no' again, expected each id once"),
        (
            {"scoring_method": "judge"},
            "criteria[0].scoring_method: found 'judge', expected a mapping of keys to values",
        ),
        (
            {"scoring_method": {"type": "human"}},
            "criteria[0].scoring_method.type: found 'human', expected one of 'deterministic', 'schema', 'llm_decode'",
        ),
        (
            {"scoring_method": {"type": "deterministic"}},
            "criteria[0].scoring_method.function_ref: found nothing, expected one for the type deterministic",
        ),
        (
            {"scoring_method": {"type": "schema"}},
            "criteria[0].scoring_method.schema: found no schema and no schema_ref, expected one of them",
        ),
        (
            {"left_out": 1},
            "criteria[0].left_out: found this key, expected another one: imports use it for their own notes",
        ),
    ],
)
def test_a_criterion_that_does_not_fit_is_refused_at_its_place(keys: dict[str, Any], message: str):
    assert faults_of_criterion(**keys) == [message]


def test_every_fault_is_told_at_once():
    level = {"id": 1, "score": 2, "label": 3, "indicators": "x"}
    assert [fault.partition(":")[0] for fault in faults_of_criterion(name=4, levels=[level])] == [
        "criteria[0].name",
        "criteria[0].levels[0].id",
        "criteria[0].levels[0].label",
        "criteria[0].levels[0].score",
        "criteria[0].levels[0].indicators",
    ]


@pytest.mark.parametrize(
    "riding",
    [3, {"criteria": 3}, {"criteria": {"tone": 3}}, {"pass_threshold": "high"}, {"criteria": {"tone": {"gate": 3}}}],
)
def test_what_rides_along_is_held_to_the_rubric_too(riding: Any):
    assert len(faults_of(json.dumps(foreign_rubric() | {"metadata": {"gradebook": riding}}))) == 1


def test_what_rode_along_with_a_removed_criterion_is_named():
    foreign = foreign_rubric() | {"metadata": {"gradebook": {"criteria": {"gone": {"gate": True}}}}}
    imported = read_dataknobs(json.dumps(foreign), "x.json")
    assert imported.kept[-1] == "metadata.gradebook.criteria.gone (no criterion has that id: dropped)"


@law_over("name", shipped_rubrics())
def test_a_shipped_rubric_loses_nothing(name: str):
    assert_nothing_is_lost(read_rubric(name))


@thorough
@given(rubrics())
def test_any_rubric_loses_nothing(rubric: Rubric):
    assert_nothing_is_lost(rubric)


junk = st.recursive(
    json_values,
    lambda inner: st.dictionaries(
        st.sampled_from(["id", "name", "levels", "scoring_method", "left_out", "metadata", "version", "criteria"]),
        inner,
    ),
    max_leaves=6,
)


@thorough
@given(rubrics(), junk, junk)
def test_any_metadata_of_those_names_rides_along(rubric: Rubric, of_rubric: Any, of_criterion: Any):
    values = rubric.model_dump(by_alias=True)
    values["metadata"] = {"dataknobs": of_rubric, "gradebook": of_rubric}
    values["criteria"][0]["metadata"] = {"dataknobs": of_criterion, "gradebook": of_criterion}
    assert_nothing_is_lost(Rubric.model_validate(values))


words = st.none() | texts
level_ids = some_texts | st.sampled_from(["Needs work", "needs-work", "needs_work"])
foreign_levels = mappings(
    {"id": level_ids, "score": SHARES},
    {"label": words, "description": words, "indicators": st.none() | st.lists(texts)},
)
references = st.sampled_from(["a.b:c", "gradebook:json_valid", "gradebook:", "no reference", "dataknobs:schema_ref"])
details = {"decode_prompt": words, "decode_output_schema": st.none() | st.just({"type": "object"}), "note": json_values}
foreign_methods = st.one_of(
    mappings({"type": st.just("deterministic"), "function_ref": references}, details),
    mappings({"type": st.just("schema"), "schema_ref": some_texts}, {"schema": st.none() | st.just({}), **details}),
    mappings({"type": st.just("llm_decode")}, details),
)
foreign_criteria = mappings(
    {
        "id": some_texts | st.sampled_from(["Tone fit", "tone-fit", "tone_fit", "tone_fit_2"]),
        "weight": st.integers(1, 9) | st.floats(0.01, 1),
        "levels": st.lists(foreign_levels, min_size=2, max_size=3, unique_by=lambda level: level["id"]),
        "scoring_method": foreign_methods,
    },
    {"name": words, "description": words, "required": st.none() | st.booleans(), "note": json_values},
)
foreign_rubrics = mappings(
    {
        "id": some_texts,
        "criteria": st.lists(foreign_criteria, min_size=1, max_size=3, unique_by=lambda entry: entry["id"]),
    },
    {
        "name": words,
        "description": words,
        "target_type": words,
        "pass_threshold": st.none() | SHARES,
        "version": words | st.sampled_from(["1.0", "2.1.0", "1.0.0-beta"]),
        "metadata": st.sampled_from([None, {}, {"tags": ["a"]}, {"dataknobs": {"name": "mine"}}]),
        "note": json_values,
    },
)


@thorough
@given(foreign_rubrics)
def test_any_foreign_rubric_comes_back_as_the_same_json(foreign: dict[str, Any]):
    assert written(read(foreign)) == foreign


def with_reference(name: str) -> str:
    return json.dumps(foreign_rubric(scoring_method={"type": "schema", "schema_ref": name}))


def test_a_schema_beside_the_rubric_is_read_and_its_name_comes_back(tmp_path):
    schema = {"type": "object", "required": ["title"]}
    (tmp_path / "schemas").mkdir()
    (tmp_path / "schemas" / "ticket.json").write_text(json.dumps(schema), encoding="utf-8")
    imported = read_dataknobs(with_reference("schemas/ticket.json"), str(tmp_path / "rubric.json"))
    rubric = Rubric.model_validate(imported.rubric)
    assert rubric.criteria[0].method.model_dump(by_alias=True)["schema"] == schema
    (criterion,) = json.loads(write_dataknobs(rubric).text)["criteria"]
    assert criterion["scoring_method"] == {"type": "schema", "schema": schema, "schema_ref": "schemas/ticket.json"}


@pytest.mark.parametrize("name", ["https://example.com/ticket.json", "missing.json", "x" * 5_000])
def test_a_schema_that_is_no_file_below_the_rubric_is_not_read(tmp_path, name):
    imported = read_dataknobs(with_reference(name), str(tmp_path / "rubric.json"))
    assert imported.rubric["criteria"][0]["method"] == {"type": "function", "function": "dataknobs:schema_ref"}


def test_a_schema_outside_the_rubrics_folder_is_refused(tmp_path):
    (tmp_path / "ticket.json").write_text("{}", encoding="utf-8")
    (tmp_path / "inner").mkdir()
    with pytest.raises(RubricError, match="expected a path below the rubric's folder"):
        read_dataknobs(with_reference("../ticket.json"), str(tmp_path / "inner" / "rubric.json"))
