"""The forms that trainers call, held to their documented signatures."""

import asyncio
import inspect
from types import SimpleNamespace

import pytest

from gradebook.rewards import openrlhf, slime, verifiers, verl
from gradebook.rubrics.model.errors import OutputsError, Unscored
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.rewards.scorer import RubricScorer

RIGHT = {"id": "right", "description": "Right.", "method": {"type": "check", "check": "exact_match"}}
SHORT = {"id": "short", "description": "Short.", "method": {"type": "check", "check": "length_words"}}
SHORT["method"] = {"type": "check", "check": "length_words", "settings": {"max": 3}}


@pytest.fixture
def scorer() -> RubricScorer:
    return RubricScorer(Rubric.model_validate({"id": "answer", "version": "1.0.0", "criteria": [RIGHT, SHORT]}))


def test_verl_calls_one_sample_by_name(scorer):
    compute_score = verl(scorer)
    called = {"data_source": "gsm8k", "solution_str": "5", "ground_truth": "4", "extra_info": {"index": 3}}
    assert compute_score(**called) == {"score": 0.5, "right": 0.0, "short": 1.0}
    assert compute_score("gsm8k", "4", 4, None, sandbox_url="x")["score"] == 1.0
    assert list(inspect.signature(compute_score).parameters)[:4] == list(called)


def test_metadata_of_verl_gets_the_source_and_is_refused_where_it_is_no_object(scorer):
    compute_score = verl(scorer)
    assert compute_score("gsm8k", "4", "4", {"metadata": {"split": "train"}})["score"] == 1.0
    for ground_truth in ("4", ["4"]):
        with pytest.raises(OutputsError, match='metadata: found the text "train", expected an object'):
            compute_score("gsm8k", "4", ground_truth, {"metadata": "train"})


def test_openrlhf_calls_a_batch_of_queries(scorer):
    reward_func = openrlhf(scorer)
    found = reward_func(["2+2?4", "2+2?5"], ["2+2?"] * 2, ["4", "4"])
    logs = {"right": [1.0, 0.0], "short": [1.0, 1.0]}
    assert found == {"rewards": [1.0, 0.5], "scores": [1.0, 0.5], "extra_logs": logs}
    assert list(inspect.signature(reward_func).parameters)[:3] == ["queries", "prompts", "labels"]


def test_slime_awaits_a_sample_or_a_list(scorer):
    sample = SimpleNamespace(prompt="2+2?", response="4", label="4")
    custom_rm = slime(scorer)
    assert asyncio.run(custom_rm(None, sample)) == 1.0
    assert asyncio.run(custom_rm(None, [sample, sample])) == [1.0, 1.0]


def test_verifiers_awaits_methods_of_a_task(scorer):
    class Task:
        data = SimpleNamespace(prompt_text="2+2?", answer="4")
        reward, criteria = verifiers(scorer)

    trace = SimpleNamespace(last_reply="5")
    assert asyncio.run(Task().reward(trace=trace)) == 0.5
    assert asyncio.run(Task().criteria(trace=trace)) == {"right": 0.0, "short": 1.0}
    assert asyncio.run(Task.reward(task=Task.data, trace=trace)) == 0.5  # a function that a config names
    assert Task.reward.__name__ == "answer"


def test_an_output_without_a_reward_raises_or_gets_the_callers_value_and_never_0(scorer):
    with pytest.raises(Unscored, match="right: no reference"):
        verl(scorer)("gsm8k", "4", None)
    with pytest.raises(Unscored):
        openrlhf(scorer)(["p4"], ["p"], None)
    assert verl(scorer, unscored=-1.0)("gsm8k", "4", {"parts": []})["score"] == -1.0
