"""Results and cases of public benchmarks of agents and of conversations."""

import json
from pathlib import Path
from typing import Any

import pytest

from gradebook.rubrics.importers.case_rows import join_answers
from gradebook.rubrics.importers.prometheus import write_prometheus
from gradebook.rubrics.importers.registry import Imported, find_format
from gradebook.rubrics.model.errors import RubricError

EXAMPLES = Path(__file__).parent / "examples"


def read(name: str, content: Any) -> Imported:
    return find_format(name).read(json.dumps(content), f"{name}.json")


def example(name: str, suffix: str = "json") -> Imported:
    return find_format(name).read((EXAMPLES / f"{name}.{suffix}").read_text("utf-8"), f"{name}.{suffix}")


def test_rewards_of_tau_bench_are_ratings_of_its_conversations():
    found = example("tau-bench")
    spoken, broken = found.cases
    assert (spoken["case_id"], spoken["sample_index"], spoken["messages"][-1]["content"]) == ("3", 1, "###STOP###")
    assert (broken["output"], broken["steps"][0]["error"]) == ("", "the connection broke")
    assert [(each["case_id"], each["sample_index"], each["score"]) for each in found.ratings] == [
        ("3", 1, 1),
        ("4", 0, 0),
    ]


def test_simulations_of_tau2_bench_are_read_as_those_of_tau_bench():
    call = {"id": "c1", "name": "stock", "arguments": {}, "requestor": "assistant"}
    said = [
        {"role": "user", "content": "Shoes?", "turn_idx": 0},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"id": "c1", "role": "tool", "content": "no stock", "error": True},
        {"role": "assistant", "content": "Sold out."},
    ]
    run = {"id": "s1", "task_id": "0", "trial": 2, "messages": said, "reward_info": {"reward": 0.5}}
    info = {"agent_info": {"llm": "small"}, "environment_info": {"domain_name": "retail"}}
    found = read("tau-bench", {"info": info, "simulations": [run], "tasks": []})
    (row,), (rating,) = found.cases, found.ratings
    assert (row["case_id"], row["model"], row["sample_index"], rating["score"]) == ("retail/0", "small", 2, 0.5)
    assert row["messages"][1]["tool_calls"] == [{"id": "c1", "function": {"name": "stock", "arguments": {}}}]
    assert row["messages"][2] == {"content": "no stock", "role": "tool", "tool_call_id": "c1", "is_error": True}


def test_two_runs_of_one_task_and_trial_are_refused_unless_they_are_equal():
    runs = [
        {"task_id": 0, "trial": 0, "reward": 1.0, "traj": [{"role": "assistant", "content": text}]}
        for text in ("Sold out.", "Sold out.", "Sent.")
    ]
    assert len(read("tau-bench", runs[:2]).ratings) == 2
    with pytest.raises(RubricError, match="found two outputs of unknown as sample 0 of the case '0', expected one"):
        read("tau-bench", runs)


def test_trials_of_terminal_bench_have_no_text_and_two_ratings():
    found = example("terminal-bench")
    (row,) = found.cases
    assert (row["prompt"], row["output"]) == ("Mend the pan.", "")
    step = {"kind": "model", "name": "agent", "latency_ms": 2000.0, "tokens": 100, "error": "agent_timeout"}
    assert row["steps"] == [step]
    marks = {each["criterion_id"]: (each["score"], each["notes"]) for each in found.ratings}
    assert marks == {"resolved": (0.0, "failed: test_grip"), "tests": (0.5, "failed: test_grip")}


def test_the_best_level_of_multichallenge_is_the_answer_that_passes():
    (case,) = example("multichallenge", "jsonl").cases
    (criterion,) = case["criteria"]
    assert [(level["id"], level["score"]) for level in criterion["levels"]] == [("yes", 0.0), ("no", 1.0)]
    assert (case["case_id"], criterion["category"]) == ("q1", "INSTRUCTION_RETENTION")
    cell = {"CONVERSATION": json.dumps(case["prompt"]), "TARGET_QUESTION": "Short?", "PASS_CRITERIA": "yes"}
    assert read("multichallenge", [{"QUESTION_ID": "q1", **cell}]).cases[0]["prompt"] == case["prompt"]
    (joined,), unmatched = join_answers([case], [{"QUESTION_ID": "q1", "RESPONSE": "elbe.", "model": "m"}])
    assert (joined["output"], joined["model"], unmatched) == ("elbe.", "m", ())


def test_texts_of_advancedif_are_read_as_the_json_that_they_are():
    (case,) = example("advancedif", "jsonl").cases
    assert (case["prompt"], case["output"]) == ([{"role": "user", "content": "Name a river in one word."}], "Elbe")
    assert [each["description"] for each in case["criteria"]] == ["Is it a river?", "Is it one word?"]


ARENA = (
    "<|User Prompt|>\nName a sea.\n\n"
    "<|The Start of Assistant A's Answer|>\nLake Como\n<|The End of Assistant A's Answer|>\n\n"
    "<|The Start of Assistant B's Answer|>\nNorth Sea\n<|The End of Assistant B's Answer|>"
)


@pytest.mark.parametrize(
    ("games", "score"),
    [
        ([{"score": "B>>A"}, {"score": "A>B"}], 1.0),
        ([{"score": "B>A"}, {"score": "B>A"}], 0.5),
        ([{"score": "A=B"}, None], 0.5),
        ([{"score": "A>B"}, {"score": None}], 0.0),
        ([{"score": None}], None),
    ],
)
def test_both_games_of_arena_hard_are_one_rating_of_the_model(games: list[Any], score: float | None):
    row = {"uid": "q1", "model": "small", "judge": "gpt-4.1", "baseline": "o3-mini", "games": games}
    row["games"][0]["prompt"] = [{"role": "system", "content": "You are a judge."}, {"role": "user", "content": ARENA}]
    found = read("pairs", row)
    assert {each["model"]: each["output"] for each in found.cases} == {"o3-mini": "Lake Como", "small": "North Sea"}
    ratings = [(each["model"], each["rater"], each["score"]) for each in found.ratings]
    assert ratings == ([] if score is None else [("small", "gpt-4.1", score)])


def test_a_game_without_the_outputs_is_refused():
    with pytest.raises(RubricError, match="found none of the outputs' texts"):
        read("pairs", {"uid": "q1", "model": "small", "games": [{"score": "A>B"}]})


def test_a_row_of_biggen_has_the_systems_prompt_and_a_rating_of_each_judge():
    rubric = {"criteria": "Is it sound?"} | {f"score{score}_description": f"{score} of 5" for score in range(1, 6)}
    row = {
        "id": "planning_1",
        "system_prompt": "You plan.",
        "input": "Plan a day.",
        "reference_answer": "Sleep.",
        "score_rubric": rubric,
        "model_name": "small",
        "response": "Eat.",
        "human_score": 4.0,
        "claude_score": 3.5,
        "max_score": 5,
        "gpt4_score": 2.0,
    }
    found = read("prometheus", [row])
    (case,) = found.cases
    assert [message["content"] for message in case["prompt"]] == ["You plan.", "Plan a day."]
    assert {each["rater"]: each["level_id"] for each in found.ratings} == {"gpt4_1": "2", "human": "4"}
    again = find_format("prometheus").read(write_prometheus(found.cases).text, "again.json")
    assert again.cases[0]["prompt"] == case["prompt"]
