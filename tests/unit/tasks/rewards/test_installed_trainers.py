"""The forms that trainers call, held to the sources of the trainers that are installed; those that are not are skipped.

The sources are read, not imported: TRL, verl and OpenRLHF import torch. `pip install --no-deps trl verl openrlhf
verifiers` into a virtual environment of its own, on the PYTHONPATH of pytest, is enough for all but verifiers, which
runs here where it can be imported.
"""

import ast
import asyncio
import inspect
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest

from gradebook.rewards import openrlhf, verifiers, verl
from gradebook.rubrics.model.rubric import Rubric
from gradebook.tasks.rewards.scorer import RubricScorer

RIGHT = {"id": "right", "description": "Right.", "method": {"type": "check", "check": "exact_match"}}
RUBRIC = {"id": "answer", "version": "1.0.0", "criteria": [RIGHT]}


@pytest.fixture
def scorer() -> RubricScorer:
    return RubricScorer(Rubric.model_validate(RUBRIC))


def source_of(package: str, path: str) -> ast.Module:
    found = find_spec(package)
    if found is None or found.origin is None:
        pytest.skip(f"{package} is not installed")
    return ast.parse((Path(found.origin).parent / path).read_text(encoding="utf-8"))


def calls_of(tree: ast.Module, name: str) -> list[ast.Call]:
    """Calls of a function or attribute of that name."""
    calls = [node for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return [each for each in calls if getattr(each.func, "attr", getattr(each.func, "id", None)) == name]


def test_trl_calls_a_scorer_by_names_that_it_takes(scorer):
    calls = calls_of(source_of("trl", "trainer/grpo_trainer.py"), "reward_func")
    named = [{each.arg for each in call.keywords if each.arg} for call in calls if not call.args]
    by_column = [names for names in named if names]
    assert by_column == [{"prompts", "completions", "completion_ids"}]
    columns = {"trainer_state": None, "log_extra": print, "log_metric": print, "environments": [None], "answer": ["4"]}
    assert scorer(prompts=["2+2?"], completions=["4"], completion_ids=[[1]], reference=["4"], **columns) == [1.0]


@pytest.mark.parametrize(
    "path", ["workers/reward_manager/naive.py", "experimental/reward_loop/reward_manager/naive.py"]
)
def test_verl_calls_compute_score_by_names_that_it_takes(scorer, path):
    calls = calls_of(source_of("verl", path), "compute_score")
    assert calls
    compute_score = verl(scorer)
    for call in calls:
        named = {each.arg: None for each in call.keywords if each.arg}
        inspect.signature(compute_score).bind(**named)
        assert set(named) == {"data_source", "solution_str", "ground_truth", "extra_info"}
    # What its reward loop adds to a row's own extra_info.
    extra = {"num_turns": None, "rollout_reward_scores": {}, "index": 3}
    assert compute_score(data_source="a", solution_str="4", ground_truth="4", extra_info=extra)["score"] == 1.0


def test_openrlhf_calls_reward_func_and_posts_what_the_server_takes(scorer):
    tree = source_of("openrlhf", "utils/agent.py")
    threads = [call for call in calls_of(tree, "to_thread") if "reward_func" in ast.unparse(call.args[0])]
    assert [len(call.args) for call in threads] == [4]  # the function, queries, prompts, labels
    found = openrlhf(scorer)(["2+2?4"], ["2+2?"], ["4"])
    read = {call.args[0].value for call in calls_of(tree, "get") if "rewards_info" in ast.unparse(call.func)}
    assert read == {"rewards", "scores", "extra_logs"} == set(found)
    posted = [{key.value for key in node.keys} for node in ast.walk(tree) if isinstance(node, ast.Dict) and node.keys]
    assert {"query", "prompts", "labels"} in posted


def test_verifiers_scores_a_task_by_these_methods(scorer):
    vf = pytest.importorskip("verifiers.v1")
    reward, criteria = verifiers(scorer)

    class Data(vf.TaskData):
        answer: str

    class Task(vf.Task[Data]):
        right = vf.reward(reward)
        by_criterion = vf.metric(criteria)

    recorded: dict[str, object] = {}
    trace = SimpleNamespace(
        last_reply="4",
        metrics={},
        rewards={},
        record_metrics=recorded.update,
        record_reward=lambda name, value, weight: recorded.update({f"reward {name}": (value, weight)}),
    )
    asyncio.run(Task(Data(prompt="2+2?", answer="4")).score(trace))
    assert recorded == {"right": 1.0, "reward answer": (1.0, 1.0)}
