"""Rubric files: the ones that ship, and what is said about a broken one."""

import os
from pathlib import Path
from typing import Any

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from gradebook.rubrics.files.dump import rubric_yaml
from gradebook.rubrics.files.load import parse_rubric, read_rubric, shipped_rubrics
from gradebook.rubrics.files.validate import CRITERION_KEYS
from gradebook.rubrics.files.versions import canonical_body, required_step, rubric_digest, rubric_from_body
from gradebook.rubrics.model import methods
from gradebook.rubrics.model.errors import Fault, RubricError
from gradebook.rubrics.model.rubric import Rubric
from tests.support.law_over import law_over
from tests.support.rubric_strategies import within_reach

HEAD = "id: reply\nversion: 1.0.0\ncriteria:\n  - id: length\n    description: Short?\n"  # 5 lines
METHOD = "    method: {type: check, check: length_words, settings: {max: 200}}\n"
KNOWN_KEYS = ", ".join(sorted(CRITERION_KEYS))
METHODS = ", ".join(sorted(methods.METHODS))
BARE = "(a bare yes, no, on or off is read so)"


def faults_of(text: str | bytes) -> tuple[Fault, ...]:
    with pytest.raises(RubricError) as caught:
        parse_rubric(text, "reply.yaml")
    return caught.value.faults


def told(text: str | bytes) -> list[tuple[int | None, str]]:
    return [(fault.line, fault.message) for fault in faults_of(text)]


@law_over(
    ("line", "message"),
    [
        ("weight: heavy", "criteria[0].weight: found 'heavy', expected a number"),
        ("weight: yes", f"criteria[0].weight: found true {BARE}, expected a number"),
        ("weight: -1e7", "criteria[0].weight: found '-1e7', expected a number"),
        ("weight: -2000000", "criteria[0].weight: found -2000000, expected a number of at least -1e+06"),
        ("threshold: 70", "criteria[0].threshold: found 70, expected a number of at most 1"),
        ("gate: maybe", "criteria[0].gate: found 'maybe', expected true or false"),
        ("name: 3", "criteria[0].name: found 3, expected text (quotes make it so)"),
        ("levels: 3", "criteria[0].levels: found 3, expected a list"),
        ("levels: [3, {id: a, score: 1}]", "criteria[0].levels[0]: found 3, expected a mapping of keys to values"),
        ("levels: [{id: a, score: 1}]", "criteria[0].levels: found one level, a, expected at least two"),
        (
            "levels: [{id: no, score: 0}, {id: b, score: 1}]",
            f"criteria[0].levels[0].id: found false {BARE}, expected text",
        ),
        (
            "levels: [{id: a, score: 0}, {id: a, score: 1}]",
            "criteria[0].levels[1].id: found 'a' again, expected each id once",
        ),
        ("levels: [{id: a, score: 0}, {id: b}]", "criteria[0].levels[1]: found no 'score', expected one"),
        (
            "wieght: 1",
            f"criteria[0]: found the unknown key 'wieght', expected one of {KNOWN_KEYS} (the nearest is weight)",
        ),
        ("zzz: 1", f"criteria[0]: found the unknown key 'zzz', expected one of {KNOWN_KEYS}"),
        ("id: a", "found the key 'id' again (first in line 4), expected each key once"),
        ("weight: 010", "found 010, expected a plain decimal number, or quotes around text"),
        ("1: a", f"criteria[0]: found the unknown key '1', expected one of {KNOWN_KEYS}"),
        ("1.5: a", "found the key '1.5', expected text (quotes make it so)"),
        (
            "name: !!python/name:os.system x",
            "found the tag !!python/name:os.system, expected plain text",
        ),
    ],
)
def test_a_broken_line_of_a_criterion_is_told_with_its_number_and_place(line: str, message: str):
    found_line, found = told(f"{HEAD}    {line}\n{METHOD}")[0]
    assert (found_line, found[: len(message)]) == (6, message)


@law_over(
    ("method", "message"),
    [
        ("3", "criteria[0].method: found 3, expected a mapping of keys to values"),
        ("{}", "criteria[0].method: found no 'type', expected one"),
        (
            "{type: chek}",
            f"criteria[0].method.type: found 'chek', expected one of {METHODS} (the nearest is check)",
        ),
        ("{type: check}", "criteria[0].method: found no 'check', expected one"),
        ("{type: schema}", "criteria[0].method: found no 'schema', expected one"),
        (
            "{type: check, check: lenght_words}",
            "criteria[0].method.check: found the check 'lenght_words', expected length_words",
        ),
        (
            "{type: check, check: length_words, settings: {maxx: 1}}",
            "criteria[0].method.settings: found the unknown key 'maxx', expected one of levels, max, min",
        ),
        (
            "{type: check, check: length_words, settings: {max: many}}",
            "criteria[0].method.settings.max: found 'many', expected a whole number",
        ),
        (
            "{type: check, check: length_words}",
            "criteria[0].method.settings: found neither min, max nor levels, expected min or max",
        ),
        ("{type: schema, schema: {type: objekt}}", "criteria[0].method.schema: $.type: 'objekt' is not valid"),
        ("{type: judge, max_tokens: 0}", "criteria[0].method.max_tokens: found 0, expected a number above 0"),
        ("{type: judge, max_tokens: 1.5}", "criteria[0].method.max_tokens: found 1.5, expected a whole number"),
    ],
)
def test_a_broken_method_is_told_with_its_line_and_place(method: str, message: str):
    found_line, found = told(f"{HEAD}    method: {method}\n")[0]
    assert (found_line, found[: len(message)]) == (6, message)


@law_over(
    ("text", "line", "message"),
    [
        ("", 1, "found an empty file, expected lines of `key: value`"),
        ("# only a comment\n", 1, "found an empty file, expected lines of `key: value`"),
        ("- a\n", 1, "found a list at the top of the file, expected lines of `key: value`"),
        ("id: a\ncriteria:\n\t- id: b\n", 3, "found a tab in the indentation, expected spaces"),
        (b"id: a\nname: caf\xe9\n", 2, "found the byte 0xe9, expected text in UTF-8"),
        ("id: a\nname: \x07\n", 2, "found the character '\\x07', expected printable text"),
        ("id: a\nname: 'open\n", 2, "expected YAML: while scanning a quoted scalar, found unexpected end of stream"),
        ("id: a\nname: *nobody\n", 2, "expected YAML: found undefined alias"),
        (
            "id: a\n---\nid: b\n",
            2,
            "expected YAML: expected a single document in the stream, but found another document",
        ),
        ("id: a\nname: " + "[" * 60, 2, "found more than 50 levels of nesting, expected fewer"),
        ("id: a\nname: &a [*a]\n", 2, "found more than 50 levels of nesting through aliases, expected fewer"),
    ],
)
def test_a_file_that_is_no_yaml_mapping_is_told_in_one_fault(text: str | bytes, line: int, message: str):
    assert told(text) == [(line, message)]


def test_aliases_that_unfold_to_a_billion_values_are_refused_at_once():
    # ten lists, each of ten times the one before: 10^10 values
    lines = ["a0: &a0 [x]", *(f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 11))]
    assert told("\n".join(lines))[0][1] == "found more than 100,000 values with the aliases written out, expected fewer"


def test_an_alias_for_a_whole_value_is_taken():
    levels = "    levels: &scale [{id: a, score: 0}, {id: b, score: 1}]\n"
    second = "  - {id: two, description: d, levels: *scale, method: {type: judge}}\n"
    assert len(parse_rubric(HEAD + levels + METHOD + second, "r").criterion("two").levels) == 2


def test_a_gate_with_a_weight_is_told_at_the_weight():
    message = "criteria[0].weight: found 1 on a gate, expected a gate without a weight, or gate: false"
    assert told(f"{HEAD}    gate: true\n    weight: 1\n{METHOD}") == [(7, message)]


def test_weights_of_0_are_told_at_the_criteria():
    message = "criteria: found a weight sum of 0, expected at least one criterion with a weight above 0"
    assert told(f"{HEAD}    weight: 0\n{METHOD}") == [(3, message)]


def test_a_judged_criterion_without_levels_is_told():
    message = "criteria[0].levels: found none, expected at least two for the method judge"
    assert told(f"{HEAD}    method: {{type: judge}}\n") == [(4, message)]


def test_a_repeated_criterion_is_told_where_it_stands_again():
    second = HEAD.partition("criteria:\n")[2]
    message = "criteria[1].id: found 'length' again, expected each id once"
    assert told(HEAD + METHOD + second + METHOD) == [(7, message)]


def test_a_threshold_above_the_best_level_is_told():
    levels = "    levels: [{id: a, score: 0}, {id: b, score: 0.5}]\n"
    message = "criteria[0].threshold: found 0.7, expected at most 0.5, the score of the best level"
    assert told(f"{HEAD}{levels}    threshold: 0.7\n{METHOD}") == [(7, message)]


@pytest.mark.parametrize(
    ("others", "highest"),
    [
        # length reaches 0.5 and the other 1, each weighs 1
        ("", "0.75"),
        # 1 of 4 is length's: (0.5 + 3 x 1) / 4
        ("    weight: 3\n", "0.875"),
        # a penalty takes 2 x 0 at its lowest level
        ("    weight: -2\n", "0.5"),
        ("    gate: true\n", "0.5"),
    ],
)
def test_a_pass_threshold_above_the_highest_score_is_told(others: str, highest: str):
    levels = "    levels: [{id: a, score: 0}, {id: b, score: 0.5}]\n"
    second = f"  - id: two\n    description: d\n{others}{METHOD}"
    message = f"pass_threshold: found 0.9, expected at most {highest}, the highest possible score"
    assert told(f"pass_threshold: 0.9\n{HEAD}{levels}{METHOD}{second}") == [(1, message)]


def test_a_pass_threshold_of_1_stands_where_weights_of_a_tenth_add_up_to_less():
    # ten times 0.1 adds up to 0.9999999999999999
    criteria = "".join(f"  - {{id: c{n}, description: d, weight: 0.1, {METHOD.strip()}}}\n" for n in range(10))
    text = f"id: reply\nversion: 1.0.0\npass_threshold: 1\ncriteria:\n{criteria}"
    assert parse_rubric(text, "reply.yaml").pass_threshold == 1


def test_a_pass_threshold_is_held_against_the_weights_of_the_categories():
    # x is 3 of 4 and reaches 0.5, y is 1 of 4 and reaches 1: 0.375 + 0.25
    levels = "    category: x\n    levels: [{id: a, score: 0}, {id: b, score: 0.5}]\n"
    second = f"  - id: two\n    description: d\n    category: y\n{METHOD}"
    head = "pass_threshold: 0.7\ncategories: [{id: x, weight: 3}, {id: y}]\n"
    assert told(f"{head}{HEAD}{levels}{METHOD}{second}")[0][1].endswith("at most 0.625, the highest possible score")


def test_truths_for_numbers_are_told_in_scales_and_in_the_overall_row():
    head = "overall: {levels: [{id: a, score: no}, {id: b, score: yes}]}\n"
    found = [
        message.partition(":")[0] for _, message in told(f"{head}{HEAD}    scale: {{min: no, max: yes}}\n{METHOD}")
    ]
    places = ["overall.levels[0].score", "overall.levels[1].score", "criteria[0].scale.max", "criteria[0].scale.min"]
    assert found == places


def test_a_pass_threshold_over_gates_alone_is_told():
    message = "pass_threshold: found 0.5 over gates alone, expected a criterion with a weight"
    assert told(f"pass_threshold: 0.5\n{HEAD}    gate: true\n{METHOD}") == [(1, message)]


def test_required_thresholds_that_nobody_set_are_told():
    message = "require_thresholds: found true and no criterion with a threshold, expected at least one"
    assert told(f"require_thresholds: true\n{HEAD}{METHOD}") == [(1, message)]


def test_every_fault_is_told_at_once_in_the_order_of_the_file():
    text = f"id: My Rubric\nversion: 1.0\nmissing: maybe\ncriteria:\n  - id: a\n    weight: x\n{METHOD}    weigth: 1\n"
    assert [line for line, _ in told(text)] == [1, 2, 3, 5, 6, 8]


def test_missing_keys_of_the_rubric_are_told_at_its_first_line():
    assert told("# a comment\nname: a\n") == [
        (2, f"found no {key!r}, expected one") for key in ("criteria", "id", "version")
    ]


def test_a_fault_names_the_file_it_was_given():
    assert str(faults_of("")[0]).startswith("reply.yaml:1: found an empty file")


def test_a_file_is_read(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    path.write_text(HEAD + METHOD, encoding="utf-8")
    assert read_rubric(str(path)).id == "reply"


def test_a_file_with_a_byte_order_mark_is_read(tmp_path: Path):
    path = tmp_path / "mine.yaml"
    path.write_text(HEAD + METHOD, encoding="utf-8-sig")
    assert read_rubric(path).id == "reply"


@pytest.mark.parametrize("name", ["general_anwser", "folder/general_answer.yml"])
def test_a_name_that_is_nothing_is_told_with_the_nearest_shipped_rubric(name: str):
    with pytest.raises(RubricError, match=f"^{name}: found no such file .*nearest is general_answer"):
        read_rubric(name)


@pytest.mark.parametrize("name", ["", ".", "a\0b", "../definitions/general_answer"])
def test_a_name_that_can_be_no_file_is_a_rubric_error(name: str):
    with pytest.raises(RubricError, match="found no such file"):
        read_rubric(name)


def test_a_name_too_long_for_a_file_is_a_rubric_error():
    with pytest.raises(RubricError, match="can't be read"):
        read_rubric("a" * 300 + ".yaml")


def test_the_rubrics_that_people_look_for_ship():
    starters = {"booking_assistant", "daily_reflection", "planner", "rag_answer", "support_reply"}
    agents = {
        "agent_task",
        "tool_use",
        "coding_agent",
        "conversational_agent",
        "web_agent",
        "text_to_speech",
        "summarisation",
    }
    others = {"reference_dimensions", "meta_rubric", "rubric_form", "general_answer", "json_record"}
    assert set(shipped_rubrics()) == starters | agents | others


@law_over("name", shipped_rubrics())
def test_a_shipped_rubric_bears_the_name_of_its_file(name: str):
    assert read_rubric(name).id == name


@law_over("name", shipped_rubrics())
def test_each_weighted_criterion_of_a_shipped_rubric_says_why_it_weighs_so(name: str):
    weighted = [criterion for criterion in read_rubric(name).criteria if not criterion.gate]
    assert [criterion.id for criterion in weighted if not criterion.rationale] == []


@law_over("name", shipped_rubrics())
def test_each_weighted_criterion_of_a_shipped_rubric_has_a_category_and_a_threshold(name: str):
    weighted = [criterion for criterion in read_rubric(name).criteria if not criterion.gate]
    assert [criterion.id for criterion in weighted if criterion.category is None or criterion.threshold is None] == []


@law_over("name", shipped_rubrics())
def test_each_judged_level_of_a_shipped_rubric_is_described(name: str):
    judged = [criterion for criterion in read_rubric(name).criteria if criterion.method.type == "judge"]
    assert [level.id for criterion in judged for level in criterion.ranked_levels if len(level.description) < 40] == []


words = st.text(min_size=1, max_size=20)
scores = st.floats(0, 1)
methods = st.sampled_from(
    [
        {"type": "judge"},
        {"type": "ratings"},
        {"type": "check", "check": "length_words", "settings": {"min": 1}},
        {"type": "schema", "schema": {"type": "object", "required": ["no", "1e3", "010"]}},
    ]
)
levels = st.lists(scores, min_size=2, max_size=4, unique=True).map(
    lambda found: [{"id": str(place), "score": score} for place, score in enumerate(found)]
)
criteria = st.fixed_dictionaries(
    {"description": words, "method": methods, "levels": levels},
    optional={"name": words, "category": words, "weight": st.floats(0.01, 100), "threshold": st.just(0)},
)


def as_rubric(found: list[dict[str, Any]], pass_threshold: float) -> Rubric:
    named = [criterion | {"id": f"criterion_{place}"} for place, criterion in enumerate(found)]
    values = {"id": "generated", "version": "0.10.0", "pass_threshold": pass_threshold, "criteria": named}
    return within_reach(Rubric.model_validate(values))


@given(st.lists(criteria, min_size=1, max_size=3), scores, st.booleans())
def test_a_rubric_written_as_yaml_is_read_with_the_same_digest(
    found: list[dict[str, Any]], pass_threshold: float, is_flow: bool
):
    original = as_rubric(found, pass_threshold)
    text = yaml.safe_dump(
        original.model_dump(mode="json", by_alias=True), default_flow_style=is_flow, sort_keys=is_flow
    )
    assert rubric_digest(parse_rubric(text, "generated.yaml")) == rubric_digest(original)


SCHEMA_HEAD = "id: reply\nversion: 1.0.0\n"
SCHEMA_TAIL = (
    "criteria:\n  - id: shape\n    description: Well formed?\n    method: {type: schema, schema: {$ref: town.json}}\n"
)


def with_schemas(entry: str, folder: Path | None = None) -> Rubric:
    return parse_rubric(f"{SCHEMA_HEAD}schemas: {entry}\n{SCHEMA_TAIL}", "reply.yaml", folder)


def schema_faults(entry: str, folder: Path | None = None) -> list[tuple[int | None, str, str]]:
    with pytest.raises(RubricError) as caught:
        with_schemas(entry, folder)
    return [(fault.line, fault.rule, fault.message) for fault in caught.value.faults]


@pytest.mark.parametrize(
    ("name", "text"),
    [("town.json", '{"type": "object"}'), ("in/town.yaml", "type: object\n"), ("t.yml", "type: object")],
)
def test_a_schema_file_becomes_part_of_the_rubric(tmp_path: Path, name: str, text: str):
    (tmp_path / name).parent.mkdir(exist_ok=True)
    (tmp_path / name).write_text(text, encoding="utf-8")
    written_out = with_schemas("{town.json: {type: object}}")
    rubric = with_schemas(f"{{town.json: {name}}}", tmp_path)
    assert rubric_digest(rubric) == rubric_digest(written_out)
    assert rubric_digest(parse_rubric(rubric_yaml(rubric), "again.yaml")) == rubric_digest(rubric)
    assert rubric_digest(rubric_from_body(canonical_body(rubric))) == rubric_digest(rubric)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("../town.json", "found '../town.json', expected a path below the rubric's folder"),
        ("/etc/town.json", "found '/etc/town.json', expected a path below the rubric's folder"),
        ("https://example.com/town.json", "expected a path below the rubric's folder"),
        ("link.json", "found 'link.json', which leads out of the rubric's folder, expected a file below it"),
        ("none.json", "found no file 'none.json' beside the rubric, expected one"),
        ("fifo.json", "found no file 'fifo.json' beside the rubric, expected one"),
        ("in.json", "found 'in.json', which can't be read (Is a directory), expected a file"),
        ("town.txt", "found 'town.txt', expected a JSON Schema, or a file that ends in .json, .yaml, .yml"),
        ("bad.json", "found text that is not JSON (line 2 column 1: Expecting"),
        ("list.json", "found a list in list.json, expected a JSON Schema"),
        ("deep.json", "found more than 45 levels of nesting in deep.json, expected fewer"),
        ("huge.json", "found a value that JSON can't hold in huge.json"),
        ("twice.json", "found a key twice in an object, expected each key once"),
        ("large.json", "found more than 1,000,000 bytes in 'large.json', expected fewer"),
        ("bad.yaml", "found faults in bad.yaml (YAML, at line 2), expected a file without"),
    ],
)
def test_a_schema_file_that_cannot_be_read_is_told_with_its_place(tmp_path: Path, name: str, message: str):
    folder = tmp_path / "rubrics"
    (folder / "in.json").mkdir(parents=True)
    (tmp_path / "secret.json").write_text("{}", encoding="utf-8")
    os.mkfifo(folder / "fifo.json")
    (folder / "link.json").symlink_to(tmp_path / "secret.json")
    texts = {
        "bad.json": '{"type":\n',
        "list.json": "[1]",
        "deep.json": '{"not":' * 46 + "{}" + "}" * 46,
        "huge.json": '{"maximum": 1e999}',
        "twice.json": '{"not": {"type": "object", "type": "array"}}',
        "large.json": f'{{"description": "{"x" * 1_000_000}"}}',
        "bad.yaml": "type: object\ntype: object\n",
    }
    for file, text in texts.items():
        (folder / file).write_text(text, encoding="utf-8")
    ((line, rule, found),) = schema_faults(f"{{town.json: '{name}'}}", folder)
    assert (line, rule, found[: len("schemas.town.json: ")]) == (3, "unsafe-schema", "schemas.town.json: ")
    assert message in found


@law_over(
    ("entry", "message"),
    [
        (
            "{twon.json: {}}",
            "criteria[0].method.schema: $ref: found 'town.json', expected a place inside the schema, or",
        ),
        ("{town.json: {type: objekt}}", "schemas.town.json: $.type: 'objekt' is not valid"),
        ("{town.json: {$ref: other.json}}", "schemas.town.json: $ref: found 'other.json', expected a place inside"),
        ("{town.json: 3}", "schemas.town.json: found 3, expected a mapping of keys to values"),
        ("{town.json: {}, 'a/b.json': {}}", "schemas: found the name 'a/b.json', expected letters, digits"),
        ("[town.json]", "schemas: found a list, expected a mapping of keys to values"),
    ],
)
def test_a_wrong_schema_of_a_rubric_is_told_in_words(entry: str, message: str):
    assert message in " ".join(found for _, _, found in schema_faults(entry))


def test_a_changed_schema_asks_for_a_minor_step():
    old, new = (with_schemas(f"{{town.json: {{type: {kind}}}}}") for kind in ("object", "array"))
    assert required_step(old, new).reasons == (("minor", "schemas.town.json.type: object -> array"),)


def test_a_taken_criterion_brings_the_schemas_of_its_rubric_along(tmp_path: Path):
    base = f"{SCHEMA_HEAD}schemas: {{town.json: {{type: object}}}}\n{SCHEMA_TAIL}"
    (tmp_path / "base.yaml").write_text(base, encoding="utf-8")
    taken = parse_rubric("id: mine\nversion: 1.0.0\nextends: base.yaml\n", "mine.yaml", tmp_path)
    own = "id: mine\nversion: 1.0.0\nextends: base.yaml\nschemas: {town.json: {type: array}}\n"
    assert taken.schemas == {"town.json": {"type": "object"}}
    assert parse_rubric(own, "mine.yaml", tmp_path).schemas == {"town.json": {"type": "array"}}


def test_two_bases_with_another_schema_of_one_name_are_refused(tmp_path: Path):
    for name, kind in (("a", "object"), ("b", "array")):
        text = f"id: {name}\nversion: 1.0.0\nschemas: {{town.json: {{type: {kind}}}}}\n{SCHEMA_TAIL}"
        (tmp_path / f"{name}.yaml").write_text(text.replace("shape", f"shape_{name}"), encoding="utf-8")
    with pytest.raises(RubricError, match=r"found different schemas 'town.json' in b and before it"):
        parse_rubric("id: mine\nversion: 1.0.0\nextends: [a.yaml, b.yaml]\n", "mine.yaml", tmp_path)


def test_a_bare_name_is_a_shipped_rubric_and_never_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "general_answer").write_text("id: planted", encoding="utf-8")
    assert read_rubric("general_answer").id == "general_answer"
    assert parse_rubric("id: mine\nversion: 1.0.0\nextends: general_answer\n", "mine.yaml", tmp_path).id == "mine"
