"""Prometheus: one criterion a case, described for each score from 1 to 5."""

import json
from collections import defaultdict
from pathlib import Path
from statistics import mean
from typing import Any

import pytest

from gradebook.rubrics.importers.prometheus import read_prometheus, write_prometheus
from gradebook.rubrics.model.errors import RubricError
from tests.support.law_over import law_over

EXAMPLE = Path(__file__).parent / "examples" / "prometheus.json"
VICUNA = [
    path for path in Path(__file__).parents[5].glob("*/data/prometheus_vicuna/vicuna_eval.json") if path.is_file()
]
RUBRIC = {"criteria": "Is it kind?", **{f"score{score}_description": f"Kindness {score}." for score in range(1, 6)}}
RUBRIC_TEXT = "[Is it kind?]\n" + "\n".join(f"Score {score}: Kindness {score}." for score in range(1, 6))
JUDGE_PROMPT = (
    "###Task Description:\nScore what follows.\n\n###The instruction to evaluate:\nSay hello.\n\n"
    "###Response to evaluate:\nHello, you.\n\n###Reference Answer (Score 5):\nHello, dear Ana.\n\n"
    f"###Score Rubrics:\n{RUBRIC_TEXT}\n\n###Feedback: "
)


def row(**changes: Any) -> dict[str, Any]:
    return {"instruction": "Say hello.", "response": "Hello.", "score_rubric": RUBRIC} | changes


def read(*rows: Any) -> Any:
    return read_prometheus(json.dumps(rows), "p.json")


def fault_of(*rows: Any) -> str:
    with pytest.raises(RubricError) as caught:
        read(*rows)
    return str(caught.value)


def test_the_criterion_is_a_scale_from_1_to_5():
    (criterion,) = read(row()).cases[0]["criteria"]
    assert criterion == {
        "id": "score",
        "description": "Is it kind?",
        "method": {"type": "judge"},
        "scale": {"min": 1, "max": 5, "points": {str(score): f"Kindness {score}." for score in range(1, 6)}},
    }


@pytest.mark.parametrize("text", [RUBRIC_TEXT, RUBRIC_TEXT.replace("[", "").replace("]", "")])
def test_a_rubric_written_as_text_is_the_same(text: str):
    assert read(row(score_rubric=text)).cases == read(row()).cases


def test_a_description_in_a_text_may_have_several_lines():
    (criterion,) = read(row(score_rubric=RUBRIC_TEXT.replace("Kindness 2.", "Cold.\nShort."))).cases[0]["criteria"]
    assert criterion["scale"]["points"]["2"] == "Cold.\nShort."


def test_a_whole_judge_prompt_is_taken_apart():
    imported = read({"instruction": JUDGE_PROMPT, "response_source": "m"})
    (case,) = imported.cases
    assert (case["prompt"], case["output"], case["reference"]) == ("Say hello.", "Hello, you.", "Hello, dear Ana.")
    assert case["criteria"] == read(row()).cases[0]["criteria"] and case["model"] == "m"
    assert imported.kept == ("task_description",)


def test_an_instruction_that_only_speaks_of_headings_stays_whole():
    text = "Explain the heading\n###The instruction to evaluate:\nin a prompt."
    assert read(row(instruction=text)).cases[0]["prompt"] == text


def test_the_model_is_the_one_that_the_file_names_or_unknown():
    rows = [row(response_source="a"), row(model="b"), row(response="Hi.")]
    assert [case["model"] for case in read(*rows).cases] == ["a", "b", "unknown"]


def test_equal_cases_without_ids_are_one_case_of_several_models():
    rows = [
        row(model="a"),
        row(model="b"),
        row(model="a", instruction="Say bye."),
        row(model="b", score_rubric=RUBRIC_TEXT),
    ]
    cases = read(*rows).cases
    assert [(case["case_id"], case.get("sample_index")) for case in cases] == [
        ("case_1", None),
        ("case_1", None),
        ("case_2", None),
        ("case_1", 1),
    ]


def test_an_index_names_the_same_case_in_files_of_other_orders():
    rows = [row(idx=3), row(idx=7, instruction="Say bye.")]
    assert [[case["case_id"] for case in read(*part).cases] for part in (rows, rows[::-1])] == [["3", "7"], ["7", "3"]]


def test_a_second_turn_shows_each_model_its_own_first_answer():
    turns = [row(idx=88, instruction=f"Tell a story. {first} Shorten it.", response_source=first) for first in "ab"]
    assert [(case["case_id"], case["model"]) for case in read(*turns).cases] == [("88", "a"), ("88", "b")]


def test_a_rating_names_its_sample_where_a_model_answered_twice():
    rows = [row(idx=1, response=answer, gpt4_score=[3]) for answer in ("Hi.", "Ho.")]
    assert [rating["sample_index"] for rating in read(*rows).ratings] == [0, 1]


def test_a_row_without_a_response_is_a_case_without_an_output():
    (case,) = read({"instruction": "Say hello.", "score_rubric": RUBRIC}).cases
    assert case.keys() == {"case_id", "prompt", "criteria"}


def test_scores_of_a_judge_are_ratings_with_its_feedback_as_notes():
    imported = read(row(model="m", gpt4_score=[4, 5], gpt4_feedback=["Short.", ""]))
    assert [(each["rater"], each["level_id"], each.get("notes")) for each in imported.ratings] == [
        ("gpt4_1", "4", "Short."),
        ("gpt4_2", "5", None),
    ]


def test_scores_without_a_response_are_kept_and_named():
    imported = read(row(response=None, gpt4_score=3))
    assert (imported.ratings, imported.kept) == ((), ("gpt4_score",))


def test_an_export_of_the_example_is_read_as_the_same_and_a_text_becomes_fields():
    first = read_prometheus(EXAMPLE.read_text(encoding="utf-8"), "p")
    exported = write_prometheus(first.cases)
    assert json.loads(exported.text)[1]["score_rubric"]["score1_description"] == "It is wrong or full of terms."
    assert (read_prometheus(exported.text, "p"), exported.lost) == (first, ())


def test_an_export_takes_the_criterion_of_five_levels_and_names_the_others():
    (case,) = read(row()).cases
    other = {"id": "short", "description": "Is it short?", "method": {"type": "judge"}}
    exported = write_prometheus([{**case, "criteria": [other, *case["criteria"]], "checkpoint": "7"}])
    assert set(exported.lost) == {"checkpoint", "criteria of the method judge"}


def test_an_export_without_such_a_criterion_is_refused():
    other = {"id": "short", "description": "Is it short?", "method": {"type": "judge"}}
    with pytest.raises(RubricError, match=r"\[0\].score_rubric: found no 'criteria', expected one"):
        write_prometheus([{"case_id": "a", "prompt": "Hm?", "criteria": [other]}])


@law_over(
    ("wrong", "words"),
    [
        ("x", "[0]: found 'x', expected a mapping"),
        (row(instruction=None), "[0].instruction: found nothing, expected text"),
        (row(instruction=" "), "[0].instruction: found blank text, expected words"),
        (row(response=3), "[0].response: found 3, expected text"),
        (row(reference_answer={}), "[0].reference_answer: found an empty mapping, expected text"),
        (row(score_rubric=3), "[0].score_rubric: found 3, expected a mapping"),
        (row(score_rubric=RUBRIC | {"criteria": ""}), "[0].score_rubric.criteria: found blank text"),
        (row(score_rubric=RUBRIC | {"score3_description": None}), "[0].score_rubric.score3_description: found nothing"),
        (row(score_rubric="Is it kind?"), "[0].score_rubric: found no 'Score 1:', expected a line for each score"),
        (row(score_rubric=RUBRIC_TEXT[:-20]), "[0].score_rubric: found 'Score 1:', 'Score 2:'"),
        ({"instruction": "Hm?"}, "[0]: found no 'score_rubric', expected one"),
        (row(gpt4_score=[6]), "[0].gpt4_score[0]: found 6, expected a number of at most 5"),
        (row(gpt4_score=["5"]), "[0].gpt4_score[0]: found '5', expected a whole number"),
        (row(gpt4_score=[5], gpt4_feedback=["a", "b"]), "[0].gpt4_feedback: found 2 entries"),
        (row(model=[]), "[0].model: found an empty list, expected text"),
        ({"instruction": JUDGE_PROMPT.replace("###Score Rubrics:", "Scores:")}, "found no '###Score Rubrics'"),
        ({"instruction": JUDGE_PROMPT + "\n###Response to evaluate:\nx"}, "found '###Response to evaluate' 2 times"),
        ({"instruction": JUDGE_PROMPT, "response": "x"}, "found 'response' beside a judge prompt"),
    ],
)
def test_a_wrong_part_is_named_at_its_place(wrong: Any, words: str):
    assert words in fault_of(wrong)


@pytest.mark.skipif(not VICUNA, reason="prometheus_vicuna is not there")
def test_the_vicuna_prompts_give_the_means_of_their_source():
    imported = read_prometheus(VICUNA[0].read_text(encoding="utf-8"), "vicuna_eval.json")
    scores = defaultdict(list)
    for each in imported.ratings:
        scores[each["model"]].append(int(each["level_id"]))
    assert (len(imported.cases), len({case["case_id"] for case in imported.cases})) == (320, 80)
    # 80 questions by 3 scores a model
    assert {model: (len(found), round(mean(found), 6)) for model, found in scores.items()} == {
        "vicuna": (240, 3.85),
        "chat_gpt": (240, 4.283333),
        "wizard": (240, 4.129167),
        "llama-2-chat": (240, 4.320833),
    }


@pytest.mark.skipif(not VICUNA, reason="prometheus_vicuna is not there")
def test_the_vicuna_prompts_are_exported_without_loss():
    imported = read_prometheus(VICUNA[0].read_text(encoding="utf-8"), "vicuna_eval.json")
    exported = write_prometheus(imported.cases)
    assert (exported.lost, read_prometheus(exported.text, "again")) == ((), imported)
