"""What holds for every format: its files are read with one strictness, and a strange one ends in a fault."""

import copy
import json
import re
from collections.abc import Iterator
from json import JSONDecodeError
from pathlib import Path
from typing import Any

import pytest
import yaml

from gradebook.rubrics.importers.foreign_file import json_fault, open_rows
from gradebook.rubrics.importers.guessing import candidates_of, guess_format
from gradebook.rubrics.importers.registry import FORMAT_NAMES, Imported, find_format
from gradebook.rubrics.model.errors import RubricError
from gradebook.rubrics.model.outputs import OutputRow
from gradebook.rubrics.model.rubric import CaseCriterion, Rubric
from gradebook.tasks.ratings.evaluation_file import RatingRow
from gradebook.tasks.rubric_store.files import import_file
from tests.support.law_over import law_over
from tests.support.nightly import matrix

EXAMPLES = Path(__file__).parent / "examples"
OF_RUBRICS = {
    "dataknobs.json": "dataknobs",
    "dimensions.json": "dimensions",
    "tree.json": "tree",
    "potato.yaml": "potato",
    "potato_points.yaml": "potato",
    "trajectory.yaml": "potato",
    "autorubric.yaml": "autorubric",
}
OF_CASES = {
    "scale.json": "scale",
    "healthbench.jsonl": "healthbench",
    "prometheus.json": "prometheus",
    "checklist.jsonl": "checklist",
    "ifeval.jsonl": "ifeval",
}
OF_RUBRICS_READ = {"openai-graders.json": "openai-graders"}  # and not written
OF_RESULTS = {
    "openai-evals.jsonl": "openai-evals",
    "promptfoo.json": "promptfoo",
    "deepeval.json": "deepeval",
    "lm-eval.jsonl": "lm-eval",
    "pairs.json": "pairs",
    "inspect-scores.json": "inspect-scores",
    "tau-bench.json": "tau-bench",
    "terminal-bench.json": "terminal-bench",
}
OF_CASES_READ = {"multichallenge.jsonl": "multichallenge", "advancedif.jsonl": "advancedif"}
FORMATS = OF_RUBRICS | OF_RUBRICS_READ | OF_CASES | OF_CASES_READ | OF_RESULTS
IN_JSON = [name for name in FORMATS if not name.endswith(".yaml")]
MISSING = object()
STRANGE = (MISSING, None, 7, "x", [], {}, True, -1, "🦆" * 50)
STRANGER = (3, -1e300, "", [3], {"a": {"b": [None]}}, "\ud800")


def places_in(value: Any, place: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield place
    parts = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, part in parts:
        yield from places_in(part, (*place, key))


def with_value(whole: Any, place: tuple[Any, ...], value: Any) -> Any:
    if not place:
        return None if value is MISSING else value
    whole = copy.deepcopy(whole)
    inner = whole
    for key in place[:-1]:
        inner = inner[key]
    if value is MISSING:
        del inner[place[-1]]
    else:
        inner[place[-1]] = value
    return whole


def text_of(name: str) -> str:
    return (EXAMPLES / name).read_text(encoding="utf-8")


def read(name: str, text: str) -> Imported:
    return find_format(FORMATS[name]).read(text, f"strange{Path(name).suffix}")


def document(name: str) -> Any:
    if name.endswith(".yaml"):
        return yaml.safe_load(text_of(name))
    are_rows = name in OF_CASES or name in OF_RESULTS
    return [row.value for row in open_rows(text_of(name), name)] if are_rows else json.loads(text_of(name))


def dumped(name: str, value: Any) -> str:
    return yaml.safe_dump(value, allow_unicode=True) if name.endswith(".yaml") else json.dumps(value)


def is_valid(imported: Imported) -> bool:
    for row in imported.cases:
        said = {name: value for name, value in row.items() if name != "messages"}  # a run reads them
        OutputRow.model_validate({"model": "none yet", "output": "", **said})
        ids = [CaseCriterion.model_validate(criterion).id for criterion in row.get("criteria", [])]
        assert len(ids) == len(set(ids))
    ratings = [RatingRow.model_validate(rating) for rating in imported.ratings]
    return bool((imported.rubric and Rubric.model_validate(imported.rubric)) or ratings or imported.cases)


def outcome(name: str, text: str) -> str:
    try:
        return "valid" if is_valid(read(name, text)) else "empty"
    except RubricError as error:
        return "fault" if all(str(fault).startswith("strange") for fault in error.faults) else "fault elsewhere"


def fault_of(name: str, text: str) -> str:
    with pytest.raises(RubricError) as caught:
        read(name, text)
    return str(caught.value)


def test_the_formats_here_are_all_that_there_are():
    assert set(FORMATS.values()) == set(FORMAT_NAMES)


@law_over("name", FORMATS)
def test_a_format_is_named_as_it_is_asked_for(name: str):
    form = find_format(FORMATS[name])
    source = "cases" if name in OF_CASES | OF_CASES_READ else "results" if name in OF_RESULTS else "rubric"
    assert (form.name, form.source) == (FORMATS[name], source)
    assert (form.write is None) == (name in OF_RUBRICS_READ | OF_CASES_READ | OF_RESULTS)


@pytest.mark.parametrize("step", [11, *matrix([1])])  # prime to the number of strange values
@pytest.mark.parametrize("name", FORMATS)
def test_any_value_in_any_place_ends_in_what_is_valid_or_in_a_fault(name: str, step: int):
    whole = document(name)
    strange = STRANGE if name.endswith(".yaml") else STRANGE + STRANGER
    texts = [dumped(name, with_value(whole, place, value)) for place in places_in(whole) for value in strange]
    assert {outcome(name, text) for text in texts[::step]} == {"valid", "fault"}


@pytest.mark.parametrize("name", FORMATS)
def test_a_byte_that_is_no_text_is_refused_at_its_line(name: str, tmp_path: Path):
    file = tmp_path / name
    file.write_bytes(b"\n\xff" + text_of(name).encode())
    with pytest.raises(RubricError, match=f"{name}:2: found the byte 0xff, expected text in UTF-8"):
        import_file(FORMATS[name], file, tmp_path / "out")


@law_over("text", ["", "\n \n", "\ufeff"])
@law_over("name", FORMATS)
def test_an_empty_file_is_refused(name: str, text: str):
    assert "found an empty file" in fault_of(name, text)


@law_over("name", FORMATS)
@law_over("text", ["3", '"x"', "null", "[3]", "[[]]", "[null]"])
def test_another_value_at_the_top_is_refused(name: str, text: str):
    assert ": found " in fault_of(name, text) and "expected" in fault_of(name, text)


@law_over("name", IN_JSON)
@law_over(
    ("text", "words"),
    [
        ('[\n  {"key": 1},\n\n]', ":2: found a comma before ']', expected none after the last entry"),
        ('{"a": [1\n,\n]}', ":2: found a comma before ']', expected none after the last entry"),
        ('{"key": 1,}', ":1: found a comma before '}'"),
        ('{"key": 1, "key": 1}', "found the key 'key' twice in one object, expected each key once"),
        ("[" * 100_000, "found a nesting without measure, expected a finite one"),
        ('[{"deep": ' + "[" * 120 + "]" * 120 + "}]", "[0].deep[0][0]: found more than 100 levels of nesting"),
        ('[{"odd": "\\ud800"}]', "[0].odd: found half of a surrogate pair, expected whole characters"),
        ('[{"\\ud800": 1}]', "[0]: found half of a surrogate pair in a key, expected whole characters"),
        ('{"huge": 1e999}', "huge: found an infinite number, expected a finite one"),
        ('{"long": ' + "9" * 400 + "}", "found a whole number of 400 digits, expected at most 300"),
        ('{"odd": tru}', ":1: expected JSON: Expecting value"),
    ],
)
def test_what_json_can_not_say_or_nobody_can_hold_is_refused_in_words(name: str, text: str, words: str):
    assert words in fault_of(name, text)


@law_over("name", [name for name in IN_JSON if name in OF_RUBRICS | OF_RUBRICS_READ])
def test_a_rubric_with_a_number_that_json_does_not_have_is_refused(name: str):
    assert "found NaN, expected a number that JSON has" in fault_of(name, '{"odd": NaN}')


@law_over("name", [name for name in FORMATS if name.endswith(".yaml")])
@law_over(
    ("line", "words"),
    [
        ("{key: 1, key: 1}", "found the key 'key' again (first in line 1), expected each key once"),
        ("[" * 120 + "]" * 120, "found more than 50 levels of nesting, expected fewer"),
        ('"\\ud800"', "expected YAML"),
        ("1.0e+999", "found 1.0e+999, expected a plain decimal number"),
        (".nan", "found .nan, expected a plain decimal number"),
        ("9" * 400, f"found {'9' * 40}, expected a plain decimal number"),
    ],
)
def test_what_yaml_can_not_hold_is_refused_at_its_line(name: str, line: str, words: str):
    text = f"- requirement: {line}\n" if name == "autorubric.yaml" else f"odd: {line}\n{text_of(name)}"
    assert f"strange.yaml:1: {words}" in fault_of(name, text)


@law_over("name", IN_JSON)
def test_a_truth_of_json_is_not_told_as_one_of_yaml(name: str):
    key = {"tree": "requirements", "ifeval": "prompt", "scale": "task_id", "prometheus": "instruction"}
    key |= {
        "openai-graders": "testing_criteria",
        "openai-evals": "datasource_item",
        "promptfoo": "results",
        "deepeval": "testCases",
        "lm-eval": "doc_id",
        "pairs": "instruction",
        "inspect-scores": "samples",
        "tau-bench": "task_id",
        "terminal-bench": "results",
        "multichallenge": "TARGET_QUESTION",
        "advancedif": "conversation_history",
    }
    whole = document(name)
    rows = whole if isinstance(whole, list) else [whole]
    rows[0][key.get(FORMATS[name], "prompt" if name in OF_CASES else "id")] = True
    assert "found true, expected" in fault_of(name, json.dumps(whole))


@pytest.mark.parametrize("step", [4, *matrix([1])])
@pytest.mark.parametrize("name", OF_CASES)
def test_any_value_in_any_row_is_exported_or_refused(name: str, step: int):
    rows = list(read(name, text_of(name)).cases)
    refused = 0
    for place in [place for place in places_in(rows) if place][::step]:
        for value in (None, [3], MISSING):
            try:
                find_format(FORMATS[name]).write(with_value(rows, place, value))
            except RubricError:
                refused += 1
    assert refused > 0


@pytest.mark.parametrize("name", OF_CASES)
def test_an_example_of_cases_is_read_written_and_read_as_the_same(name: str):
    first = read(name, text_of(name))
    exported = find_format(FORMATS[name]).write(first.cases)  # type: ignore[arg-type]
    assert (exported.lost, read(name, exported.text)) == ((), first)


@law_over("name", OF_RUBRICS)
def test_an_example_of_a_rubric_is_read_written_and_read_as_the_same(name: str):
    first = read(name, text_of(name))
    exported = find_format(FORMATS[name]).write(Rubric.model_validate(first.rubric))  # type: ignore[arg-type]
    assert (exported.lost, read(name, exported.text)) == ((), first)


@pytest.mark.parametrize("name", OF_CASES)
def test_an_export_leaves_its_rows_as_they_are(name: str):
    rows = list(read(name, text_of(name)).cases)
    before = copy.deepcopy(rows)
    find_format(FORMATS[name]).write(rows)  # type: ignore[arg-type]
    assert rows == before


@pytest.mark.parametrize("name", OF_CASES)
def test_no_rows_and_wrong_rows_are_not_exported(name: str):
    for rows, words in (([], "found no rows"), ([{"case_id": "a", "colour": 1}], "the unknown key 'colour'")):
        with pytest.raises(RubricError, match=words):
            find_format(FORMATS[name]).write(rows)  # type: ignore[arg-type]


@law_over("name", [*OF_CASES, *OF_RESULTS])
def test_a_list_without_rows_is_refused(name: str):
    assert "found no rows, expected at least one" in fault_of(name, "[]")


def test_rows_too_deep_to_be_written_are_not_exported():
    deep: list[Any] = []
    for _ in range(2000):
        deep = [deep]
    with pytest.raises(RubricError, match="more than 100 levels of nesting"):
        find_format("scale").write([{"case_id": "a", "prompt": "Why?", "metadata": {"deep": deep}}])  # type: ignore[arg-type]


def test_a_comma_too_many_is_told_at_its_line_by_whichever_python():
    # 3.11 stops at the bracket in line 3, 3.13 at the comma in line 2
    text = "[\n  1,\n]"
    errors = (JSONDecodeError("Expecting value", text, 7), JSONDecodeError("Illegal trailing comma", text, 5))
    assert {json_fault(error) for error in errors} == {
        (5, "found a comma before ']', expected none after the last entry: remove it")
    }


def test_one_message_names_all_superfluous_commas_outside_of_texts():
    with pytest.raises(RubricError, match=r"3 commas before .* remove them \(lines 2, 4\)"):
        open_rows('[\n {"a": ",]", "b": "\\",]",},\n {"c": [1, 2\n ,],},\n {"d": 1}]', "p")


def test_a_summary_is_a_phrase_without_the_format_s_suffix():
    for name in FORMAT_NAMES:
        assert re.fullmatch(r"[a-z][^.]*[a-z0-9]", find_format(name).summary)
        assert not re.search(r"JSON|YAML|\)$", find_format(name).summary)


def test_a_lone_object_over_several_lines_is_one_row():
    assert [row.value for row in open_rows('{\n  "a": 1\n}\n', "p")] == [{"a": 1}]


@pytest.mark.parametrize("text", ['[{"a": NaN}]', '{"a": -Infinity}\n'])
def test_a_number_that_json_does_not_have_is_null_in_a_row(text: str):
    assert open_rows(text, "p")[0].value == {"a": None}


def test_json_lines_have_their_lines_and_lists_their_places():
    lines, listed = open_rows('{"a": 1}\n\n{"a": 2}', "p"), open_rows('[{"a": 1}, {"a": 2}]', "p")
    assert [row.line_of(()) for row in lines] == [1, 3] and [row.around for row in listed] == [(0,), (1,)]


@law_over(("file", "name"), FORMATS.items())
def test_a_format_is_told_by_the_content_of_its_file(file: str, name: str):
    assert guess_format((EXAMPLES / file).read_text("utf-8"), file).name == name


def test_a_file_of_several_formats_or_of_none_is_refused_with_the_choices():
    both = {"threads": [], "checklist": []}
    assert [each.name for each in candidates_of(both)] == ["scale", "checklist"]
    for content, words in ((both, r"scale \(threads\), checklist \(checklist\)"), ({"a": 1}, "found a, expected")):
        with pytest.raises(RubricError, match=words):
            guess_format(json.dumps(content), "x.json")


def test_a_fault_of_json_is_reported_before_the_format_is_found():
    row = '{"instruction_id_list": [], "key": 1,}\n'
    for text, path in (
        (row, "x.jsonl"),
        (f"[{row}]", "x.json"),
        ('{"results": {"results": [{"score": 1,}]}}', "x.json"),
    ):
        with pytest.raises(RubricError, match=rf"{path}:1: found a comma before"):
            guess_format(text, path)


def test_a_log_of_inspect_is_not_taken_for_results_of_promptfoo():
    log = {"version": 2, "eval": {"task": "sums"}, "results": {"total_samples": 1}, "samples": [{"id": 1}]}
    assert guess_format(json.dumps(log), "log.json").name == "inspect-scores"
