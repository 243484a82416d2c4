"""IFEval: an instruction that a program can verify is a criterion with a check."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.importers.case_rows import join_answers
from gradebook.rubrics.importers.foreign_file import read_json_lines
from gradebook.rubrics.importers.ifeval import read_ifeval, write_ifeval
from gradebook.rubrics.model.errors import RubricError
from tests.support.law_over import law_over

EXAMPLES = Path(__file__).parent / "examples"
FOLDERS = [path for path in Path(__file__).parents[5].glob("*/data/ifeval") if path.is_dir()]
PROMPTS, RESPONSES = "input_data.jsonl", "input_response_data_gpt4_20231107_145030.jsonl"


def row(**changes: Any) -> dict[str, Any]:
    ids = {"instruction_id_list": ["punctuation:no_comma"], "kwargs": [{}]}
    return {"key": 1, "prompt": "Greet me.", **ids} | changes


def read(*rows: Any) -> Any:
    return read_ifeval("".join(json.dumps(each) + "\n" for each in rows), "if.jsonl")


def example() -> Any:
    return read_ifeval((EXAMPLES / "ifeval.jsonl").read_text(encoding="utf-8"), "ifeval.jsonl")


def answers_in(path: Path) -> list[dict[str, Any]]:
    return [each | {"model": "m"} for _, each in read_json_lines(path.read_text(encoding="utf-8"), path.name)]


def test_an_instruction_is_a_check_with_its_kwargs_as_settings_and_no_nulls():
    assert example().cases[0]["criteria"][0] == {
        "id": "length_constraints:number_words",
        "description": "Length constraints: number words (num_words 40, relation at least)",
        "method": {
            "type": "check",
            "check": "length_constraints:number_words",
            "settings": {"num_words": 40, "relation": "at least"},
        },
    }


def test_an_instruction_that_comes_again_is_numbered():
    ids = [each["id"] for each in example().cases[0]["criteria"]]
    strict, loose = ids[:4], ids[4:]
    assert strict[2:] == ["keywords:frequency", "keywords:frequency.2"]
    assert loose == [f"loose.{name}" for name in strict]


def test_a_number_never_makes_an_id_that_is_taken():
    names = ["k:a.2", "k:a", "k:a", "k:a", "loose.k:a"]
    criteria = read(row(instruction_id_list=names, kwargs=[{}] * 5)).cases[0]["criteria"]
    ids = [each["id"] for each in criteria]
    assert ids[:7] == ["k:a.2", "k:a", "k:a.3", "k:a.4", "loose.k:a", "loose.k:a.2", "loose.k:a.3"]
    assert len({*ids}) == 10


def test_a_loose_twin_does_not_count_and_a_line_chooses_what_detects_languages():
    names = ["language:response_language", "punctuation:no_comma"]
    given = row(instruction_id_list=names, kwargs=[{"language": "de"}, {}], detector="langdetect")
    imported = read(given)
    strict, _, loose, _ = imported.cases[0]["criteria"]
    assert strict["method"]["settings"] == {"language": "de", "detector": "langdetect"} and "weight" not in strict
    assert (loose["weight"], loose["method"]) == (0, strict["method"] | {"mode": "loose"})
    exported = write_ifeval(imported.cases)
    assert (json.loads(exported.text), exported.lost) == (given, ())


def test_a_case_without_a_response_has_no_output():
    assert read(row()).cases[0].keys() == {"case_id", "prompt", "criteria"}


def test_a_response_in_the_row_is_its_output():
    (case,) = read(row(response="Hi", model="m")).cases
    assert (case["model"], case["output"]) == ("m", "Hi")


def test_what_has_no_place_is_kept_named_and_exported():
    imported = read(row(source="own"))
    assert (imported.kept, imported.cases[0]["metadata"]) == (("source",), {"ifeval": {"source": "own"}})
    assert json.loads(write_ifeval(imported.cases).text)["source"] == "own"


@pytest.mark.parametrize("key", [0, 1000, "01", "a-7", "9" * 5000])
def test_a_key_is_exported_as_it_was(key: Any):
    assert json.loads(write_ifeval(read(row(key=key)).cases).text)["key"] == key


def test_an_export_names_the_criteria_that_are_no_checks():
    (case,) = read(row()).cases
    judged = {"id": "kind", "description": "Is it kind?", "method": {"type": "judge"}}
    exported = write_ifeval([{**case, "criteria": [*case["criteria"], judged]}])
    assert exported.lost == ("criteria of the method judge",)


def test_an_export_writes_a_conversation_as_one_text_and_says_so():
    (case,) = read(row()).cases
    chat = [{"role": "user", "content": "Hi"}, {"role": "assistant", "content": "Yes?"}]
    exported = write_ifeval([{**case, "prompt": chat}])
    assert json.loads(exported.text)["prompt"] == "user: Hi\n\nassistant: Yes?" and exported.lost == ("prompt",)


def test_answers_of_a_second_file_are_joined_by_the_prompt():
    rows, unmatched = join_answers(example().cases, answers_in(EXAMPLES / "ifeval_responses.jsonl"))
    assert ([each["case_id"] for each in rows], unmatched) == (["11", "12"], ())
    assert rows[1]["output"] == '{"capital": "Santiago"}'


@law_over(
    ("wrong", "words"),
    [
        (row(key=None), "key: found nothing, expected text"),
        (row(key=[1]), "key: found a list, expected text"),
        (row(prompt=3), "prompt: found 3, expected text"),
        (row(prompt=""), "prompt: found blank text"),
        (row(instruction_id_list="punctuation:no_comma"), "instruction_id_list: found 'punctuation:no_comma'"),
        (row(instruction_id_list=[]), "instruction_id_list: found an empty list"),
        (row(instruction_id_list=[3]), "instruction_id_list[0]: found 3, expected text"),
        (row(instruction_id_list=["no comma"]), "instruction_id_list[0]: found 'no comma', expected text that fits"),
        (row(kwargs={}), "kwargs: found an empty mapping, expected a list"),
        (row(kwargs=[None]), "kwargs[0]: found nothing, expected a mapping"),
        (row(kwargs=[]), "kwargs: found 0 entries, expected 1: one per instruction"),
        ({"key": 1, "prompt": "Hi"}, "found no 'kwargs', expected one"),
        (row(response=3), "response: found 3, expected text"),
        (row(detector="x"), "detector: found 'x', expected"),
    ],
)
def test_a_wrong_part_is_named_at_its_line(wrong: Any, words: str):
    with pytest.raises(RubricError) as caught:
        read(row(key=7), wrong)
    assert f"if.jsonl:2: {words}" in str(caught.value)


def test_every_bad_row_is_told():
    with pytest.raises(RubricError) as caught:
        read(row(key=None), row(prompt=3), row(kwargs=[]), row(key=9), row(key=9))
    assert [fault.line for fault in caught.value.faults] == [1, 2, 3, 5]


@pytest.mark.skipif(not FOLDERS, reason="ifeval is not there")
def test_the_published_prompts_and_responses_are_joined_and_exported_whole():
    imported = read_ifeval((FOLDERS[0] / PROMPTS).read_text(encoding="utf-8"), PROMPTS)
    rows, unmatched = join_answers(imported.cases, answers_in(FOLDERS[0] / RESPONSES))
    assert (len(rows), unmatched, imported.kept) == (541, (), ())
    assert sum(len(each["criteria"]) for each in rows) == 2 * 834
    exported = write_ifeval(rows)
    assert (exported.lost, read_ifeval(exported.text, "again").cases) == ((), rows)
