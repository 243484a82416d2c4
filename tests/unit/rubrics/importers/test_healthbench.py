"""HealthBench: conversations whose criteria give and take points."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.importers.healthbench import read_healthbench, write_healthbench
from gradebook.rubrics.model.errors import RubricError
from tests.support.law_over import law_over

EXAMPLE = Path(__file__).parent / "examples" / "healthbench.jsonl"
PROMPT = [{"role": "user", "content": "My knee hurts."}]


def entry(**changes: Any) -> dict[str, Any]:
    return {"criterion": "Asks since when.", "points": 5, "tags": ["axis:completeness"]} | changes


def row(*rubrics: Any, **changes: Any) -> dict[str, Any]:
    return {"prompt": PROMPT, "prompt_id": "p", "rubrics": list(rubrics) or [entry()], "example_tags": []} | changes


def read(*rows: Any) -> Any:
    return read_healthbench("".join(json.dumps(each) + "\n" for each in rows), "hb.jsonl")


def example() -> Any:
    return read_healthbench(EXAMPLE.read_text(encoding="utf-8"), "healthbench.jsonl")


def test_points_are_weights_and_those_below_zero_are_penalties():
    assert [each["weight"] for each in example().cases[0]["criteria"]] == [8, 6, -7]


def test_the_keys_of_healthbench_professional_give_the_same_rows():
    names = {"prompt": "conversation", "rubrics": "rubric_items", "prompt_id": "id"}
    professional = {names.get(key, key): value for key, value in row().items()}
    assert read(professional).cases == read(row()).cases


def test_criteria_are_numbered_and_judged_as_met_or_not():
    criteria = example().cases[0]["criteria"]
    assert [each["id"] for each in criteria] == ["c1", "c2", "c3"]
    assert {each["method"]["type"] for each in criteria} == {"judge"}
    assert {level["id"]: level["score"] for level in criteria[0]["levels"]} == {"not_met": 0.0, "met": 1.0}


def test_the_first_axis_among_the_tags_is_the_category():
    criteria = read(row(entry(tags=["level:x", "axis:tone", "axis:other"]), entry(tags=["level:x"]))).cases[0][
        "criteria"
    ]
    assert [each.get("category") for each in criteria] == ["tone", None]


def test_an_axis_too_long_for_a_category_stays_a_tag():
    (criterion,) = read(row(entry(tags=["axis:" + "x" * 65]))).cases[0]["criteria"]
    assert "category" not in criterion and criterion["metadata"]["healthbench"]["tags"] == ["axis:" + "x" * 65]


def test_a_conversation_stays_chat_messages():
    assert [message["role"] for message in example().cases[1]["prompt"]] == ["user", "assistant", "user"]


def test_an_answer_in_the_row_is_its_output_and_without_one_there_is_none():
    first, second = example().cases
    assert not {"model", "output"} & first.keys()
    assert (second["model"], second["output"]) == ("small-model", "Keep pressing and go to urgent care today.")


def test_tags_are_kept_and_counted():
    imported = example()
    assert imported.kept == ("example_tags (2)", "rubrics[].tags (5)")
    assert imported.cases[1]["metadata"] == {"healthbench": {"example_tags": ["theme:emergency_referrals"]}}


def test_what_the_format_does_not_know_comes_back_in_the_export():
    imported = read(row(entry(note="n"), canary="bird", model="unused"))
    assert imported.kept == ("model", "canary", "rubrics[].tags", "rubrics[].note")
    exported = write_healthbench(imported.cases)
    assert (json.loads(exported.text)["canary"], json.loads(exported.text)["rubrics"][0]["note"]) == ("bird", "n")


def test_an_export_is_the_file_that_was_read():
    text = EXAMPLE.read_text(encoding="utf-8")
    written = write_healthbench(example().cases).text
    assert [json.loads(line) for line in written.splitlines()] == [json.loads(line) for line in text.splitlines()]


def test_an_export_names_what_points_can_not_say():
    gate = {"id": "safe", "description": "Is it safe?", "method": {"type": "ratings"}, "gate": True}
    exported = write_healthbench([{"case_id": "a", "prompt": "Hm?", "reference": "Yes.", "criteria": [gate]}])
    assert set(exported.lost) == {"reference", "criteria[].id", "criteria[].method", "criteria[].gate"}


def test_an_export_of_more_points_than_the_format_has_is_refused():
    heavy = {"id": "c1", "description": "Is it safe?", "method": {"type": "judge"}, "weight": 11}
    with pytest.raises(RubricError, match="points: found 11, expected a number of at most 10"):
        write_healthbench([{"case_id": "a", "prompt": "Hm?", "criteria": [heavy]}])


@law_over(
    ("wrong", "words"),
    [
        (row(prompt=3), "hb.jsonl:1: prompt: found 3, expected text or a list of chat messages"),
        (row(prompt=[]), "prompt: found an empty list"),
        (row(prompt=[{"content": "x"}]), "prompt: found a mapping as message 0, expected a mapping with a role"),
        (row(prompt=[{"role": "user"}]), "prompt: found nothing as the content of message 0"),
        (row(prompt_id=True), "prompt_id: found true"),
        (row(rubrics={}), "rubrics: found an empty mapping, expected a list"),
        ({"prompt": PROMPT, "rubrics": []}, "rubrics: found an empty list, expected at least 1 entry"),
        ({"prompt": PROMPT}, "found no 'rubrics', expected one"),
        (row(3), "rubrics[0]: found 3, expected a mapping"),
        (row(entry(), entry(criterion="")), "rubrics[1].criterion: found blank text"),
        (row(entry(points="5")), "rubrics[0].points: found '5', expected a number"),
        (row(entry(points=-10.5)), "rubrics[0].points: found -10.5, expected a number of at least -10"),
        (row(entry(tags="axis:tone")), "rubrics[0].tags: found 'axis:tone', expected a list"),
        (row(entry(tags=[3])), "rubrics[0].tags[0]: found 3, expected text"),
        (row(example_tags=[None]), "example_tags[0]: found nothing, expected text"),
        (row(response=["x"]), "response: found a list, expected text"),
    ],
)
def test_a_wrong_part_is_named_at_its_line(wrong: Any, words: str):
    with pytest.raises(RubricError) as caught:
        read(wrong, row(entry(), prompt_id="other"))
    assert words in str(caught.value) and str(caught.value).startswith("hb.jsonl:1: ")


def test_a_case_that_comes_twice_is_refused():
    with pytest.raises(RubricError, match="hb.jsonl:2: found the case 'p' again, expected each case once"):
        read(row(), row())


def test_a_case_that_comes_with_other_criteria_is_refused():
    with pytest.raises(RubricError, match="hb.jsonl:2: found the case 'p' again, its criteria not the same"):
        read(row(), row(entry(points=1), response="x"))
