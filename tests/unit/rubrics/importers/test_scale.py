"""Scale task exports: cases, responses and ratings out of threads, turns and messages, and back."""

import copy
import json
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.importers.scale import annotate, read_scale, with_choices, write_scale
from gradebook.rubrics.model.errors import RubricError
from tests.support.law_over import law_over

EXAMPLE = Path(__file__).parent / "examples" / "scale.json"
CRITERION = {"key": "rubric_0_criteria_0", "title": "Names a tree.", "value": "objective"}


def rating(value: Any = "no_issues", **changes: Any) -> dict[str, Any]:
    metadata = {"criteria": "rubric_0_criteria_0"}
    return {"id": "rubric_0_criteria_0_rating", "value": value, "metadata": metadata} | changes


def user(text: str = "Which tree?", **changes: Any) -> dict[str, Any]:
    return {"role": "user", "content": {"text": text}} | changes


def response(text: str = "An oak.", model: str = "m", *annotations: Any, **changes: Any) -> dict[str, Any]:
    content = {"text": text}
    return {"role": "assistant", "source_id": model, "content": content, "annotations": list(annotations)} | changes


def turn(*messages: dict[str, Any], annotations: Any = (CRITERION,), **changes: Any) -> dict[str, Any]:
    return {"messages": list(messages), "annotations": list(annotations)} | changes


def task(*turns: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {"task_id": "t", "threads": [{"id": "h", "turns": list(turns)}]} | changes


def read(*tasks: Any) -> Any:
    return read_scale(json.dumps(tasks[0] if len(tasks) == 1 else tasks), "tasks.json")


def fault_of(*tasks: Any) -> str:
    with pytest.raises(RubricError) as caught:
        read(*tasks)
    return str(caught.value)


def test_marks_of_a_run_replace_a_raters_own_and_what_has_no_place_is_named():
    rows = read(task(turn(user(), response("An oak.", "m", rating(), {"id": "aside"}), response("An elm.", "n")))).cases
    key = "rubric_0_criteria_0"
    marks = {(key, "scale"): None, (key, "run-1"): "minor_issues", (key, "ann"): "fair", ("other", "ann"): "no_issues"}
    annotated, lost = annotate(rows, {("t", "m", 0): marks})
    again = read_scale(write_scale(annotated).text, "again.json")
    assert [(row["rater"], row["level_id"]) for row in again.ratings] == [("run-1", "minor_issues")]
    assert lost.words()[0].endswith("no_issues (2)")
    assert rows[0]["metadata"]["scale"]["message"]["annotations"][0]["value"] == "no_issues"


def selected(model: str) -> dict[str, Any]:
    return {"key": "selected_model_id", "value": model}


def test_each_response_is_a_row_of_its_model_with_the_messages_before_it():
    rows = read(task(turn(user(), response(), response("An elm.", "n")))).cases
    chat = [{"role": "user", "content": "Which tree?"}]
    assert [(row["case_id"], row["model"], row["output"], row["prompt"]) for row in rows] == [
        ("t", "m", "An oak.", chat),
        ("t", "n", "An elm.", chat),
    ]


def test_a_criterion_of_a_contributor_is_rated_by_people_with_its_kind_as_category():
    (criterion,) = read(task(turn(user(), response()))).cases[0]["criteria"]
    levels = {level["id"]: level["score"] for level in criterion.pop("levels")}
    assert levels == {"major_issues": 0.0, "minor_issues": 0.5, "no_issues": 1.0}
    assert criterion == {
        "id": "rubric_0_criteria_0",
        "description": "Names a tree.",
        "category": "objective",
        "method": {"type": "ratings"},
    }


def test_a_rating_names_its_output_its_rater_and_when_the_task_was_done():
    whole = task(turn(user(), response("An oak.", "m", rating("minor_issues"))), completed_at="2025-03-04T16:40:00Z")
    assert read(whole).ratings == (
        {
            "case_id": "t",
            "model": "m",
            "criterion_id": "rubric_0_criteria_0",
            "rater": "scale",
            "level_id": "minor_issues",
            "rated_at": "2025-03-04T16:40:00Z",
        },
    )


@pytest.mark.parametrize(
    ("annotation", "whole", "rater"),
    [
        ({"annotator": "ana"}, {"rater": "ben"}, "ana"),
        ({"metadata": {"criteria": "rubric_0_criteria_0", "worker_id": "cai"}}, {}, "cai"),
        ({}, {"rater": "ben"}, "ben"),
        ({}, {}, "scale"),
    ],
)
def test_the_rater_is_named_by_the_annotation_or_else_by_the_task(annotation: Any, whole: Any, rater: str):
    imported = read(task(turn(user(), response("An oak.", "m", rating(**annotation))), **whole))
    assert imported.ratings[0]["rater"] == rater


def test_a_rating_may_name_its_criterion_in_its_id_alone():
    imported = read(task(turn(user(), response("An oak.", "m", rating(metadata=None)))))
    assert imported.ratings[0]["criterion_id"] == "rubric_0_criteria_0"


def test_a_second_response_of_a_model_is_another_sample_with_its_own_ratings():
    imported = read(task(turn(user(), response(), response("A fir.", "m", rating()))))
    assert [row.get("sample_index") for row in (*imported.cases, *imported.ratings)] == [None, 1, 1]


def test_a_later_turn_follows_the_selected_response():
    first = turn(user("A?"), response("a1", "m"), response("a2", "n"), annotations=[CRITERION, selected("n")])
    rows = read(task(first, turn(user("B?"), response("b1", "m")))).cases
    assert [message["content"] for message in rows[-1]["prompt"]] == ["A?", "a2", "B?"]


def test_a_later_turn_follows_the_same_model_where_none_was_selected():
    first = turn(user("A?"), response("a1", "m"), response("a2", "n"))
    rows = read(task(first, turn(user("B?"), response("b1", "m"), response("b2", "n")))).cases
    assert [row["prompt"][1]["content"] for row in rows[2:]] == ["a1", "a2"]


def test_a_prompt_that_had_to_choose_a_response_is_named():
    first = turn(user("A?"), response("a1", "m"), response("a2", "n"))
    imported = read(task(first, turn(user("B?"), response("b1", "o"))))
    assert imported.cases[2]["prompt"][1]["content"] == "a2"
    assert "prompts after a turn without a selected response (its last one stands in them)" in imported.kept


def test_turns_and_threads_beside_each_other_are_cases_of_their_own():
    pair = [{"id": name, "turns": [turn(user(), response(), id="u0")]} for name in ("h0", "h1")]
    imported = read(task(threads=pair), task(turn(user(), response()), turn(user(), response()), task_id="s"))
    assert [row["case_id"] for row in imported.cases] == ["t/h0", "t/h1", "s/turn_0", "s/turn_1"]


def test_a_turn_without_a_response_is_a_case_without_an_output():
    (row,) = read(task(turn(user()))).cases
    assert row.keys() == {"case_id", "prompt", "criteria", "metadata"}


def test_the_choice_between_responses_is_kept_and_named():
    imported = read_scale(EXAMPLE.read_text(encoding="utf-8"), "scale.json")
    kept = imported.cases[0]["metadata"]["scale"]
    assert (kept["selected_model_id"], kept["likert_value"]) == ("model_a", 2)
    assert kept["justification"] == "The first one helps; the second does not answer."
    assert "turns[].annotations[].justification" in imported.kept and "project (2)" in imported.kept


def test_a_new_choice_takes_the_place_of_the_one_that_came_in():
    given = [CRITERION, selected("m"), {"key": "likert_value", "value": 2}, {"key": "tone", "value": "warm"}]
    rows = read(task(turn(user(), response(), response("An elm.", "n"), annotations=given))).cases
    again = read_scale(
        write_scale(with_choices(rows, {"t": {"model": "n", "notes": "It is true."}})).text, "again.json"
    )
    assert again.choices[0]["model"] == "n" and again.choices[0]["notes"] == "It is true."
    assert "likert_value" not in again.choices[0] and "turns[].annotations[].tone" in again.kept
    assert read_scale(write_scale(with_choices(rows, {"t": None})).text, "again.json").choices == ()
    (choice,) = read(task(turn(user(), response(), response("An elm.", "n"), selected_model_id="m"))).choices
    assert (choice["model"], [other["model"] for other in choice["others"]], choice["rater"]) == ("m", ["n"], "scale")
    assert not read(task(turn(user(), response(), response("An elm.", "n"), selected_model_id="none"))).choices


def test_a_choice_may_stand_on_the_turn_itself():
    (row,) = read(task(turn(user(), response(), likert_value=5))).cases
    assert row["metadata"]["scale"]["likert_value"] == 5


def test_the_example_has_three_outputs_an_open_case_and_five_ratings():
    imported = read_scale(EXAMPLE.read_text(encoding="utf-8"), "scale.json")
    assert ["output" in row for row in imported.cases] == [True, True, True, False]
    assert [each["level_id"].partition("_")[0] for each in imported.ratings] == ["no", "minor", "major", "no", "no"]


def test_an_export_gives_the_tasks_back_as_they_were():
    text = EXAMPLE.read_text(encoding="utf-8")
    written = json.loads(write_scale(read_scale(text, "scale.json").cases).text)
    assert written == json.loads(text)


def test_a_criterion_reworded_in_gradebook_is_exported_in_its_new_words():
    rows = copy.deepcopy(read(task(turn(user(), response()))).cases)
    rows[0]["criteria"][0]["description"] = "Names a broad-leaved tree."
    exported = write_scale(rows)
    assert '"title": "Names a broad-leaved tree."' in exported.text and exported.lost == ()


def test_rows_of_another_origin_become_tasks_and_what_is_lost_is_named():
    criterion = {"id": "kind", "description": "Is it kind?", "method": {"type": "judge"}, "weight": 3}
    exported = write_scale(
        [{"case_id": "a", "model": "m", "output": "Hi", "prompt": "Greet.", "criteria": [criterion]}]
    )
    assert set(exported.lost) == {"criteria[].id", "criteria[].method", "criteria[].weight"}
    assert read_scale(exported.text, "x").cases[0]["criteria"][0]["description"] == "Is it kind?"


T = "threads[0].turns[0]"


@law_over(
    ("whole", "words"),
    [
        (3, "found 3, expected a mapping"),
        ({"threads": []}, "found no 'task_id', expected one"),
        (task(task_id=[1]), "task_id: found a list, expected text"),
        (task(threads="h"), "threads: found 'h', expected a list"),
        (task(), "threads[0].turns: found an empty list, expected at least 1 entry"),
        (task(3), "threads[0].turns[0]: found 3"),
        (task(turn()), f"{T}.messages: found an empty list"),
        (task(turn({"role": "user"})), f"{T}.messages[0]: found no 'content'"),
        (task(turn(user(content={"text": 3}))), f"{T}.messages[0].content.text: found 3, expected text"),
        (task(turn(user(role="tool"))), f"{T}.messages[0].role: found 'tool', expected one of"),
        (task(turn(user(), response(), user())), f"{T}.messages: found a question after a response"),
        (task(turn(user(), response("x", "m", 3))), f"{T}.messages[1].annotations[0]: found 3"),
        (
            task(turn(user(), response("x", "m", rating("fine")))),
            "annotations[0].value: found 'fine', expected",
        ),
        (task(turn(user(), response("x", "m", rating(None)))), "annotations[0].value: found nothing, expected one of"),
        (
            task(turn(user(), response("x", "m", rating(metadata={"criteria": "rubric_0_criteria_7"})))),
            f"{T}.messages[1].annotations[0].metadata.criteria: found 'rubric_0_criteria_7'",
        ),
        (task(turn(user(), annotations=[CRITERION | {"title": " "}])), f"{T}.annotations[0].title: found no words"),
        (task(turn(user(), annotations=[CRITERION | {"value": "firm"}])), f"{T}.annotations[0].value: found 'firm'"),
        (task(turn(user(), annotations=[CRITERION, CRITERION])), f"{T}.annotations: found the keys"),
        (task(turn(user()), completed_at="soon"), "completed_at: found 'soon', expected a date and time"),
    ],
)
def test_a_wrong_part_is_named_at_its_place(whole: Any, words: str):
    assert words in fault_of(whole)


def test_two_tasks_of_one_id_are_refused():
    assert "[1].threads[0].turns[0]: found the case 't' again" in fault_of(task(turn(user())), task(turn(user())))


def test_every_fault_is_told_at_once():
    wrong = task(turn(user(content=3), annotations=[CRITERION | {"title": "", "value": "firm"}]), completed_at="soon")
    message = fault_of(wrong, task(turn(user(role=1))))
    assert [words in message for words in ("content", "no words", "firm", "soon", "[1].threads[0]")] == [True] * 5
